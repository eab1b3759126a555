"""Facts about the machine that a process runs on, and services on it, for all kinds of processes."""
