"""What feeds a task while it runs: items that other processes of its machine push, and results that they fetch."""
