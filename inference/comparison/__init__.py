"""Comparison of two samples: test, regions, posterior and size of a difference; matching."""
