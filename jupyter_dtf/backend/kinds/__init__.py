"""Kinds of Dask cluster: the options of each kind, and the code that starts its clusters."""
