"""Bayesian inference for models that can be simulated, but whose likelihood cannot be computed."""
