"""Kernels with Gram matrix, derivative in closed form and smoothed kernel r."""

from . import algebra as algebra  # registers the classes that ``+`` and ``*`` build
