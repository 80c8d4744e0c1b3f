"""Confidence interval of the squared MMD where two distributions differ (MMD-5, MMD-8).

The unbiased squared MMD is the sum of the means over both samples of

    h_P(x) = sum_{x' != x} k(x, x') / (m - 1) - mean_j k(x, y_j),

and h_Q likewise; its variance is that of these means, times four. So row means of the kernel
matrices are enough. Up to :data:`EXACT_ROWS` rows in all they are exact, one block of rows of the
matrices after the other. Beyond, the kernel is replaced by its projection on landmarks (Nystrom):
the row means are then linear combinations of the kernel at the landmarks, in time and memory linear
in the rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
from bke.models.kernels.base import Covariance
from bke.models.linalg.pivoted_cholesky import PivotedCholesky, pivoted_cholesky
from scipy.linalg import cho_solve, solve_triangular
from scipy.stats import norm

from ..data.canonical import canonical_order, random_part
from ..permutation.pair import Pair

#: Rows of both samples up to which all pairs of rows are evaluated; twice as many take four times
#: as long.
EXACT_ROWS = 10_000
#: Landmarks at most, and rows among which they are chosen, as many as show the error. The time of
#: the interval is proportional to the landmarks: with 512 it is about a third of the test's.
MOST_LANDMARKS, LANDMARK_ROWS = 512, 4096
#: Share of the kernel's variance at which no more landmarks are added: rounding errors are about
#: 1e-16 over its root.
SMALLEST_SHARE = 1e-9
#: Largest share of the kernel's centered variance that the landmarks may leave out: what they
#: leave out is nearly uncorrelated between rows, so that the errors below are far smaller.
LARGEST_SHARE = 0.03
#: Entries of a block of a kernel matrix.
BLOCK_ENTRIES = 2**22


def mmd_interval(
    pair: Pair, kernel: Covariance, alpha: float
) -> tuple[float, tuple[float, float]] | tuple[None, None]:
    """Estimate the squared MMD and its confidence interval, by a normal limit (MMD-8).

    The limit holds where P and Q differ; under P = Q it says nothing. The interval is exact, up to
    rounding, with at most :data:`EXACT_ROWS` rows in all. Beyond, it is that of the kernel
    projected on at most :data:`MOST_LANDMARKS` rows, whose error ``benchmarks/mmd_interval.py``
    measures: with 12 000 rows of 1 to 10 columns, normal, clustered, heavy-tailed or few and
    scattered, estimates differed by at most 0.03 of their standard errors, and standard errors by
    at most 0.8 %.

    Args:
        pair: both samples, of at least 3 rows each.
        kernel: in the units of the data.
        alpha: one minus the confidence level.

    Returns:
        Estimate and interval; ``None`` for both with more than :data:`EXACT_ROWS` rows and
        a kernel of which the landmarks leave out more than :data:`LARGEST_SHARE`.
    """
    first, second = pair.first, pair.second
    if len(first) + len(second) <= EXACT_ROWS:
        means = [_exact(kernel, *both) for both in ((first, second), (second, first))]
    else:
        projected = _projected(kernel, first, second)
        if projected is None:
            return None, None
        means = projected
    value = float(sum(row_means.mean() for row_means in means))
    variance = sum(4.0 * float(row_means.var(ddof=1)) / len(row_means) for row_means in means)
    reach = float(norm.isf(0.5 * alpha)) * variance**0.5
    return value, (max(0.0, value - reach), max(0.0, value + reach))


def _exact(kernel: Covariance, own: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Evaluate h (m,) at the rows of ``own`` (m, D) with all pairs of rows."""
    count = len(own) - 1

    def values(rows: np.ndarray) -> np.ndarray:
        within = np.asarray(kernel(rows, own)).sum(axis=1) - np.asarray(kernel.diagonal(rows))  # type: ignore[arg-type]
        return within / count - np.asarray(kernel(rows, other)).mean(axis=1)

    return np.concatenate([values(rows) for rows in _blocks(own, len(own) + len(other))])


def _projected(
    kernel: Covariance, first: np.ndarray, second: np.ndarray
) -> list[np.ndarray] | None:
    """Evaluate h at the rows of both samples with the kernel projected on landmarks.

    Landmarks are chosen among rows of both samples. Other random rows show, for each sample, what
    share of the kernel's variance the landmarks leave out.

    Args:
        kernel: the kernel.
        first: (m, D).
        second: (n, D).

    Returns:
        Values (m,) and (n,), or ``None`` where that share is too large in a sample.
    """
    samples = first, second
    ordered = [sample[canonical_order(sample)] for sample in samples]
    halves = [random_part(rows, LANDMARK_ROWS // 2, 0) for rows in ordered]
    candidates = jnp.asarray(np.concatenate(halves))
    result = _pivoted_cholesky(kernel, candidates)
    pivots = np.asarray(result.pivots)[: int(result.rank)]
    landmarks = np.asarray(candidates)[pivots]
    factor = np.asarray(result.factor)[: len(pivots), pivots].T  # lower triangle
    left_out, variances, features = [], [], []
    for rows in (random_part(rows, LANDMARK_ROWS // 2, 1) for rows in ordered):
        values = solve_triangular(factor, np.asarray(kernel(landmarks, rows)), lower=True)
        diagonal = np.asarray(kernel.diagonal(rows))  # type: ignore[arg-type]
        left_out.append(np.mean(diagonal - np.square(values).sum(axis=0)))
        variances.append(diagonal.mean())
        features.append(values.mean(axis=1))
    # A constant in the kernel cancels in the squared MMD: it does not count as variance.
    centered_variance = np.mean(variances) - np.square(np.mean(features, axis=0)).sum()
    if max(left_out) > LARGEST_SHARE * centered_variance:
        return None
    sums = [
        sum(np.asarray(kernel(rows, landmarks)).sum(axis=0) for rows in _blocks(one, len(pivots)))
        for one in samples
    ]
    within = [cho_solve((factor, True), one) for one in sums]
    results = []
    for own, sample in enumerate(samples):
        count = len(sample) - 1
        weights = within[own] / count - within[1 - own] / len(samples[1 - own])
        results.append(
            np.concatenate(
                [
                    np.asarray(kernel(rows, landmarks)) @ weights
                    - (np.asarray(kernel.diagonal(rows)) - left_out[own]) / count  # type: ignore[arg-type]
                    for rows in _blocks(sample, len(pivots))
                ]
            )
        )
    return results


@jax.jit
def _pivoted_cholesky(kernel: Covariance, rows: jax.Array) -> PivotedCholesky:
    diagonal = kernel.diagonal(rows)
    return pivoted_cholesky(
        lambda index: kernel.matrix(rows[index][None], rows)[0],
        diagonal,
        MOST_LANDMARKS,
        SMALLEST_SHARE * jnp.sum(diagonal),
    )


def _blocks(rows: np.ndarray, columns: int) -> Iterator[np.ndarray]:
    """Blocks of rows (N, D), whose kernel matrices have so many columns."""
    size = max(1, BLOCK_ENTRIES // columns)
    for start in range(0, len(rows), size):
        yield rows[start : start + size]
