"""Processes that work for the Jupyter server for a while and end: one module each, with an entry
point by which the server finds it. What they are asked is in ``schema.errand``.
"""
