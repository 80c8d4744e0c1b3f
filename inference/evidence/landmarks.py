"""The evidence that two embeddings differ, with the differences drawn from the BKE prior.

At landmarks v the difference of the empirical embeddings, w = mu_hat_P - mu_hat_Q, has a sampling
covariance C by the central limit theorem. Under P = Q it is N(0, C); where they differ and the
difference is a draw from a Gaussian process with covariance s^2 r, it is N(0, C + s^2 R). The ratio
of the two densities, averaged over lengthscales and s, is a Bayes factor, up to the central limit
theorem and to C, which is estimated. Its permutation test needs neither to hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Event
from typing import NamedTuple

import numpy as np
from bke.models.linalg.clustering import kmeans_plusplus
from scipy.linalg import LinAlgError, eigh
from scipy.spatial.distance import cdist

from ..core.machine import side_by_side
from ..data.canonical import random_part
from ..permutation.permutation import without_rounding
from ..permutation.relabelled import LabelSums, Relabelled
from .asked import Asked, Sums, answered
from .decomposition import Noise
from .families import GAUSSIAN
from .spectrum import VERY_MANY, Part, kernel

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
        points: (N, D) in canonical order; of very many a random part is looked at.
        count: at most so many, and at most N / :data:`ROWS_EACH`: with as many landmarks as rows C
            is singular and hides every difference.
        seed: of the choice.
    """
    count = max(2, min(count, len(points) // ROWS_EACH))
    points = random_part(points, VERY_MANY, seed)
    rng = np.random.default_rng(seed)
    return np.asarray(points[kmeans_plusplus(points, count, rng)])


def evidence_rows(
    rows: Relabelled,
    lengthscales: np.ndarray,
    places: np.ndarray,
    *,
    part: int | None = None,
    advance: Callable[[int], None] = lambda count: None,
) -> np.ndarray:
    """Evaluate log Bayes factors of "P and Q differ" for every labelling.

    One for each lengthscale and variance s^2 of :data:`VARIANCES`, in that order. With
    R U = C U diag(lambda), U' C U = I and u = U'w the ratio of densities is
    ``exp(1/2 sum_j (u_j^2 x_j / (1 + x_j) - log(1 + x_j)))``, x = s^2 lambda.

    Args:
        rows: the pooled rows, scaled, with their relabellings. Of rows that belong together C is
            that of the mean of their differences, which does not change when they are swapped; of
            weighted rows that of their errors.
        lengthscales: (L,), in the units of ``rows``.
        places: landmarks (k, D), see :func:`landmarks`.
        part: so many of independent rows at random tell C, as of
            :func:`~bke.inference.evidence.spectrum.spectrum`; by default all do.
        advance: called with the number of lengthscales that are done.

    Returns:
        (3 L, 1 + B), nats.
    """
    if part is not None and rows.independent:
        asks = evidence_asked(rows, lengthscales, places, part)
        return evidence_of(side_by_side(lambda i: answered(asks[i], rows), len(asks), Event()))

    def one(index: int) -> np.ndarray:
        length = lengthscales[index]
        found = _evidence(_seen(rows, places, length), places, length)
        advance(1)
        return found

    return evidence_of(side_by_side(one, len(lengthscales), Event()))


def evidence_asked(
    rows: Relabelled, lengthscales: np.ndarray, places: np.ndarray, part: int
) -> list[Asked[np.ndarray]]:
    """Ask for what :func:`evidence_rows` tells of independent rows, some lengthscales at a time."""
    some, count = Part.of(rows, part), len(places)

    def asked(run: tuple[float, ...]) -> Asked[np.ndarray]:
        near = GAUSSIAN.at(places, *run)

        def told(sums: Sums) -> np.ndarray:
            found = []
            for index, (length, features) in enumerate(
                zip(run, near.each(some.points), strict=True)
            ):
                own = slice(index * count, (index + 1) * count)
                products = some.products(features)
                seen = _of_independent(rows, sums.of_labels[own], sums.of_counts[own], products)
                found.append(_evidence(seen, places, length))
            return np.concatenate(found)

        return Asked(near, count * len(run), told)

    return [asked(run) for run in GAUSSIAN.runs(lengthscales)]


def evidence_of(each: Sequence[np.ndarray]) -> np.ndarray:
    """Join what lengthscales tell (3, 1 + B), each without rounding."""
    # The nugget lets rounding grow to about its root.
    rows = np.concatenate(each)
    return np.array([without_rounding(row, ROUNDING * np.abs(row).max()) for row in rows])


def _evidence(seen: Seen, places: np.ndarray, length: float) -> np.ndarray:
    """Log Bayes factors (3, 1 + B) at one lengthscale."""
    if not seen.covariance.any():  # pairs without a difference: nothing to weigh
        return np.zeros((len(VARIANCES), seen.means.shape[1]))
    between = cdist(places, places, "sqeuclidean")
    smoothed = np.exp(-0.25 * between / length**2)  # r of the unit measure
    eigenvalues, basis = whitened(smoothed, seen.covariance)
    squares = (basis.T @ seen.means) ** 2
    squares[:, 0] -= np.sum(basis * (seen.excess @ basis), axis=0)
    x = np.outer(VARIANCES, np.clip(eigenvalues, 0.0, None))
    return np.asarray(0.5 * ((x / (1.0 + x)) @ squares - np.log1p(x).sum(axis=1)[:, None]))


class Seen(NamedTuple):
    """What rows tell of features at landmarks.

    Attributes:
        means: (k, 1 + B), the mean of one sample less that of the other, for every labelling.
        covariance: C, (k, k), of that under P = Q.
        excess: (k, k), by how much the observed labelling's own is larger.
    """

    means: np.ndarray
    covariance: np.ndarray
    excess: np.ndarray


def _seen(rows: Relabelled, places: np.ndarray, length: float) -> Seen:
    """Go through rows with the kernel at a lengthscale and landmarks (k, D)."""
    count = len(places)
    total, products = np.zeros(count), np.zeros((count, count))
    noise = own = Noise.none(count)
    rows = rows.in_bins
    sums = LabelSums(rows, count)
    for block in rows.blocks():
        features = kernel(rows.points[block], places, length)
        sums.add(block, features)
        total += rows.counts[block] @ features
        products += features.T @ (features * rows.counts[block, None])
        if rows.weighted:
            noise = noise.plus(features, rows.weights[block], rows.expected[block])
            own = own.plus(features, rows.weights[block], rows.squares[block])
    if rows.weighted:
        covariance = noise.covariance()
        return Seen(sums.found(), covariance, own.covariance() - covariance)
    if rows.partners is not None:
        first, second = (kernel(rows.points[one], places, length) for one in rows.partners.T)
        apart, none = first - second, np.zeros((count, count))
        return Seen(_means(rows, sums.found(), total), apart.T @ apart / len(apart) ** 2, none)
    return _of_independent(rows, sums.found(), total, products - np.outer(total, total) / rows.rows)


def _of_independent(
    rows: Relabelled, of_labels: np.ndarray, total: np.ndarray, products: np.ndarray
) -> Seen:
    """What independent rows tell by sums of features and products (k, k) of centred ones."""
    m, n = rows.sizes
    covariance = products / (rows.rows - 1.0) * (1.0 / m + 1.0 / n)
    return Seen(_means(rows, of_labels, total), covariance, np.zeros_like(products))


def _means(rows: Relabelled, of_labels: np.ndarray, total: np.ndarray) -> np.ndarray:
    """The first sample's mean less the second's (k, 1 + B), by sums over rows and over all.

    Of rows of some kind, of which every labelling has another number in the first sample, as large
    as by the labelling as it is.
    """
    m, n = rows.sizes
    share = np.clip(rows.shares, 1.0 / (m + n), 1.0 - 1.0 / (m + n))
    unit = np.sqrt(m * n * share * (1.0 - share))
    return np.asarray((of_labels - share * total[:, None]) / unit)


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
