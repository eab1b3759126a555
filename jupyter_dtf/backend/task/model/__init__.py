"""A compiled Keras model as plain data and back, with all that it holds."""
