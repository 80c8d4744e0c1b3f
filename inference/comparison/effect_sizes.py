"""Effect sizes of two samples: a cross-validated AUC, and differences in location per column.

The AUC is the probability that a random row of P scores higher than a random row of Q. The score of
a row is the posterior mean of the difference given the rows of the other folds, averaged over the
posterior of lengthscale and variance given those rows. Ties count half. The AUC is 1/2 for equal
distributions, and below 1/2 by chance only.

Its interval is that of DeLong, DeLong and Clarke-Pearson (1988; CMP-10): the fraction of rows of
the other sample that a row scores higher than is a term of the mean, and the variance of the AUC is
that of the means of such terms in both samples. Scoring rules that are learned from nearly the same
rows are dependent, which increases the variance (Nadeau and Bengio 2003).

Differences in location are those of means, and the Hodges-Lehmann estimate: the median of all
differences of a value of one sample and a value of the other, or for pairs of all means of two
differences. SciPy has neither it nor its interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy.special import expit, logit, ndtri, softmax, stdtrit

from ..data.canonical import checksum
from ..data.weighted import systematic
from ..permutation.moments import Moments, WeightedSums
from ..permutation.null_distribution import TIE
from ..permutation.pooled_sample import PairedSample, PooledSample
from ..permutation.scheme import MAX_COUNTED
from ..statistics.label_bayes_factor import Eigendecomposition, decompose, label_log_bayes_factors
from .difference_posterior import DifferencePosterior

FOLDS = 5
#: Factor of standard errors for scoring rules that share rows: the square root of 1 + held-out rows
#: times the number of folds over training rows.
SHARED_ROWS_FACTOR = math.sqrt(1.0 + FOLDS / (FOLDS - 1.0))
#: Scores are averaged over every second lengthscale of the posterior. The AUC of eleven pairs of
#: samples with all lengthscales differed by at most 0.0012.
LENGTHSCALE_STEP = 2
#: Largest number of rows that the AUC uses; the standard error of as many is below 0.005.
MAX_ROWS = 20_000
#: Largest number of values of a sample whose differences are counted. More are replaced by as many
#: quantiles, with an error in rank that is small compared with that of the sample.
MAX_VALUES = 2**12


class LabeledPoints(NamedTuple):
    """Single rows of both samples with their labels.

    Attributes:
        points: (n, D).
        is_first: (n,), whether each row is of the first sample.
        weights: (n,), within each sample.
        squared_weights: (n,), sums of the squared weights of the rows that are counted at a point.
    """

    points: np.ndarray
    is_first: np.ndarray
    weights: np.ndarray
    squared_weights: np.ndarray

    @classmethod
    def equally_weighted(cls, points: np.ndarray, is_first: np.ndarray) -> LabeledPoints:
        """Return rows with weights 1."""
        return cls(points, is_first, *np.ones((2, len(points))))


class Auc(NamedTuple):
    """The area under the ROC curve with its confidence interval."""

    auc: float
    interval: tuple[float, float]


#: Yields the decomposition from the training rows of each fold, given the features, the rows, and
#: whether each row (n,) is in each fold; ``None`` if the rows determine no score.
FoldDecompositions: TypeAlias = Callable[
    [np.ndarray, LabeledPoints, np.ndarray], Iterator[Eigendecomposition | None]
]


def cross_validated_auc(posterior: DifferencePosterior, sample: PooledSample, alpha: float) -> Auc:
    """Compute the cross-validated AUC; for pairs, the fraction of pairs whose row of P is higher.

    Args:
        posterior: its grid and nodes are used.
        sample: pooled rows.
        alpha: one minus the confidence of the interval.
    """
    rng = np.random.default_rng(0)
    if isinstance(sample, PairedSample):
        return _paired_auc(posterior, sample, alpha, rng)
    weighted = sample.permutation_type == "signs"
    rows = _weighted_rows(sample, rng) if weighted else _single_rows(sample, rng)
    fold = _assign_folds(rows, rng)
    decompositions = _decompose_weighted if weighted else _decompose_rows
    scores = _cross_validated_scores(posterior, rows, fold, decompositions)
    return auc_with_interval(scores, rows, fold, alpha)


def _paired_auc(
    posterior: DifferencePosterior, sample: PairedSample, alpha: float, rng: np.random.Generator
) -> Auc:
    """Compute the fraction of pairs whose row of P has the higher score; pairs stay together."""
    partners = sample.partners
    chosen = partners if len(partners) <= MAX_ROWS // 2 else rng.permutation(partners)
    chosen = chosen[: MAX_ROWS // 2]
    is_first = np.repeat([True, False], len(chosen))
    fold = np.tile(rng.permutation(np.arange(len(chosen)) % FOLDS), 2)
    rows = LabeledPoints.equally_weighted(sample.points[chosen.T.ravel()], is_first)
    scores = _cross_validated_scores(posterior, rows, fold, _decompose_pairs)
    first, second = tied_ranks(scores).reshape(2, -1)
    wins = 0.5 * (1.0 + np.sign(first - second))
    error = SHARED_ROWS_FACTOR * wins.std() / len(wins) ** 0.5
    return proportion_with_interval(wins.mean(), error, len(wins), alpha)


def _single_rows(sample: PooledSample, rng: np.random.Generator) -> LabeledPoints:
    """Return at most :data:`MAX_ROWS` of the rows."""
    first = sample.first_counts.astype(int)
    points = [np.repeat(np.arange(len(first)), count) for count in (first, sample.counts - first)]
    fraction = MAX_ROWS / sample.n_rows
    if fraction < 1.0:
        points = [
            part[systematic(np.ones(len(part)), max(FOLDS, round(fraction * len(part))), rng)]
            for part in points
        ]
    is_first = np.concatenate([np.full(len(part), index == 0) for index, part in enumerate(points)])
    return LabeledPoints.equally_weighted(sample.points[np.concatenate(points)], is_first)


def _weighted_rows(sample: PooledSample, rng: np.random.Generator) -> LabeledPoints:
    """Return at most :data:`MAX_ROWS` of the weighted rows, or of the points of each sample."""
    point, label = np.nonzero(sample.weights)
    if len(point) > MAX_ROWS:
        chosen = rng.choice(len(point), MAX_ROWS, replace=False)
        point, label = point[chosen], label[chosen]
    weights, squares = sample.weights[point, label], sample.squared_weights[point, label]
    # A point with several rows is held out in as many parts. With fewer parts the training rows
    # would lack more rows of the point than by chance, and scores would be too low.
    parts = _number_of_parts(np.maximum((weights**2 / squares * (1.0 + TIE)).astype(int), 1))
    part = np.repeat(np.arange(len(point)), parts)
    return LabeledPoints(
        sample.points[point[part]],
        label[part] == 0,
        (weights / parts)[part],
        (squares / parts)[part],
    )


def _number_of_parts(effective_rows: np.ndarray) -> np.ndarray:
    """Return the number of parts (k,) of each point, at most MAX_ROWS in all."""
    lower, upper = 1, int(effective_rows.max()) + 1
    while upper - lower > 1:
        middle = (lower + upper) // 2
        fits = np.minimum(effective_rows, middle).sum() <= MAX_ROWS
        lower, upper = (middle, upper) if fits else (lower, middle)
    return np.minimum(effective_rows, lower)


def _assign_folds(rows: LabeledPoints, rng: np.random.Generator) -> np.ndarray:
    """Assign each row to a fold (n,), stratified by sample.

    The samples are processed in the order of their checksums, so that the result does not depend on
    which sample is first.
    """
    fold = np.empty(len(rows.is_first), dtype=int)
    samples = (np.flatnonzero(rows.is_first), np.flatnonzero(~rows.is_first))
    for indices in sorted(samples, key=lambda indices: checksum(rows.points[indices])):
        fold[rng.permutation(indices)] = np.arange(len(indices)) % FOLDS
    return fold


def _cross_validated_scores(
    posterior: DifferencePosterior,
    rows: LabeledPoints,
    fold: np.ndarray,
    decompositions: FoldDecompositions,
) -> np.ndarray:
    """Compute the score (n,) of each row from the rows of the other folds."""
    kernels, variances = posterior.kernels[::LENGTHSCALE_STEP], posterior.variances
    log_prior = posterior.log_prior[::LENGTHSCALE_STEP]
    logs = np.empty((FOLDS, len(kernels), len(variances)))
    means = np.empty((len(kernels), len(variances), len(fold)))
    in_fold = fold == np.arange(FOLDS)[:, None]
    for index, kernel in enumerate(kernels):
        features = kernel.features(rows.points)
        for f, decomposition in enumerate(decompositions(features, rows, in_fold)):
            logs[f, index] = log_prior[index]
            if decomposition is None:  # all scores are equal
                means[index][:, in_fold[f]] = 0.0
                continue
            logs[f, index] += label_log_bayes_factors(decomposition, variances)[:, 0]
            shrinkage = variances[:, None] / (1.0 + np.outer(variances, decomposition.eigenvalues))
            means[index][:, in_fold[f]] = decomposition.combine(
                shrinkage * decomposition.loadings[:, 0], features[in_fold[f]]
            )
    weights = softmax(logs.reshape(FOLDS, -1), axis=1).reshape(logs.shape)
    scores = np.empty(len(fold))
    for f, test_rows in enumerate(in_fold):
        scores[test_rows] = np.tensordot(weights[f], means[:, :, test_rows], axes=2)
    return scores


def _decompose_rows(
    features: np.ndarray, rows: LabeledPoints, in_fold: np.ndarray
) -> Iterator[Eigendecomposition]:
    """Decompose independent rows: sums over all rows minus those over the fold."""
    parts = [(features[test_rows], rows.is_first[test_rows]) for test_rows in in_fold]
    products = np.array([part.T @ part for part, _ in parts])
    sums = np.array([part.sum(axis=0) for part, _ in parts])
    first_sums = np.array([is_first @ part for part, is_first in parts])
    for f, test_rows in enumerate(in_fold):
        n_rows, fraction = int((~test_rows).sum()), float(rows.is_first[~test_rows].mean())
        total, first = sums.sum(axis=0) - sums[f], first_sums.sum(axis=0) - first_sums[f]
        difference = (first - fraction * total) / (n_rows * fraction * (1.0 - fraction))
        moments = Moments.of_rows(
            difference[:, None], total, products.sum(axis=0) - products[f], n_rows, fraction
        )
        yield decompose(moments)


def _decompose_pairs(
    features: np.ndarray, rows: LabeledPoints, in_fold: np.ndarray
) -> Iterator[Eigendecomposition]:
    """Decompose pairs: rows of the first sample, followed by their partners."""
    first, second = np.split(features, 2)
    for test_rows in in_fold[:, : len(first)]:
        signs = np.ones((int((~test_rows).sum()), 1))
        yield decompose(Moments.of_pairs(first[~test_rows], second[~test_rows], signs))


def _decompose_weighted(
    features: np.ndarray, rows: LabeledPoints, in_fold: np.ndarray
) -> Iterator[Eigendecomposition | None]:
    """Decompose weighted rows."""
    samples = np.stack([rows.is_first, ~rows.is_first], axis=1)
    weights = rows.weights[:, None] * samples
    squares = rows.squared_weights[:, None] * samples
    for test_rows in in_fold:
        training, totals = features[~test_rows], weights[~test_rows].sum(axis=0)
        if not totals.all() or not np.ptp(training, axis=0).any():
            yield None  # rows of one sample, or equal rows
            continue
        normalized, normalized_squares = (
            weights[~test_rows] / totals,
            squares[~test_rows] / totals**2,
        )
        sums = WeightedSums.empty(features.shape[1]).plus(training, normalized, normalized_squares)
        counted = (normalized @ sums.effective_sizes)[:, None] * training
        difference = (sums.means[0] - sums.means[1])[:, None]
        yield decompose(sums.moments(difference, counted.sum(axis=0), training.T @ counted))


def auc_with_interval(
    scores: np.ndarray, rows: LabeledPoints, fold: np.ndarray, alpha: float
) -> Auc:
    """Compute the AUC of scores (n,) with DeLong's interval.

    Rows are compared with rows of the same fold, whose scores come from the same training rows.
    Compared with rows of other folds they would score too low, because a row is missing only from
    the training rows of its score.

    Args:
        scores: (n,).
        rows: the rows, of which labels and weights are used.
        fold: (n,).
        alpha: one minus the confidence.
    """
    weights, squares = rows.weights, rows.squared_weights
    scores = tied_ranks(scores)
    wins, compared_weights, compared_squares = np.zeros((3, len(fold)))
    for f in np.unique(fold):
        first, second = (
            np.flatnonzero((fold == f) & (rows.is_first == label)) for label in (True, False)
        )
        if min(len(first), len(second)) == 0:
            continue
        for indices, other in ((first, second), (second, first)):
            wins[indices] = _fraction_below(scores[indices], scores[other], weights[other])
            compared_weights[indices] = weights[indices]
            compared_squares[indices] = squares[indices]
    means, variance, sizes = [], 0.0, []
    for label in (True, False):
        of_sample = (rows.is_first == label) & (compared_weights > 0.0)
        total = compared_weights[of_sample].sum()
        mean = compared_weights[of_sample] @ wins[of_sample] / total
        size = total**2 / compared_squares[of_sample].sum()
        scatter = compared_squares[of_sample] @ np.square(wins[of_sample] - mean) / total**2
        variance += scatter * size / max(size - 1.0, 1.0)
        means.append(mean if label else 1.0 - mean)
        sizes.append(size)
    error = SHARED_ROWS_FACTOR * math.sqrt(variance)
    return proportion_with_interval(np.mean(means), error, min(sizes), alpha)


def tied_ranks(scores: np.ndarray) -> np.ndarray:
    """Return ranks (n,) of scores, equal for scores that differ by rounding errors.

    Scores of equal rows differ by rounding errors, because they are products of matrices.
    """
    order = np.argsort(scores)
    gaps = np.diff(scores[order]) > TIE * np.ptp(scores)
    ranks = np.zeros(len(scores))
    ranks[order[1:]] = np.cumsum(gaps)
    return ranks


def _fraction_below(scores: np.ndarray, other: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the weighted fraction of ``other`` (n,) below each score (m,); ties count half."""
    order = np.argsort(other)
    below = np.concatenate([[0.0], np.cumsum(weights[order])])
    ends = (np.searchsorted(other[order], scores, side=side) for side in ("left", "right"))
    return np.asarray(sum(below[end] for end in ends) / (2.0 * below[-1]))


