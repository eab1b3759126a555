"""Checkpoints of a task: writing them from a snapshot in the background, and reading them."""
