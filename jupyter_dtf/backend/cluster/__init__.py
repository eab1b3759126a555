"""What runs inside the cluster process, Dask's scheduler included."""
