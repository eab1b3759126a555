"""Everything behind the Python API and the server: a room for each process, and two for what is pure."""
