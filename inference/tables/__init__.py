"""Comparison of two tables with columns of any type and missing values."""
