"""Hypothesis tests whose kernels are learned from the data that they test."""
