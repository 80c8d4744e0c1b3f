"""Filtering, prediction and smoothing of hidden states by kernel Bayes' rule."""
