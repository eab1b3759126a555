"""The code that runs in the cluster process and in Dask's scheduler."""
