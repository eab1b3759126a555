"""What whoever looks at clusters holds of them: the Jupyter server, a kernel, the command line."""
