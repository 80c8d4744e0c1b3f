"""Draws of Markov chains and of other samplers: whether they are what they are to be."""
