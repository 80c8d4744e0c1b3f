"""Kernels of scikit-learn as kernels of this package."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from .algebra import Product, Scaled, Sum
from .base import Kernel
from .covariance import Covariance
from .matern import Laplace, Matern
from .rational_quadratic import RationalQuadratic
from .squared_exponential import SquaredExponential

#: Where scikit-learn's kernels are; one that exists has loaded it.
MODULE = "sklearn.gaussian_process.kernels"


def is_sklearn(kernel: Any) -> bool:
    """Whether it is a kernel of scikit-learn; does not import scikit-learn."""
    module = sys.modules.get(MODULE)
    return module is not None and isinstance(kernel, module.Kernel)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True, eq=False)
class SklearnKernel(Covariance):
    """Any kernel of scikit-learn, evaluated in NumPy: for tests and embeddings, not for ``fit``."""

    kernel: Any

    def matrix(self, X: jax.Array, Y: jax.Array) -> jax.Array:
        """The matrix k(x_i, y_j) of concrete arrays."""
        if any(isinstance(points, jax.core.Tracer) for points in (X, Y)):
            raise ValueError(f"{_no_jax(self.kernel)}, so it cannot be part of a compiled program")
        found: jax.Array = self._values(X, Y)  # type: ignore[assignment]
        return found

    def __call__(self, X: Any, Y: Any = None) -> Any:
        """The (n, m) Gram matrix; ``Y`` defaults to ``X``."""
        return self._values(X, X if Y is None else Y)

    def diagonal(self, X: jax.Array) -> Any:
        """k(x_i, x_i), shape (n,)."""
        return np.asarray(self.kernel.diag(_columns(X)), dtype=float)

    def _values(self, X: Any, Y: Any) -> np.ndarray:
        return np.asarray(self.kernel(_columns(X), _columns(Y)), dtype=float)

    def __repr__(self) -> str:
        return f"scikit-learn's {self.kernel!r}"


def _columns(points: Any) -> np.ndarray:
    values = np.asarray(points, dtype=float)
    return values[:, None] if values.ndim == 1 else values


def _no_jax(kernel: Any) -> str:
    return f"scikit-learn's {kernel!r} is no function that JAX can differentiate"


def _of_constant(part: Any, kernel: Covariance) -> Covariance | None:
    """A constant of scikit-learn times ``kernel``, where it is one."""
    if type(part).__name__ != "ConstantKernel" or not isinstance(kernel, Kernel):
        return None
    return Scaled(kernel, float(part.constant_value))


def _converted_parts(kernel: Any, combine: Callable[[Kernel, Kernel], Kernel]) -> Covariance | None:
    left, right = _converted(kernel.k1), _converted(kernel.k2)
    if isinstance(left, Kernel) and isinstance(right, Kernel):
        return combine(left, right)
    return None


def _converted(kernel: Any) -> Covariance | None:
    """As one of ours, or None."""
    name = type(kernel).__name__ if type(kernel).__module__ == MODULE else ""
    if name == "RBF" or (name == "Matern" and kernel.nu == np.inf):
        return SquaredExponential(kernel.length_scale)
    if name == "Matern" and kernel.nu in (0.5, 1.5, 2.5):
        return Matern(kernel.nu, kernel.length_scale)
    if name == "RationalQuadratic":
        return RationalQuadratic(kernel.alpha, kernel.length_scale)
    if name == "PairwiseKernel" and kernel.metric == "laplacian":
        return Laplace(1.0 / kernel.gamma)
    if name == "Sum":
        return _converted_parts(kernel, Sum)
    if name == "Product":
        for constant, other in ((kernel.k1, kernel.k2), (kernel.k2, kernel.k1)):
            if (inner := _converted(other)) and (found := _of_constant(constant, inner)):
                return found
        return _converted_parts(kernel, Product)
    return None


def _parts(kernel: Any) -> list[Any]:
    """A kernel and all kernels in it."""
    inner = [part for part in kernel.get_params(deep=False).values() if is_sklearn(part)]
    return [kernel, *(one for part in inner for one in _parts(part))]


def from_sklearn(kernel: Any) -> Covariance:
    """A kernel of ``sklearn.gaussian_process.kernels`` as one of this package.

    RBF, Matern (nu 0.5, 1.5, 2.5, inf), RationalQuadratic, the Laplacian PairwiseKernel, constants
    times these, their sums and products become ours, which ``fit`` takes too: single ones, times
    constants, in any number of columns, sums and products where RBF, or Laplacian kernels in
    products, are all there is, others in one column only, by quadrature, where their lengths do not
    differ by a factor of thousands: beyond, the density is no number, so a prior must keep them
    nearer to each other than the default does. Any other is kept as it is and evaluated in NumPy,
    for tests and embeddings.

    Raises:
        ValueError: for what is no such kernel, and for a WhiteKernel.
    """
    if not is_sklearn(kernel):
        raise ValueError(f"a kernel of {MODULE} is needed, got {kernel!r}")
    for part in _parts(kernel):
        if type(part).__name__ == "WhiteKernel":
            raise ValueError(
                "WhiteKernel is noise of one row, whatever its place, which no embedding has: "
                "leave it out (the noise of an embedding is fit's noise_variance)"
            )
        if type(part).__name__ == "CompoundKernel":
            raise ValueError("CompoundKernel is several kernels at once: give one of them")
    return _converted(kernel) or SklearnKernel(kernel)


def as_kernel(kernel: Any) -> Any:
    """``kernel``, or where it is one of scikit-learn that as one of ours."""
    return from_sklearn(kernel) if is_sklearn(kernel) else kernel


def as_differentiable_kernel(kernel: Any) -> Any:
    """:func:`as_kernel` for what needs derivatives.

    Raises:
        ValueError: for a kernel that is only known in NumPy.
    """
    found = as_kernel(kernel)
    if isinstance(found, SklearnKernel):
        raise ValueError(
            f"{_no_jax(found.kernel)}, which learning needs: it can be used for tests and "
            "embeddings, and RBF, Matern (nu 0.5, 1.5, 2.5) and RationalQuadratic everywhere, as "
            "their sums and products in one column; with more columns, those of RBF only"
        )
    return found
