"""The code of the Jupyter server: REST routes, event stream, and server extension. Only this folder uses tornado."""
