"""Facts about this machine, and services for all kinds of processes on it."""
