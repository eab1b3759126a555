"""Ports that only the user of this process can reach."""
