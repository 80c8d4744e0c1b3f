"""The permutation null of independence: y dealt out anew to the x."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from bke.models.linalg.pivoted_cholesky import dense_pivoted_cholesky

from ..permutation.permutation import in_batches, without_rounding
from .gram import centred

#: A pivoted Cholesky factor ends where no pivot is larger than this, over the largest.
NEGLIGIBLE = 1e-12
#: The factors pay where the product of their ranks is below this many n: a gathered entry of a
#: Gram matrix costs as much as this many multiplications.
PAYS = 64


def pairings(size: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Deal the y out to the x, (1 + count, size): as they are at first, then at random."""
    rows = np.tile(np.arange(size), (1 + count, 1))
    rows[1:] = rng.permuted(rows[1:], axis=1)
    return rows


class Side(NamedTuple):
    """What one variable's Gram matrix adds to a statistic."""

    gram: np.ndarray  # (n, n)
    factor: np.ndarray  # (n, r), gram = factor factor'
    diagonal: np.ndarray  # (n,)
    sums: np.ndarray  # (n,), of the rows, less the diagonal


def side(gram: np.ndarray) -> Side:
    """Prepare a Gram matrix (n, n) once, however many statistics it is part of.

    Neither estimate of HSIC changes under k(x, y) + f(x) + f(y), and what is large and common to
    all entries would cancel.
    """
    gram = centred(gram)
    diagonal = np.diagonal(gram).copy()
    return Side(gram, cholesky_factor(gram), diagonal, gram.sum(axis=0) - diagonal)


def cholesky_factor(gram: np.ndarray) -> np.ndarray:
    """Factorise gram = A A' but for rounding, A (n, r), by pivoted Cholesky."""
    largest = max(float(np.max(np.diagonal(gram))), np.finfo(float).tiny)
    return dense_pivoted_cholesky(gram, NEGLIGIBLE * largest)[0]


def hsic_row(
    x: Side,
    y: Side,
    rows: np.ndarray,
    *,
    estimator: str = "unbiased",
    advance: Callable[[int], None] = lambda count: None,
) -> np.ndarray:
    """Evaluate HSIC for every pairing, by factors of low rank where that pays.

    Args:
        x: see :func:`side`.
        y: likewise.
        rows: (1 + B, n), see :func:`pairings`.
        estimator: ``"biased"`` (DEP-2) or ``"unbiased"`` (DEP-3).
        advance: called with the pairings that are done.

    Returns:
        (1 + B,).
    """
    n = len(x.gram)
    biased = estimator == "biased"
    ranks = x.factor.shape[1] * y.factor.shape[1]
    low_rank = ranks < PAYS * n

    def product(pairing: np.ndarray) -> float:
        """<K, L'> of the y in their new order."""
        if low_rank:
            return float(np.sum((x.factor.T @ y.factor[pairing]) ** 2))
        return float(np.vdot(x.gram, y.gram[np.ix_(pairing, pairing)]))

    def one(columns: slice) -> np.ndarray:
        values = np.array([product(pairing) for pairing in rows[columns]])
        advance(len(values))
        if biased:
            return values / n**2
        values -= y.diagonal[rows[columns]] @ x.diagonal
        across = y.sums[rows[columns]] @ x.sums
        totals = x.sums.sum() * y.sums.sum() / ((n - 1) * (n - 2))
        return np.asarray((values + totals - 2.0 / (n - 2) * across) / (n * (n - 3)))

    size = np.sqrt(np.mean(x.gram**2) * np.mean(y.gram**2))
    return without_rounding(in_batches(one, len(rows), 16 * n), float(size))
