"""Short-lived subprocesses of the Jupyter server, with requests that ``schema.subprocess_job`` defines.

Each is a module with an entry point by which the server finds it.
"""