def proportion_with_interval(
    proportion: float, error: float, effective_size: float, alpha: float
) -> Auc:
    """Compute the interval of a proportion of wins, on the scale of log odds.

    Args:
        proportion: of wins.
        error: its standard error.
        effective_size: number of rows of equal weight that it is estimated from.
        alpha: one minus the confidence.
    """
    auc = float(proportion)
    # If all rows win or none, the standard error is 0, but as many rows may agree by chance.
    reach = 1.0 - (0.5 * alpha) ** (1.0 / effective_size)
    inner, outer = max(auc - reach, 0.0), min(auc + reach, 1.0)
    if error == 0.0 or not 0.0 < auc < 1.0:
        return Auc(auc, (inner, outer))
    quantile = -stdtrit(max(effective_size - 1.0, 1.0), 0.5 * alpha)
    logit_reach = quantile * error / (auc * (1.0 - auc))
    low, high = expit(logit(auc) + np.array([-logit_reach, logit_reach]))
    return Auc(auc, (min(float(low), inner), max(float(high), outer)))


class LocationDifference(NamedTuple):
    """Difference in location of the second sample from the first, per column.

    Attributes:
        estimate: (D,), in the units of the data.
        interval: (D,) lower and (D,) upper ends, with confidence 1 - alpha for each column.
    """

    estimate: np.ndarray
    interval: tuple[np.ndarray, np.ndarray]


