"""Rows on their way in: reading, checks, rounding, order, units, and the built-in samples."""
