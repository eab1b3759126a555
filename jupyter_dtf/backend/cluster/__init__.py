"""The code that runs inside the cluster process, including Dask's scheduler."""
