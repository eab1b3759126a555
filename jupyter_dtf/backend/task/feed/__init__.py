"""Feeding of a running task: other processes on its machine push items to it and fetch results from it."""
