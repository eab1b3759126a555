"""Checkpoints of a task: written from a snapshot in the background, and read again."""
