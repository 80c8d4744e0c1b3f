"""Kernels of scikit-learn as kernels of this package."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

import jax
import numpy as np

from .algebra import Product, Scaled, Sum
from .base import Covariance, Kernel
from .matern import Laplace, Matern
from .rational_quadratic import RationalQuadratic
from .squared_exponential import SquaredExponential

#: Module of scikit-learn's kernels; it is loaded if one exists.
MODULE = "sklearn.gaussian_process.kernels"


def is_sklearn(kernel: Any) -> bool:
    """Return whether it is a kernel of scikit-learn; does not import scikit-learn."""
    module = sys.modules.get(MODULE)
    return module is not None and isinstance(kernel, module.Kernel)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True, eq=False)
class SklearnKernel(Covariance):
    """Any kernel of scikit-learn, evaluated in NumPy: for tests and embeddings, not for ``fit``."""

    kernel: Any

    def matrix(self, X: jax.Array, Y: jax.Array) -> jax.Array:
        """Return the matrix k(x_i, y_j) of concrete arrays."""
        if any(isinstance(points, jax.core.Tracer) for points in (X, Y)):
            raise ValueError(f"{_no_jax(self.kernel)}, so it cannot be part of a compiled program")
        return self(X, Y)

    def __call__(self, X: Any, Y: Any = None) -> Any:
        """Return the (n, m) Gram matrix; ``Y`` defaults to ``X``."""
        x = _as_columns(X)
        return np.asarray(self.kernel(x, x if Y is None else _as_columns(Y)), dtype=float)

    def diagonal(self, X: jax.Array) -> Any:
        """Return k(x_i, x_i), shape (n,)."""
        return np.asarray(self.kernel.diag(_as_columns(X)), dtype=float)

    def __repr__(self) -> str:
        return f"scikit-learn's {self.kernel!r}"


def _as_columns(points: Any) -> np.ndarray:
    values = np.asarray(points, dtype=float)
    return values[:, None] if values.ndim == 1 else values


def _no_jax(kernel: Any) -> str:
    return f"scikit-learn's {kernel!r} is no function that JAX can differentiate"


def _converted(kernel: Any) -> Kernel | None:
    """Return the same kernel of this package, or None."""
    name = type(kernel).__name__ if type(kernel).__module__ == MODULE else ""
    if name == "RBF" or (name == "Matern" and kernel.nu == np.inf):
        return SquaredExponential(kernel.length_scale)
    if name == "Matern" and kernel.nu in (0.5, 1.5, 2.5):
        return Matern(kernel.nu, kernel.length_scale)
    if name == "RationalQuadratic":
        return RationalQuadratic(kernel.alpha, kernel.length_scale)
    if name == "PairwiseKernel" and kernel.metric == "laplacian":
        return Laplace(1.0 / kernel.gamma)
    if name not in ("Sum", "Product"):
        return None
    left, right = _converted(kernel.k1), _converted(kernel.k2)
    if name == "Product":
        for factor, other in ((kernel.k1, right), (kernel.k2, left)):
            if type(factor).__name__ == "ConstantKernel" and other is not None:
                return Scaled(other, float(factor.constant_value))
    if left is None or right is None:
        return None
    return Sum(left, right) if name == "Sum" else Product(left, right)


def from_sklearn(kernel: Any) -> Covariance:
    """Convert a kernel of ``sklearn.gaussian_process.kernels`` to one of this package.

    RBF, Matern (nu 0.5, 1.5, 2.5, inf), RationalQuadratic, the Laplacian PairwiseKernel, constants
    times these, their sums and products are converted, and ``fit`` takes them: single ones, times
    constants, in any number of columns; sums and products of RBF alone, and products of Laplacian
    kernels, also; others in one column only, by quadrature, if their lengths do not differ by a
    factor of thousands: beyond, the density is NaN, so a prior must keep them closer to each other
    than the default does. Any other kernel is evaluated in NumPy, for tests and embeddings.

    Raises:
        ValueError: if it is no such kernel, and for a WhiteKernel.
    """
    if not is_sklearn(kernel):
        raise ValueError(f"a kernel of {MODULE} is needed, got {kernel!r}")
    for part in (kernel, *kernel.get_params().values()):  # nested kernels are parameters too
        if type(part).__name__ == "WhiteKernel":
            raise ValueError(
                "WhiteKernel is noise of one row, whatever its value, which no embedding has: "
                "leave it out (the noise of an embedding is fit's noise_variance)"
            )
        if type(part).__name__ == "CompoundKernel":
            raise ValueError("CompoundKernel is several kernels at once: give one of them")
    return _converted(kernel) or SklearnKernel(kernel)


def as_kernel(kernel: Any) -> Any:
    """Return ``kernel``, converted if it is one of scikit-learn."""
    return from_sklearn(kernel) if is_sklearn(kernel) else kernel


def as_differentiable_kernel(kernel: Any) -> Any:
    """Convert as :func:`as_kernel`, and refuse a kernel without derivatives.

    Raises:
        ValueError: for a kernel that is only known in NumPy.
    """
    kernel = as_kernel(kernel)
    if isinstance(kernel, SklearnKernel):
        raise ValueError(
            f"{_no_jax(kernel.kernel)}, which learning needs: it can be used for tests and "
            "embeddings, and RBF, Matern (nu 0.5, 1.5, 2.5) and RationalQuadratic everywhere, as "
            "their sums and products in one column; with more columns, those of RBF only"
        )
    return kernel
