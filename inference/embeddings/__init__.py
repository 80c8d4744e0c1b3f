"""Conditional embeddings and filters whose settings are learned from the data."""
