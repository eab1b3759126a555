"""What runs inside a task process."""
