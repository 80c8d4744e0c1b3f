"""Linear algebra, arrays of rows, and JAX support without statistics."""
