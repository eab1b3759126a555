"""Everything behind the Python API and the server: a package for each kind of process, and shared packages."""
