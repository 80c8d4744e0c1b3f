"""The kernel of one variable, chosen from its sample."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from bke.models.kernels.base import Covariance
from bke.models.kernels.parameters import lengths_of
from bke.models.kernels.scikit_learn import given_kernel

from ..data.canonical import canonical_order
from ..data.checks import as_sample, check_positive
from ..errors import InputError
from ..runtime.machine import computing
from .choice import kernels_for

CHOICES = ("bkl", "median")
#: Lengthscales that are shown in words.
MOST_SHOWN = 6


def kernel_of(
    X: Any,
    choice: str | Covariance,
    *,
    scale: str | None = "column",
    seed: int = 0,
    name: str = "X",
) -> Covariance:
    """The kernel that ``choice`` names for a sample, in the units of the data.

    Args:
        X: the sample, shape (n, D) or (n,).
        choice: ``"bkl"``, a squared exponential with the lengthscale of highest marginal likelihood
            (:func:`~bke.inference.learn_kernel`, of 500 rows at most, where several modes compete
            ranked by 2000); ``"median"``, the median distance between two rows (MMD-20); or a
            kernel, of this package or of ``sklearn.gaussian_process.kernels``.
        scale: ``"column"``: distances are taken with every column over its standard deviation;
            ``"pooled"`` or ``None``: of the columns as they are.
        seed: of the rows taken, where there are many.
        name: of the sample, for messages.

    Raises:
        InputError: for a choice that there is not, or a sample that has no kernel.
    """
    try:
        choice = given_kernel(choice)
    except ValueError as error:
        raise InputError(str(error)) from None
    if isinstance(choice, Covariance):
        return choice
    if choice not in CHOICES:
        raise InputError(f"a kernel must be a kernel or one of {CHOICES}, got {choice!r}")
    points = as_sample(X, name)
    if np.all(points == points[0]):
        raise InputError(f"all rows of {name} are equal: no kernel can be chosen from them")
    with computing():
        return kernels_for(choice, points[canonical_order(points)], scale, seed)[0]


def factors_for(
    factors: Sequence[float] | None, default: Sequence[float], kernel: Covariance
) -> tuple[float, ...]:
    """The multiples of the kernel's lengths that are compared, by default 1 where it has none.

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


def described(kernel: Covariance) -> str:
    """A kernel in words, its lengths to four digits."""
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


def widened(kernel: Covariance, factor: float) -> Covariance:
    """``kernel`` with its lengths times ``factor``.

    Raises:
        InputError: it has none.
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
