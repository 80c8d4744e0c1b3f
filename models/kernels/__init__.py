"""Kernels: Gram matrix, derivative in closed form and smoothed kernel r."""

from .algebra import Product, Scaled, Sum
from .base import Kernel, SmoothingError
from .gaussian import FullSquaredExponential, GaussianMixture
from .laplace import Laplace
from .matern import Matern
from .rational_quadratic import RationalQuadratic
from .spectral_mixture import SpectralMixture
from .squared_exponential import SquaredExponential

__all__ = [
    "FullSquaredExponential",
    "GaussianMixture",
    "Kernel",
    "Laplace",
    "Matern",
    "Product",
    "RationalQuadratic",
    "Scaled",
    "SmoothingError",
    "SpectralMixture",
    "SquaredExponential",
    "Sum",
]
