"""Exchanges between machines by plain TCP: connections of the run's own, which nobody else gets."""
