"""Kernels: Gram matrix, derivative in closed form and smoothed kernel r."""
