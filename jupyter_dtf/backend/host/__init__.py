"""The code that runs inside a Dask worker."""
