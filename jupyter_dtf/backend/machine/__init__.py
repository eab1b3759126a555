"""Facts and services of the machine that a process runs on, for all processes."""
