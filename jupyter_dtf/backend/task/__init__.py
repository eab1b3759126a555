"""The code that runs inside a task process."""
