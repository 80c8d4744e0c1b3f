"""Data preparation: checks, equality of numbers, canonical order, units and built-in samples."""
