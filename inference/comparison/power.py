"""Power of the combined test: minimum detectable shift and required sample size.

The minimum detectable shift is simulated at the points of the samples. A row is assigned to one
sample with odds that increase with its normal score (the normal quantile of its rank) in a column.
This shifts the mean score and leaves the pooled scores normal, and those of each sample nearly so
if the shift is small; for pairs, the odds depend on the difference of both scores. For several
strengths of this assignment the test of the assigned labels among permuted labels rejects or not,
and a probit regression gives the shift at which its power is :data:`POWER`. A normal column shifts
nearly as its scores do, in standard deviations. All assignments are compared with the same
permutations (``n_observed`` of :meth:`.statistics.combined.CombinedStatistic.values`), with the
same decision as one by one for all but at most one in thirty (a test of the repository).

The required sample size is simulated with differences h = (p - q) / f, f the density of the pooled
rows, from their posterior, so that their size has its posterior uncertainty and is not
overestimated, unlike with resampled samples. Rows are drawn from the pooled sample with
probabilities proportional to ``1 + (1 - pi) h`` for P and ``1 - pi h`` for Q, where negative ones
are zero, and tested. The number of rows converges to that with the required power for this h. Each
h is tested a few times only, so the distribution of the number over all h is estimated by
nonparametric maximum likelihood (Laird 1978).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np
from scipy.special import expit, log_ndtr, logit, ndtri

from ..data.canonical import checksum
from ..data.weighted import weighted_quantiles
from ..permutation.null_distribution import p_value
from ..permutation.pool import pool_counts, pool_rows
from ..permutation.pooled_sample import PairedSample, PooledSample
from ..permutation.samples import TwoSamples
from ..statistics.combined import CombinedStatistic, combined_pvalue
from ..statistics.location import NormalScores
from .difference_posterior import STRONG_LOG_BAYES_FACTOR, DifferencePosterior

#: Power at the minimum detectable shift.
POWER = 0.9
#: Simulated shifts, in standard errors of a mean difference, and simulations of each.
SHIFTS, TRIALS = np.geomspace(1.0, 10.0, 9), 20
#: Number of permutations of the tests of shifts.
SHIFT_RESAMPLES = 199
#: Largest number of rows at which shifts are simulated. For more rows, shifts of a random part
#: of them are divided by the square root of the ratio of the sizes.
MAX_SHIFT_ROWS = 2**11
#: Smallest variance within the samples, relative to that of the pooled rows.
MIN_WITHIN_VARIANCE = 1e-3
#: Prior standard deviations of the probit regression: of its intercept about the quantile of the
#: level, and of its log slope.
INTERCEPT_SD, LOG_SLOPE_SD = 0.5, 3.0
#: Numbers of differences from the posterior, and of tests of each.
DRAWS, TESTS = 32, 6
#: Number of permutations of the tests of required sample sizes.
SIZE_RESAMPLES = 199
#: Grid of numbers of rows: the smallest, the largest relative to the samples, and their number.
MIN_ROWS, MAX_RATIO, GRID = 24.0, 50.0, 80
#: Largest ratio of the numbers of rows in successive tests of a difference.
MAX_STEP = 3.0
#: Number of expectation-maximization steps from a uniform distribution.
EM_STEPS = 60
#: Posterior quantiles of the required sample size.
LOW, MEDIAN, HIGH = 0.1, 0.5, 0.9
WEAK_NOTE = (
    "the evidence of a difference is weak, so that its posterior is shrunk to no difference: the "
    "number may be several times too large; for a planned shift of d standard deviations, N rows "
    "with a minimum detectable shift of s suggest N (s / d)^2 rows for a power of about 0.8"
)


def minimum_detectable_shift(sample: PooledSample, alpha: float) -> float | None:
    """Compute the shift of the normal scores of one column that is found with power ``POWER``.

    Args:
        sample: pooled rows with permuted labels.
        alpha: level of the test.

    Returns:
        The shift, in standard deviations within a sample, averaged over at most :data:`TRIALS`
        columns; ``None`` if the power of the largest simulated shift is smaller, or if a simulated
        shift is not positive.
    """
    rng = np.random.default_rng(0)
    # The result does not depend on which sample is first: checksums determine the order.
    counts = np.stack([sample.first_counts, sample.counts - sample.first_counts]).astype(float)
    of_p, of_q = (checksum(np.column_stack([sample.points, count])) for count in counts)
    swap, error = of_p > of_q, _mean_difference_error(sample)
    if sample.is_independent and sample.n_rows > MAX_SHIFT_ROWS:
        sample = _draw_rows(sample, rng, swap=swap)
    unit = _mean_difference_error(sample)
    varying = sample.points[:, np.ptp(sample.points, axis=0) > 0.0]
    scores = NormalScores.of(varying, sample.counts)(varying).T
    # The variance of scores of tied rows is less than 1.
    scores = scores / np.sqrt(np.average(scores**2, axis=1, weights=sample.counts))[:, None]
    log_odds = scores
    if isinstance(sample, PairedSample):
        # A difference of mean scores of pairs has less noise if the rows of a pair are similar.
        a, b = sample.partners.T
        square = 0.5 * np.square(scores[:, a] - scores[:, b]).mean(axis=1)
        log_odds = scores / np.sqrt(np.where(square > 0.0, square, 1.0))[:, None]
    assigned, shifts = [], []
    # Columns in turn, of many columns evenly spaced ones.
    columns = np.arange(TRIALS) * max(len(scores), TRIALS) // TRIALS % len(scores)
    for strength in SHIFTS * unit:
        for column in columns:
            score = scores[column]
            first = _assign_labels(sample, strength * log_odds[column], rng, swap=swap)
            assigned.append(first)
            first_sum, total = (score @ first)[None, None], (score @ sample.counts)[None]
            shifts.append(sample.with_labels(first[:, None]).mean_differences(first_sum, total))
    permuted = sample.point_labels(slice(1, 1 + SHIFT_RESAMPLES))
    labels = np.concatenate([np.stack(assigned, axis=1).astype(permuted.dtype), permuted], axis=1)
    combined = CombinedStatistic.evaluate(sample.with_labels(labels))
    values = combined.values(n_observed=len(assigned))
    observed, null = values[: len(assigned)], values[len(assigned) :]
    rejected = np.array([p_value(np.append(value, null)) <= alpha for value in observed])
    shift = np.array(shifts).reshape(len(SHIFTS), TRIALS).mean(axis=1) * (-1.0 if swap else 1.0)
    # In standard deviations within a sample, which are smaller than those of the pooled rows.
    within = 1.0 - sample.first_fraction * (1.0 - sample.first_fraction) * shift**2
    shift = shift / np.sqrt(np.maximum(within, MIN_WITHIN_VARIANCE))
    if not (shift > 0.0).all() or rejected[-TRIALS:].mean() < POWER:
        return None
    return size_at_power(np.repeat(shift, TRIALS), rejected, POWER, alpha)[0] * error / unit


def _mean_difference_error(sample: PooledSample) -> float:
    """Return the standard error of a mean difference of columns with variance 1."""
    return math.sqrt(np.sum(1.0 / sample.effective_sizes))


def _draw_rows(sample: PooledSample, rng: np.random.Generator, *, swap: bool) -> PooledSample:
    """Draw :data:`MAX_SHIFT_ROWS` of the rows of both samples, and permute their labels.

    If ``swap``, the rows of the second sample are drawn first.
    """
    counts = [sample.first_counts, sample.counts - sample.first_counts]
    drawn = {}
    for index in (1, 0) if swap else (0, 1):
        size = max(2, round(MAX_SHIFT_ROWS * sample.effective_sizes[index] / sample.n_rows))
        drawn[index] = rng.multivariate_hypergeometric(counts[index].astype(int), size)
    total = drawn[0] + drawn[1]
    used = total > 0
    return pool_counts(
        sample.points[used],
        total[used],
        drawn[0][used],
        sample.scale,
        SHIFT_RESAMPLES,
        rng,
        second_first=swap,
    )


def _assign_labels(
    sample: PooledSample, log_odds: np.ndarray, rng: np.random.Generator, *, swap: bool
) -> np.ndarray:
    """Assign rows (C,) to the first sample, or the second if ``swap``, by their log odds."""
    if sample.permutation_type == "signs":
        # Weights proportional to the odds, with the errors of a random permutation.
        sign, fraction = (
            (-1.0, 1.0 - sample.first_fraction) if swap else (1.0, sample.first_fraction)
        )
        first = sample.counts * expit(logit(fraction) + log_odds)
        second = sample.counts - first
        errors = sample.labels[:, rng.integers(1, sample.labels.shape[1])]
        return sign * (first / first.sum() - second / second.sum()) + errors
    if isinstance(sample, PairedSample):
        a, b = sample.partners.T[::-1] if swap else sample.partners.T
        upper = rng.logistic(size=len(a)) < log_odds[a] - log_odds[b]
        assigned = np.bincount(np.where(upper, a, b), minlength=len(log_odds))
    else:
        # The largest of shifted Gumbel variables: sampling without replacement by the odds.
        point = np.repeat(np.arange(len(sample.counts)), sample.counts)
        keys, size = -(log_odds[point] + rng.gumbel(size=len(point))), sample.sizes[int(swap)]
        order = np.argpartition(keys, size - 1)
        assigned = np.bincount(point[order[:size]], minlength=len(log_odds))
    return sample.counts - assigned if swap else assigned


def size_at_power(
    sizes: np.ndarray, rejected: np.ndarray, power: float, alpha: float
) -> tuple[float, float]:
    """Fit the power function ``P(reject) = Phi(a + b size)`` by probit regression.

    The prior of ``a`` is close to the quantile of the level, which is the power at size 0.

    Args:
        sizes: (k,), positive.
        rejected: (k,), whether the test rejected.
        power: between ``alpha`` and 1.
        alpha: level of the test.

    Returns:
        The size with this power, and its relative standard error.
    """
    from scipy.optimize import minimize  # slow to import, and not needed if a difference is found

    unit, level = sizes.mean(), ndtri(alpha)

    def loss(parameters: np.ndarray) -> float:
        a, log_b = parameters
        z = a + np.exp(log_b) * sizes / unit
        log_likelihood = np.where(rejected, log_ndtr(z), log_ndtr(-z)).sum()
        intercept, slope = (a - level) / INTERCEPT_SD, log_b / LOG_SLOPE_SD
        return float(-log_likelihood + 0.5 * intercept**2 + 0.5 * slope**2)

    best = minimize(loss, np.array([level, 0.5]), method="BFGS")
    a, log_b = best.x
    size = (ndtri(power) - a) / math.exp(log_b)
    gradient = np.array([-1.0 / (ndtri(power) - a), -1.0])  # of log size
    error = math.sqrt(max(float(gradient @ best.hess_inv @ gradient), 0.0))
    return float(size * unit), error


@dataclasses.dataclass(frozen=True)
class RequiredSampleSize:
    """Number of rows with which the test finds the difference.

    Attributes:
        sizes: of P and Q, in the proportions of the samples, the posterior median; ``None`` if it
            is more than 50 times the number of rows.
        interval: interval of the total number of rows, with posterior probability 0.8. Its upper
            end may be infinite. In 0.6 to 0.8 of 20 data sets in each of four settings it
            contained the true number (``benchmarks/rows_needed.py``): it is slightly too narrow,
            and too large more often than too small.
        power: probability of a rejection.
        notes: warnings.
    """

    sizes: tuple[int, int] | None
    interval: tuple[float, float]
    power: float
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.sizes is None:
            size = f"more than {MAX_RATIO:g} times the number of rows"
        else:
            low, high = (
                f"{end:.0f}" if math.isfinite(end) else "unbounded" for end in self.interval
            )
            first, second = self.sizes
            size = (
                f"{first + second} rows in all ({first} + {second}; 80 % posterior interval {low} "
                f"to {high})"
            )
        answer = f"Required sample size for a power of {self.power:g}: {size}."
        return "\n  ".join([answer, *(f"Note: {note}" for note in self.notes)])


def required_sample_size(
    posterior: DifferencePosterior, sample: PooledSample, alpha: float, power: float, seed: int
) -> RequiredSampleSize:
    """Compute the number of rows with which the test rejects with probability ``power``."""
    rng = np.random.default_rng(seed)
    h = posterior.draw(DRAWS, rng).evaluate(sample.points)
    fraction, largest = sample.first_fraction, MAX_RATIO * sample.n_rows
    densities = [
        np.clip(1.0 + factor * h, 0.0, None) * sample.counts
        for factor in (1.0 - fraction, -fraction)
    ]

    def rejects(index: int, n_rows: float) -> bool:
        P, Q = (
            sample.points[
                rng.choice(len(density[index]), size, p=density[index] / density[index].sum())
            ]
            for density, size in zip(densities, _split(n_rows, fraction), strict=True)
        )
        if np.all(np.concatenate([P, Q]) == P[0]):
            return False
        return combined_pvalue(pool_rows(TwoSamples(P, Q), SIZE_RESAMPLES, rng)) <= alpha

    search = search_sizes(rejects, power, alpha, start=float(sample.n_rows), largest=largest)
    low, median, high = search.quantiles(LOW, MEDIAN, HIGH)
    limit = search.grid[-2]  # the last of the grid represents all larger ones
    interval = (float(low), float(high) if high < limit else math.inf)
    sizes = _split(median, fraction) if median < limit else None
    weak = posterior.log_bayes_factor <= STRONG_LOG_BAYES_FACTOR
    return RequiredSampleSize(sizes, interval, power, (WEAK_NOTE,) if weak else ())


def _split(n_rows: float, fraction: float) -> tuple[int, int]:
    return max(2, math.ceil(fraction * n_rows)), max(2, math.ceil((1.0 - fraction) * n_rows))


def search_sizes(
    rejects: Callable[[int, float], bool],
    power: float,
    alpha: float,
    *,
    start: float,
    largest: float,
) -> SizeLikelihoods:
    """Test each difference with numbers of rows that converge to the one it requires.

    Args:
        rejects: tests a difference, by its index, with a number of rows.
        power: required power.
        alpha: level of the test.
        start: first number of rows.
        largest: largest number of rows of the grid.
    """
    grid = np.geomspace(MIN_ROWS, largest, GRID)
    search = SizeLikelihoods(
        grid, np.zeros((DRAWS, GRID)), float(ndtri(alpha)), float(ndtri(power))
    )
    n_rows = np.full(DRAWS, start)
    for _ in range(TESTS):
        rejected = np.array([rejects(index, number) for index, number in enumerate(n_rows)])
        search = search.update(n_rows, rejected)
        n_rows = np.clip(search.means(), n_rows / MAX_STEP, n_rows * MAX_STEP)
    return search


@dataclasses.dataclass(frozen=True)
class SizeLikelihoods:
    """Likelihoods of the numbers of rows that differences require.

    A test of n rows rejects with probability ``Phi(a + (z - a) sqrt(n / required))``: the level at
    0 rows, the power at the required number.

    Attributes:
        grid: (G,), numbers of rows.
        log_likelihoods: (K, G), for each difference.
        level: a, the normal quantile of the level.
        power: z, the normal quantile of the power.
    """

    grid: np.ndarray
    log_likelihoods: np.ndarray
    level: float
    power: float

    def update(self, n_rows: np.ndarray, rejected: np.ndarray) -> SizeLikelihoods:
        """Add one test of each difference.

        Args:
            n_rows: (K,), numbers of rows of the tests.
            rejected: (K,), whether they rejected.
        """
        z = self.level + (self.power - self.level) * np.sqrt(n_rows[:, None] / self.grid)
        log_likelihoods = np.where(rejected[:, None], log_ndtr(z), log_ndtr(-z))
        return dataclasses.replace(self, log_likelihoods=self.log_likelihoods + log_likelihoods)

    def _posteriors(self) -> np.ndarray:
        """Return the posterior probabilities (K, G) of each difference, by empirical Bayes."""
        largest = self.log_likelihoods.max(axis=1, keepdims=True)
        likelihoods = np.exp(self.log_likelihoods - largest)
        weights = np.full(len(self.grid), 1.0 / len(self.grid))
        for _ in range(EM_STEPS):
            posteriors = weights * likelihoods
            posteriors /= posteriors.sum(axis=1, keepdims=True)
            weights = posteriors.mean(axis=0)
        return np.asarray(posteriors)

    def means(self) -> np.ndarray:
        """Return the posterior geometric means (K,) of the numbers of rows."""
        return np.asarray(np.exp(self._posteriors() @ np.log(self.grid)))

    def quantiles(self, *probabilities: float) -> np.ndarray:
        """Return quantiles of the numbers of rows over all differences."""
        weights = self._posteriors().mean(axis=0)
        logs = np.log(self.grid)[:, None]
        return np.asarray(np.exp(weighted_quantiles(logs, weights, probabilities)))[:, 0]
