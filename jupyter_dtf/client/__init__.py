"""The Python API: ``Cluster``, ``Run``, ``fit``, placement, servers."""
