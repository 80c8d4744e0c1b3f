"""The measure nu of the smoothed kernel r, and what a distribution on its scale must be."""
