"""Kernels: Gram matrix, derivative in closed form and smoothed kernel r."""

from .algebra import Product, Scaled, Sum
from .base import Covariance, Kernel, SmoothingError
from .distance import Distance
from .gaussian import FullSquaredExponential, GaussianMixture
from .laplace import Laplace
from .matern import Matern
from .polynomial import Polynomial
from .rational_quadratic import RationalQuadratic
from .spectral_mixture import SpectralMixture
from .squared_exponential import SquaredExponential

__all__ = [
    "Covariance",
    "Distance",
    "FullSquaredExponential",
    "GaussianMixture",
    "Kernel",
    "Laplace",
    "Matern",
    "Polynomial",
    "Product",
    "RationalQuadratic",
    "Scaled",
    "SmoothingError",
    "SpectralMixture",
    "SquaredExponential",
    "Sum",
]
