"""The viewer's side of clusters: code that the Jupyter server, kernels and the command line use."""
