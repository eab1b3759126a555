"""Kinds of Dask cluster: how each is asked for, and how its parts are started."""
