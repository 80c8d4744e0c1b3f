"""The kernel of one variable, chosen from its sample."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, get_args

import numpy as np
from bke.models.kernels.base import Covariance

from ..data.canonical import canonical_order
from ..data.checks import as_sample, check_positive
from ..errors import InputError
from ..runtime.machine import computing
from .choice import kernels_for
from .names import OneKernel

CHOICES: tuple[str, ...] = get_args(OneKernel)
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
            kernel.
        scale: ``"column"``: distances are taken with every column over its standard deviation;
            ``"pooled"`` or ``None``: of the columns as they are.
        seed: of the rows taken, where there are many.
        name: of the sample, for messages.

    Raises:
        InputError: for a choice that there is not, or a sample that has no kernel.
    """
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
    """The multiples of the lengthscale that are compared, by default 1 where there is none.

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
    """A kernel in words, its lengthscale to four digits."""
    if not hasattr(kernel, "lengthscale"):
        return repr(kernel)
    values = np.atleast_1d(np.asarray(kernel.lengthscale, dtype=float))
    scales = ", ".join(f"{value:.4g}" for value in values[:MOST_SHOWN])
    more = f", ... ({len(values)})" if len(values) > MOST_SHOWN else ""
    return f"{type(kernel).__name__} with lengthscale {scales}{more}"


def widened(kernel: Covariance, factor: float) -> Covariance:
    """``kernel`` with its lengthscale times ``factor``.

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
