"""Mean embeddings: as values with a posterior, and as elements of a Hilbert space."""