def mean_difference(
    first: np.ndarray,
    second: np.ndarray,
    alpha: float,
    *,
    paired: bool = False,
    weights: tuple[np.ndarray, np.ndarray] | None = None,
    effective_sizes: tuple[float, float] | None = None,
) -> LocationDifference:
    """Compute the difference of means with Welch's interval, for pairs with Student's interval.

    The number of rows of a weighted sample is its effective number, 1 / sum w^2, and the variance
    of its mean is about sum w^2 (x - mean)^2, with weights w that add up to 1.

    Args:
        first: rows (m, D) of the first sample.
        second: rows (n, D) of the second sample.
        alpha: one minus the confidence.
        paired: if true, row i of both samples is a pair.
        weights: weights of the rows, (m,) and (n,); ``None`` for equal weights.
        effective_sizes: numbers of rows of weighted samples, if they are not the effective numbers
            of the weights, as for frequencies.
    """
    samples = (second - first,) if paired else (second, first)
    all_weights = [None] * len(samples) if weights is None else weights[::-1]
    known_sizes = [None] * len(samples) if effective_sizes is None else effective_sizes[::-1]
    # Scaled, so that squares do not overflow.
    scale = np.max([np.abs(sample).max(axis=0) for sample in samples], axis=0)
    scale = np.where(scale > 0.0, scale, 1.0)
    means, variances, sizes = [], [], []
    for sample, weight, known in zip(samples, all_weights, known_sizes, strict=True):
        # Sorted, so that rounding does not depend on the order of the rows.
        values = np.ascontiguousarray(sample.T) / scale[:, None]
        if weight is None:
            values, normalized = np.sort(values), np.full(values.shape, 1.0 / len(sample))
        else:
            order = np.lexsort((np.broadcast_to(weight, values.shape), values))
            values = np.take_along_axis(values, order, axis=1)
            normalized = weight[order] / np.sort(weight).sum()
        size = 1.0 / np.sum(normalized[0] ** 2) if known is None else known
        mean = np.sum(normalized * values, axis=1)
        # Weights may depend on the values, as in importance sampling; frequencies are counts.
        shares = normalized if weight is None or known is not None else size * normalized**2
        scatter = np.sum(shares * (values - mean[:, None]) ** 2, axis=1)
        means.append(mean)
        variances.append(scatter / (size - 1.0))
        sizes.append(size)
    estimate = means[0] if paired else means[0] - means[1]
    total = np.sum(variances, axis=0)
    terms = sum(variance**2 / (size - 1.0) for variance, size in zip(variances, sizes, strict=True))
    # Without variance the interval is one number, whatever the degrees of freedom.
    freedom = np.divide(total**2, terms, out=np.ones_like(total), where=terms > 0.0)
    error = np.sqrt(total) * stdtrit(freedom, 1.0 - 0.5 * alpha)
    return LocationDifference(
        estimate * scale, ((estimate - error) * scale, (estimate + error) * scale)
    )


