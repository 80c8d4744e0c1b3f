"""Kernels: Gram matrix, derivative in closed form and smoothed kernel r."""

from .algebra import Product, Scaled, Sum
from .base import Covariance, Kernel, SmoothingError
from .dirac import Dirac
from .distance import Distance
from .gaussian import FullSquaredExponential, GaussianMixture
from .laplace import Laplace
from .matern import Matern
from .polynomial import Polynomial
from .rational_quadratic import RationalQuadratic
from .rotation import Rotation, rotations
from .spectral_mixture import SpectralMixture
from .squared_exponential import SquaredExponential

__all__ = [
    "Covariance",
    "Dirac",
    "Distance",
    "FullSquaredExponential",
    "GaussianMixture",
    "Kernel",
    "Laplace",
    "Matern",
    "Polynomial",
    "Product",
    "RationalQuadratic",
    "Rotation",
    "Scaled",
    "SmoothingError",
    "SpectralMixture",
    "SquaredExponential",
    "Sum",
    "rotations",
]
