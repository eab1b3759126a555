"""Short-lived subprocesses of the Jupyter server. Each is a module with an entry point by which the server finds
it; ``schema.subprocess_job`` defines their requests.
"""
