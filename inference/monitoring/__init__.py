"""Streams that are watched row by row, by evidence that is valid however long one looks."""
