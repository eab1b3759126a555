"""Checkpoints of a task: written aside from a snapshot while the program goes on, and read again."""
