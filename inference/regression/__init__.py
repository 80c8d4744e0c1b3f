"""Distributions as inputs: groups of rows in, a number out."""
