"""Conditional embeddings and the rules of probability, in finite features of the sample.

A Gram matrix is Z Z' with Z (n, r) of its numerical rank, by an incomplete Cholesky factorisation:
with it an operator on the Hilbert space is an r x r matrix, exact to rounding at full rank and a
controlled approximation below. Computed eagerly, in NumPy.
"""
