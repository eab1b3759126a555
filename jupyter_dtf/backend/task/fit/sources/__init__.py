"""Data with batches that are global, over all tasks: one module per form, all implementing ``base.BatchSource``."""
