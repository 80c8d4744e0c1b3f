"""Kernels: Gram matrix, derivative in closed form and smoothed kernel r."""

from . import algebra as algebra  # enters what ``+`` and ``*`` of any kernels build
