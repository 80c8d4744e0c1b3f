"""Diagnostics of draws from Markov chains and other samplers, and thinning."""
