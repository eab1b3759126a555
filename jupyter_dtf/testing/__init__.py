"""What the authors of other packages run in their own tests. It needs pytest."""
