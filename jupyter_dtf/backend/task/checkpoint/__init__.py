"""Checkpoints of a task, which are written from a snapshot in the background and can be read again."""
