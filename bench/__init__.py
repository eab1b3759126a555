"""Benchmarks. Each measures its plain alternative in the same run, and prints the ratio. They are not tests."""
