"""Conversion of kernels to and from scikit-learn: the same functions of the data."""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np
from bke.models import (
    GaussianMixture,
    Laplace,
    Matern,
    Product,
    RationalQuadratic,
    Scaled,
    SquaredExponential,
    Sum,
)
from bke.models.kernels.base import Kernel
from bke.models.kernels.scikit_learn import from_sklearn as from_sklearn

from ..core.errors import InputError


def rbf_gamma(kernel: Kernel) -> float:
    """Return 1 / (2 lengthscale^2), the ``gamma`` of scikit-learn's exp(-gamma |x - y|^2).

    Raises:
        InputError: if the kernel is not a squared exponential with one lengthscale.
    """
    if not isinstance(kernel, SquaredExponential) or len(np.unique(kernel.lengthscale)) > 1:
        raise InputError(
            "only a squared exponential kernel with one lengthscale is exp(-gamma |x - y|^2): "
            "use to_sklearn(kernel), or divide each column by its lengthscale"
        )
    return 0.5 / _scalar_lengthscale(kernel) ** 2


def to_sklearn(kernel: Kernel) -> Any:
    """Convert a kernel to one of ``sklearn.gaussian_process.kernels``.

    Scikit-learn's estimators with ``kernel="precomputed"`` take the Gram matrix ``kernel(X, X)`` of
    any kernel.

    Raises:
        InputError: if scikit-learn has no such kernel or is not installed.
    """
    try:
        from sklearn.gaussian_process import kernels
    except ImportError:
        raise InputError("scikit-learn is not installed: pip install 'bke[sklearn]'") from None
    if isinstance(kernel, Sum):
        return to_sklearn(kernel.left) + to_sklearn(kernel.right)
    if isinstance(kernel, Product):
        return to_sklearn(kernel.left) * to_sklearn(kernel.right)
    if isinstance(kernel, Scaled):
        return kernels.ConstantKernel(float(kernel.variance)) * to_sklearn(kernel.kernel)
    if isinstance(kernel, SquaredExponential):
        return kernels.RBF(_lengthscale(kernel))
    if isinstance(kernel, Matern):
        return kernels.Matern(_lengthscale(kernel), nu=kernel.nu)
    if isinstance(kernel, RationalQuadratic):
        return kernels.RationalQuadratic(_scalar_lengthscale(kernel), alpha=float(kernel.alpha))
    if isinstance(kernel, Laplace):
        return kernels.PairwiseKernel(gamma=1.0 / _scalar_lengthscale(kernel), metric="laplacian")
    if isinstance(kernel, GaussianMixture):
        components = np.atleast_1d(np.asarray(kernel.lengthscale, dtype=float))
        count = max(len(components), 1 if kernel.weights is None else np.size(kernel.weights))
        weights = np.broadcast_to(1.0 / count if kernel.weights is None else kernel.weights, count)
        components = np.broadcast_to(components, (count, *components.shape[1:]))
        terms = [
            kernels.ConstantKernel(float(weight)) * to_sklearn(SquaredExponential(lengthscale))
            for weight, lengthscale in zip(weights, components, strict=True)
        ]
        return functools.reduce(operator.add, terms)
    raise InputError(
        f"scikit-learn has no kernel like {kernel!r}: use kernel='precomputed' with the matrix "
        "kernel(X, X) of an instance"
    )


def _lengthscale(kernel: Any) -> Any:
    """Return a float, or one per column."""
    value = np.asarray(kernel.lengthscale, dtype=float)
    return value if value.ndim and len(value) > 1 else value.item()


def _scalar_lengthscale(kernel: Any) -> float:
    value = np.unique(np.asarray(kernel.lengthscale, dtype=float))
    if len(value) > 1:
        raise InputError(
            f"scikit-learn's {type(kernel).__name__} has one lengthscale for all columns, and this "
            "one has several: divide each column by its own, or learn with standardize='pooled'"
        )
    return float(value[0])
