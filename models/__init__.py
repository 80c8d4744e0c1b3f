"""What is believed: kernels, embeddings and the Bayesian kernel embedding model."""
