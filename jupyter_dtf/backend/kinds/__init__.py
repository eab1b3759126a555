"""Kinds of Dask cluster: the options of each, and how its parts are started."""
