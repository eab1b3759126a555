"""The code that runs in the Jupyter server: extension, REST routes and event stream. Only this folder uses tornado."""
