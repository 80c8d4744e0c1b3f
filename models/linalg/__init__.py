"""Linear algebra and numerics that know no statistics."""
