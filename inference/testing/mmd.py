"""Squared MMDs of all relabellings of a pooled sample, in one matrix product or by a factor."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..permutation.permutation import in_batches, without_rounding
from .factors import Factor
from .gram import centred


def mmd_row(
    gram: np.ndarray | Factor,
    labels: np.ndarray,
    *,
    estimator: str = "unbiased",
    advance: Callable[[int], None] = lambda count: None,
) -> np.ndarray:
    """Evaluate the squared MMD for every column of ``labels``.

    With K the Gram matrix (less its diagonal, if unbiased) and z one column, one product K z gives
    all three sums: z'Kz, z'K(1-z) = 1'Kz - z'Kz and (1-z)'K(1-z) = 1'K1 - 2 1'Kz + z'Kz.

    Args:
        gram: (N, N) of the pooled sample, or its factor.
        labels: (N, 1 + B) of bool.
        estimator: ``"biased"`` (MMD-4), ``"unbiased"`` (MMD-5) or, for rows i and N/2 + i that are
            pairs, ``"paired"`` (MMD-6).
        advance: called with the columns that are done.

    Returns:
        (1 + B,).
    """
    m = int(labels[:, 0].sum())
    n = len(labels) - m
    if isinstance(gram, Factor):
        within, side, total, magnitude = _by_factor(gram, labels, estimator, advance)
    else:
        within, side, total, magnitude = _by_matrix(gram, labels, estimator, advance)
    own = 0 if estimator == "biased" else 1
    across = m * (m - 1) if estimator == "paired" else m * n
    row = (
        within / (m * (m - own))
        + (total - 2.0 * side + within) / (n * (n - own))
        - 2.0 * (side - within) / across
    )
    return without_rounding(row, magnitude)


class _Sums(NamedTuple):
    """Sums over the centred Gram matrix K, less what the estimator leaves out, for every z.

    No estimate changes under k(x, y) + f(x) + f(y); what is large and common would cancel.
    """

    within: np.ndarray  # (1 + B,), z'Kz
    side: np.ndarray  # (1 + B,), 1'Kz
    total: float  # 1'K1
    magnitude: float  # of the entries of K


def _by_matrix(
    gram: np.ndarray, labels: np.ndarray, estimator: str, advance: Callable[[int], None]
) -> _Sums:
    inner = centred(gram)
    if estimator != "biased":
        np.fill_diagonal(inner, 0.0)
    if estimator == "paired":
        first, second = _pairs(len(labels))
        inner[first, second] = inner[second, first] = 0.0
    sums = inner.sum(axis=0)

    def one(columns: slice) -> np.ndarray:
        z = labels[:, columns].astype(float)
        within = np.einsum("ij,ij->j", z, inner @ z)
        advance(z.shape[1])
        return np.stack([within, sums @ z])

    within, side = in_batches(one, labels.shape[1], 24 * len(labels))
    return _Sums(within, side, float(inner.sum()), float(max(inner.max(), -inner.min())))


def _by_factor(
    gram: Factor, labels: np.ndarray, estimator: str, advance: Callable[[int], None]
) -> _Sums:
    """The sums where K = F F' less what is left out; the columns of F add up to nothing."""
    factor = gram.centred()
    diagonal = factor.diagonal
    left_out = np.zeros_like(diagonal) if estimator == "biased" else diagonal
    within_pairs = np.zeros_like(diagonal)
    if estimator == "paired":
        first, second = _pairs(len(labels))
        F = factor.transposed
        within_pairs[first] = within_pairs[second] = np.einsum(
            "rn,rn->n", F[:, first], F[:, second]
        )
    projected = Factor(np.vstack([factor.transposed, left_out, within_pairs])).sums(labels)
    *of_factor, own, of_pairs = projected
    advance(labels.shape[1])
    # Of the two of a pair one is in z, so their products are in no z'Kz.
    within = np.sum(np.square(of_factor), axis=0) - own
    total = -float(left_out.sum() + within_pairs.sum())
    return _Sums(within, -own - of_pairs, total, float(diagonal.max()))


def _pairs(rows: int) -> tuple[np.ndarray, np.ndarray]:
    first = np.arange(rows // 2)
    return first, rows // 2 + first
