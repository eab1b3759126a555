"""Conversion of a compiled Keras model, with all of its state, to plain data and back."""
