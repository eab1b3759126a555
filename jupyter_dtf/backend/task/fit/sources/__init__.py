"""Data whose own batches are those of all tasks together: one module a form, all behind ``base.BatchSource``."""
