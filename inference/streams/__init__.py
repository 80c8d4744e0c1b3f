"""Data larger than memory: rows of a file, gone through a block at a time."""
