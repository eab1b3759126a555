"""Traces of runs: the files that tasks leave, and Chrome's format. Pure but for reading files."""
