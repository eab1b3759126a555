"""A model's graph of layers, from the model itself or from a file."""
