"""Kernels: Gram matrix, derivative in closed form and smoothed kernel r."""

from .base import Kernel, SmoothingError
from .squared_exponential import SquaredExponential

__all__ = ["Kernel", "SmoothingError", "SquaredExponential"]
