"""A two-sample test from sketches: embeddings at landmarks against their sampling covariance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from bke.models.landmarks import LandmarkSums
from scipy.stats import cauchy

from ..core.errors import InputError
from ..permutation.permutation import p_value, standardised
from ..testing.combination import combine
from ..testing.kernel_choice import brief
from ..testing.result import Part, TestResult
from ..testing.two_sample import HYPOTHESES

#: Ridges, over the largest eigenvalue of the covariance. With a large one the statistic is the
#: squared distance of the features' means, with a small one Hotelling's T squared.
RIDGES = (1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
#: Directions with less of the covariance than this are rounding.
NEGLIGIBLE = 1e-12
#: A landmark that fewer rows of either sample are near to, at a lengthscale, is left out there: of
#: a few rows the mean is not normal.
FEWEST_SEEN = 50
NO_TEST = (
    f"no test: at no lengthscale are {FEWEST_SEEN} rows of each sample near a landmark, and of a "
    "few rows the mean is not normal"
)
#: Rows for each landmark below which there is a note.
ENOUGH_ROWS = 10
FEW = (
    f"with fewer than {ENOUGH_ROWS} rows for each landmark in a sample the normal limit is rough: "
    "make sketches with fewer landmarks"
)

#: Sums of P and of Q at one lengthscale, and the kernel with it.
AtLengthscale = tuple[LandmarkSums, LandmarkSums, Any]


def sketch_test(
    sketches: Sequence[AtLengthscale], *, draws: int, alpha: float, rng: np.random.Generator
) -> TestResult | None:
    """Test P = Q by the difference d of the embeddings at the landmarks, at several lengthscales.

    d has covariance C (1/n + 1/m), C that of the features within the samples, pooled. With its
    eigenvectors e_i and eigenvalues c_i the statistics T_g = sum_i (e_i'd)^2 / (c_i + g c_1) are,
    in the limit, sums of independent chi-squares times c_i / (c_i + g c_1), a little more for C is
    estimated; of these all ridges g are drawn jointly, standardised and combined, as scales are in
    :func:`~bke.inference.two_sample_test`. How lengthscales go together no sketch says: their
    p-values are combined by Cauchy's distribution, the mean of tan(pi (1/2 - p)), whose tail hardly
    depends on that (Liu and Xie, 2020).

    All of this is for landmarks that do not depend on the rows: of those that were chosen from one
    of the samples the embedding there is a little too high, by some 1/n as its standard error is by
    some 1/sqrt(n), so that with few rows for each landmark the level is exceeded.

    Args:
        sketches: one for each lengthscale, the scatter of its sums a matrix.
        draws: of the null at each.
        alpha: level of the verdict.
        rng: of the draws.

    Returns:
        ``None`` where no landmark has rows of both samples near it, at least 50 of each.
    """
    sizes = int(sketches[0][0].n), int(sketches[0][1].n)
    parts = [part for each in sketches if (part := _part(each, sizes, draws, rng)) is not None]
    if not parts:
        return None
    each = np.array([part.pvalue for part in parts])
    # A p-value of one, as of a sketch and itself, would be minus infinity.
    statistic = float(np.mean(np.tan(np.pi * (0.5 - np.minimum(each, 1.0 - 1.0 / draws)))))
    most_extreme = parts[int(each.argmin())]
    few = min(sizes) < ENOUGH_ROWS * len(sketches[0][0].mean)
    return TestResult(
        test="two-sample test from sketches",
        hypotheses=HYPOTHESES,
        statistic=statistic,
        pvalue=float(cauchy.sf(statistic)),
        null=np.empty(0),
        kernel=most_extreme.kernel,
        kernel_of="most extreme at",
        how=f"normal limit, {draws} draws at each of {len(parts)} lengthscales",
        exact=False,
        alpha=alpha,
        parts=tuple(parts),
        statistic_of="Cauchy combination",
        limit=cauchy(),
        notes=(FEW,) if few else (),
    )


def _part(
    each: AtLengthscale, sizes: tuple[int, int], draws: int, rng: np.random.Generator
) -> Part | None:
    """The test at one lengthscale; ``None`` where too few rows are near, or none differ."""
    P, Q, kernel = each
    seen = np.minimum(_rows_seen(P), _rows_seen(Q)) >= FEWEST_SEEN
    if not seen.any():
        return None
    within = (np.asarray(P.scatter) + np.asarray(Q.scatter))[np.ix_(seen, seen)] / (sum(sizes) - 2)
    values, vectors = np.linalg.eigh(within * (1.0 / sizes[0] + 1.0 / sizes[1]))
    kept = values > max(NEGLIGIBLE * values[-1], 0.0)
    if not kept.any():
        return None
    values, vectors = values[kept], vectors[:, kept]
    difference = (np.asarray(P.mean) - np.asarray(Q.mean))[seen]
    observed = (difference @ vectors) ** 2 / values
    shares = np.array([values / (values + ridge * values[-1]) for ridge in RIDGES])
    # The covariance is estimated: like T squared, whose mean this is for the smallest ridge.
    degrees = sum(sizes) - 3.0 - shares.sum(axis=1)
    if degrees.min() <= 0.0:
        raise InputError(
            f"{len(values)} landmarks are too many for {sum(sizes)} rows: make sketches with fewer"
        )
    inflated = shares * ((sum(sizes) - 2.0) / degrees)[:, None]
    drawn = inflated @ rng.chisquare(1.0, size=(draws, len(values))).T
    statistics = np.concatenate([(shares @ observed)[:, None], drawn], axis=1)
    row, *_ = combine(statistics, [("", kernel)] * len(RIDGES))
    return Part(brief(kernel), float(row[0]), p_value(row), kernel, float(standardised(row)[0]))


def _rows_seen(sums: LandmarkSums) -> np.ndarray:
    """Count the rows that make up the mean at each landmark: (sum phi)^2 / sum phi^2."""
    n, mean = float(sums.n), np.asarray(sums.mean)
    squares = np.diagonal(sums.scatter) + n * mean**2
    return np.asarray((n * mean) ** 2 / np.where(squares > 0.0, squares, 1.0))
