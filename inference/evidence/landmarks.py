"""The evidence that two embeddings differ, with the differences drawn from the BKE prior.

At landmarks v the difference of the empirical embeddings, w = mu_hat_P - mu_hat_Q, has a sampling
covariance C by the central limit theorem. Under P = Q it is N(0, C); where they differ and the
difference is a draw from a Gaussian process with covariance s^2 r, it is N(0, C + s^2 R). The ratio
of the two densities, averaged over lengthscales and s, is a Bayes factor, up to the central limit
theorem and to C, which is estimated. Its permutation test needs neither to hold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from bke.models.arrays.seeding import spread_seeds
from scipy.linalg import LinAlgError, eigh
from scipy.spatial.distance import cdist

from ..relabelling.permutation import in_batches, without_rounding

LANDMARKS = 60
ROWS_EACH = 8
#: Variances s^2 of the difference, in units of k(x, x) = 1.
VARIANCES = (1e-3, 1e-2, 1e-1)
#: What is added to the diagonal of C, over its mean: features of a long lengthscale are nearly
#: collinear.
NUGGET = 1e-8
#: By how much more than elsewhere rounding shows in a log Bayes factor.
ROUNDING = 1e4


def landmarks(points: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Choose rows (m, D) as k-means++ chooses its first centres.

    Args:
        points: (N, D) in canonical order.
        count: at most so many, and at most N / :data:`ROWS_EACH`: with as many landmarks as rows C
            is singular and hides every difference.
        seed: of the choice.
    """
    count = max(2, min(count, len(points) // ROWS_EACH))
    rng = np.random.default_rng(seed)
    return np.asarray(points[spread_seeds(points, count, rng)])


def evidence_rows(
    points: np.ndarray,
    labels: np.ndarray,
    lengthscales: np.ndarray,
    places: np.ndarray,
    *,
    counts: np.ndarray | None = None,
    paired: bool = False,
    advance: Callable[[int], None] = lambda count: None,
) -> np.ndarray:
    """Evaluate log Bayes factors of "P and Q differ" for every column of ``labels``.

    One for each lengthscale and variance s^2 of :data:`VARIANCES`, in that order. With
    R U = C U diag(lambda), U' C U = I and u = U'w the ratio of densities is
    ``exp(1/2 sum_j (u_j^2 x_j / (1 + x_j) - log(1 + x_j)))``, x = s^2 lambda.

    Args:
        points: the pooled sample (N, D), scaled.
        labels: (N, 1 + B) of bool, the observed labels first; with ``counts`` how many rows of a
            point are in the first sample.
        lengthscales: (L,), in the units of ``points``.
        places: landmarks (k, D), see :func:`landmarks`.
        counts: (N,), how many rows each point stands for; by default one.
        paired: rows i and N/2 + i depend on each other: C is that of the mean of their differences,
            which does not change when the two of a pair are swapped.
        advance: called with the columns that are done.

    Returns:
        (3 L, 1 + B), nats.
    """
    each = np.ones(len(points), dtype=int) if counts is None else counts
    sizes = labels.sum(axis=0)
    m = sizes[0]
    n = each.sum() - m

    def covariance(features: np.ndarray) -> np.ndarray:
        if paired:
            differences = features[:m] - features[m:]
            return np.asarray(differences.T @ differences / m**2)
        rows = each.sum()
        centred = features - each @ features / rows
        within = (centred * each[:, None]).T @ centred / (rows - 1.0)
        return np.asarray(within * (1.0 / m + 1.0 / n))

    def apart(columns: slice) -> np.ndarray:
        z, first = labels[:, columns], sizes[columns]
        if (first == m).all():
            return np.asarray(z / m - (each[:, None] - z) / n)
        # Of rows of some kind, of which every labelling has another number in the first sample.
        share = np.clip(first, 1, m + n - 1) / (m + n)
        unit = np.sqrt(m * n * share * (1.0 - share))
        return np.asarray((z - share * each[:, None]) / unit)

    signed = Signed(points, labels.shape[1], apart, covariance)
    return signed_evidence_rows(signed, lengthscales, places, advance=advance)


class Signed(NamedTuple):
    """Points that are counted with signs, as any two samples are held against each other.

    Attributes:
        points: (N, D), scaled.
        labellings: 1 + B.
        apart: for a slice of labellings (N, b), by how much the first sample has more of each
            point, both samples being 1 in all.
        covariance: of the mean of features (N, k) of the first sample less that of the second,
            (k, k), under P = Q.
        excess: of features likewise, by how much the observed labelling's own is larger than
            ``covariance``, which is taken off the squares of its means; by default not at all.
    """

    points: np.ndarray
    labellings: int
    apart: Callable[[slice], np.ndarray]
    covariance: Callable[[np.ndarray], np.ndarray]
    excess: Callable[[np.ndarray], np.ndarray] | None = None


def whitened(smoothed: np.ndarray, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Diagonalise R (k, k) where C is the identity: eigenvalues (k,) and U (k, k), U' C U = I.

    :data:`NUGGET` is added to C, and more of it where rounding has left C with negative
    eigenvalues, as it does where landmarks lie on scales far apart.

    Raises:
        scipy.linalg.LinAlgError: C is no covariance at all.
    """
    unit = np.trace(covariance) / len(covariance) * np.eye(len(covariance))
    for nugget in NUGGET * np.array([1.0, 1e2, 1e4]):
        try:
            eigenvalues, basis = eigh(smoothed, covariance + nugget * unit)
        except LinAlgError as error:
            failed = error
        else:
            return eigenvalues, basis
    raise failed


def signed_evidence_rows(
    signed: Signed,
    lengthscales: np.ndarray,
    places: np.ndarray,
    *,
    advance: Callable[[int], None] = lambda count: None,
) -> np.ndarray:
    """Evaluate log Bayes factors as :func:`evidence_rows` does, of points with signs."""
    squared = cdist(signed.points, places, "sqeuclidean")
    between = cdist(places, places, "sqeuclidean")
    bases = []
    for length in lengthscales:
        features = np.exp(-0.5 * squared / length**2)
        covariance = signed.covariance(features)
        if not covariance.any():  # pairs without a difference: nothing to weigh
            bases.append((np.zeros_like(features), np.zeros(len(places)), np.zeros(len(places))))
            continue
        smoothed = np.exp(-0.25 * between / length**2)  # r of the unit measure
        eigenvalues, basis = whitened(smoothed, covariance)
        excess = np.zeros(len(places))
        if signed.excess is not None:
            excess = np.sum(basis * (signed.excess(features) @ basis), axis=0)
        bases.append((features @ basis, np.clip(eigenvalues, 0.0, None), excess))

    def one(columns: slice) -> np.ndarray:
        apart = signed.apart(columns)
        logs = []
        for projected, eigenvalues, excess in bases:
            squares = (projected.T @ apart) ** 2
            if columns.start == 0:
                squares[:, 0] -= excess
            for variance in VARIANCES:
                x = variance * eigenvalues
                logs.append(0.5 * ((x / (1.0 + x)) @ squares - np.log1p(x).sum()))
        advance(apart.shape[1])
        return np.array(logs)

    rows = in_batches(one, signed.labellings, 24 * len(signed.points))
    # The nugget lets rounding grow to about its root.
    return np.array([without_rounding(row, ROUNDING * np.abs(row).max()) for row in rows])