def median_difference(
    first: np.ndarray, second: np.ndarray, alpha: float, *, paired: bool = False
) -> LocationDifference | None:
    """Compute the Hodges-Lehmann estimate with the interval of the rank test.

    The ends of the interval are order statistics of the differences (Hollander and Wolfe 1999,
    sections 3.3 and 4.3), by the normal approximation of the rank-sum or signed-rank statistic.
    There is none for so few rows that even all differences lack the confidence.

    Args:
        first: rows (m, D) of the first sample.
        second: rows (n, D) of the second sample.
        alpha: one minus the confidence.
        paired: if true, row i of both samples is a pair.

    Returns:
        Estimate and interval; ``None`` for too few rows.
    """
    m, n = len(first), len(second)
    # All differences have one sign with the probability of two of the arrangements of labels.
    counted = min(m, n, MAX_COUNTED)
    arrangements = 2**counted if paired else math.comb(m + n, counted)
    if arrangements < 2.0 / alpha:
        return None
    if paired:
        samples = [second - first] * 2
        pairs, deviation = n * (n + 1) / 2.0, np.sqrt(n * (n + 1) * (2 * n + 1) / 24.0)
    else:
        samples = [first, second]
        pairs, deviation = float(m * n), np.sqrt(m * n * (m + n + 1) / 12.0)
    rank = max(np.floor(0.5 * pairs + ndtri(0.5 * alpha) * deviation), 1.0)
    ranks = (rank, np.ceil(0.5 * pairs), np.floor(0.5 * pairs) + 1.0, pairs + 1.0 - rank)
    columns = [(_sorted(x), _sorted(y)) for x, y in zip(samples[0].T, samples[1].T, strict=True)]
    low, lower_middle, upper_middle, high = (
        np.array([_quantile(x, y, rank / pairs, paired=paired) for x, y in columns])
        for rank in ranks
    )
    return LocationDifference(0.5 * (lower_middle + upper_middle), (low, high))


