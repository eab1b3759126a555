"""A viewer's side of clusters: the code for the Jupyter server, kernels and the command line."""
