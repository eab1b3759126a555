"""The Jupyter server's side: REST routes, the event stream, the extension that holds them. Only here is tornado."""