def _sorted(values: np.ndarray) -> np.ndarray:
    """Return sorted values, or :data:`MAX_VALUES` of their quantiles."""
    if len(values) <= MAX_VALUES:
        return np.sort(values)
    return np.asarray(np.quantile(values, (np.arange(MAX_VALUES) + 0.5) / MAX_VALUES))


def _quantile(x: np.ndarray, y: np.ndarray, proportion: float, *, paired: bool) -> float:
    """Return a quantile of all differences y - x of sorted values, by bisection.

    Args:
        x: (m,), sorted.
        y: (n,), sorted; for pairs the same differences as ``x``, whose means of two are counted.
        proportion: proportion of the differences, or means, that are at most as large.
        paired: if true, means of two differences are counted.
    """
    if paired:
        x, total, doubled = -x[::-1], len(y) * (len(y) + 1) / 2.0, 2.0 * y
    else:
        total, doubled = float(len(x) * len(y)), np.empty(0)
    needed = np.ceil(proportion * total - 1e-9)

    def count(value: float) -> float:
        differences = np.searchsorted(y, x + value, side="right").sum()
        return 0.5 * (differences + np.sum(doubled <= value)) if paired else float(differences)

    low, high = y[0] - x[-1], y[-1] - x[0]
    if count(low) >= needed:
        high = low
    while (middle := 0.5 * (low + high)) not in (low, high):
        low, high = (low, middle) if count(middle) >= needed else (middle, high)
    # The nearest difference, since sums are rounded, with outliers by more than other differences.
    index = np.maximum(np.searchsorted(y, x + high, side="right") - 1, 0)
    differences = y[index] - x
    value = float(differences[np.argmin(np.abs(differences - high))])
    return 0.5 * value if paired else value
