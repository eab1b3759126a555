"""What a person meets in a kernel or a script: ``Cluster``, ``Run``, magics, displays."""
