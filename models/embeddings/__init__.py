"""Mean embeddings: values with a posterior, elements of a Hilbert space, conditional ones."""
