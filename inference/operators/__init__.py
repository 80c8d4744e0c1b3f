"""Conditional embeddings and filters whose kernels and regularisation are found from the data."""
