"""Multiples of a kernel's lengthscale, compared where another than the sample's own may serve."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from bke.models.kernels.base import Covariance

from ..data.checks import check_positive
from ..errors import InputError

#: Lengthscales that are shown in words.
MOST_SHOWN = 6


def factors_for(
    factors: Sequence[float] | None, default: Sequence[float], kernel: Covariance
) -> tuple[float, ...]:
    """Check the multiples of the lengthscale to compare; 1 alone where a kernel has none.

    Raises:
        InputError: there are none, or one is not positive.
    """
    if factors is None:
        return tuple(default) if hasattr(kernel, "lengthscale") else (1.0,)
    if len(factors) == 0:
        raise InputError("factors must hold at least one number")
    for factor in factors:
        check_positive(factor, "a factor")
    return tuple(factors)


def described(kernel: Covariance) -> str:
    """Name a kernel in words, its lengthscale to four digits."""
    if not hasattr(kernel, "lengthscale"):
        return repr(kernel)
    values = np.atleast_1d(np.asarray(kernel.lengthscale, dtype=float))
    scales = ", ".join(f"{value:.4g}" for value in values[:MOST_SHOWN])
    more = f", ... ({len(values)})" if len(values) > MOST_SHOWN else ""
    return f"{type(kernel).__name__} with lengthscale {scales}{more}"


def widened(kernel: Covariance, factor: float) -> Covariance:
    """Multiply the lengthscale of ``kernel`` by ``factor``.

    Raises:
        InputError: it has no lengthscale.
    """
    if factor == 1.0:
        return kernel
    if not hasattr(kernel, "lengthscale"):
        raise InputError(
            f"{type(kernel).__name__} has no lengthscale to be multiplied: the only factor is 1"
        )
    changed: Any = dataclasses.replace(kernel, lengthscale=np.asarray(kernel.lengthscale) * factor)  # type: ignore[type-var]
    return changed  # type: ignore[no-any-return]
