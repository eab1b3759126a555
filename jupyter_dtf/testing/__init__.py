"""Tests that the authors of other packages run in their own test suites. Requires pytest."""
