"""Short-lived subprocesses of the Jupyter server, with requests that ``schema.subprocess_job`` defines.

Each is a module that the server finds by its entry point.
"""
