"""Gram matrices: how they are made, centred and averaged."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.errors import InputError
from ..permutation.permutation import RESOLUTION

TELLS_NOTHING = "the kernel tells no rows apart: its lengthscale does not fit the data"


def gram(kernel: Any, points: np.ndarray) -> np.ndarray:
    """Make the Gram matrix (N, N), or name what is wrong with it in an error."""
    try:
        matrix = np.asarray(kernel(points, points), dtype=float)
    except ValueError as error:
        raise InputError(f"the kernel does not fit the data: {error}") from None
    if not np.isfinite(matrix).all():
        raise InputError("the kernel has values that are not finite at these data")
    return matrix


def centred(gram: np.ndarray) -> np.ndarray:
    """Centre a Gram matrix (n, n): H K H with H = I - 11'/n."""
    columns = gram.mean(axis=0)
    inner = gram - columns
    inner -= (columns - columns.mean())[:, None]  # in place: passes over memory are what it costs
    return np.asarray(inner)


def off_diagonal(gram: np.ndarray) -> float:
    """Average a Gram matrix (n, n) over all pairs of different rows."""
    n = len(gram)
    return float((gram.sum() - np.trace(gram)) / (n * (n - 1)))


def biased_mmd(gram: np.ndarray, m: int) -> float:
    """Estimate the squared MMD (MMD-4) of the first m rows and the others, with bias."""
    return float(gram[:m, :m].mean() + gram[m:, m:].mean() - 2.0 * gram[:m, m:].mean())


def check_tells_apart(gram: np.ndarray) -> None:
    """Refuse a kernel to which all rows are equal, or any two as different as any others."""
    inner = centred(gram)
    diagonal = np.diagonal(inner)
    rest = inner - np.diag(diagonal)
    even = np.ptp(diagonal) + np.ptp(rest[~np.eye(len(inner), dtype=bool)])
    if even <= RESOLUTION * np.abs(gram).max():
        raise InputError(TELLS_NOTHING)
