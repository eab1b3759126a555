"""The Jupyter server side: REST routes, the event stream, and the server extension. Only this folder uses tornado."""
