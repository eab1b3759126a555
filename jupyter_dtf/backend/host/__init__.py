"""What runs inside a Dask worker."""
