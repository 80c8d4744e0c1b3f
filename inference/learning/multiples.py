"""Multiples of a kernel's lengthscale, compared where another than the sample's own may serve."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from bke.models.kernels.base import Covariance
from bke.models.kernels.parameters import lengths_of

from ..core.errors import InputError
from ..data.checks import check_positive

#: Lengthscales that are shown in words.
MOST_SHOWN = 6


def check_factors(
    factors: Sequence[float] | None, default: Sequence[float], kernel: Covariance
) -> tuple[float, ...]:
    """Check the multiples of a kernel's lengths to compare; 1 alone where it has none.

    Raises:
        InputError: there are none, or one is not positive.
    """
    if factors is None:
        return tuple(default) if lengths_of(kernel) else (1.0,)
    if len(factors) == 0:
        raise InputError("factors must hold at least one number")
    for factor in factors:
        check_positive(factor, "a factor")
    return tuple(factors)


def format_kernel(kernel: Covariance) -> str:
    """Name a kernel in words, its lengths to four digits."""
    lengths = lengths_of(kernel)
    if not lengths:
        return repr(kernel)
    told = []
    for name, length in lengths.items():
        values = np.atleast_1d(np.asarray(length, dtype=float))
        scales = ", ".join(f"{value:.4g}" for value in values[:MOST_SHOWN])
        more = f", ... ({len(values)})" if len(values) > MOST_SHOWN else ""
        told.append(f"{name} {scales}{more}")
    return f"{type(kernel).__name__} with {' and '.join(told)}"


def scale_lengthscales(kernel: Covariance, factor: float) -> Covariance:
    """Multiply the lengths of ``kernel`` by ``factor``.

    Raises:
        InputError: it has no lengthscale.
    """
    if factor == 1.0:
        return kernel
    lengths = lengths_of(kernel)
    if not lengths:
        raise InputError(
            f"{type(kernel).__name__} has no lengthscale to be multiplied: the only factor is 1"
        )
    longer = {name: np.asarray(length) * factor for name, length in lengths.items()}
    changed: Any = dataclasses.replace(kernel, **longer)  # type: ignore[type-var]
    return changed  # type: ignore[no-any-return]
