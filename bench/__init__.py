"""Measurements, each side by side with the plain alternative in the same run, printed as ratios. Not tests."""
