"""Feeding a running task: items that other processes of its machine push, and results that they fetch."""
