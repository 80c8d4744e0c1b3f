"""p-values of statistics by their values for all permutations, and combinations of statistics.

A statistic of B permutations is a row of 1 + B numbers, the observed value first. Under the null
hypothesis its columns are exchangeable, and stay so under any operation that treats all columns
alike. The tests are therefore exact, whatever was learned from the pooled sample.

Statistics are combined by their tail probabilities. The values of a statistic for all permutations,
the observed one included, are replaced by minus the logarithm of the tail probability of the
Pearson III distribution with their mean, variance and skewness. A permutation test of the
combination is exact, however well that distribution fits. A heavy-tailed statistic does not
dominate the others, as it does if each is divided by its standard deviation.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from threading import Event
from typing import NamedTuple, TypeVar

import numpy as np
from scipy.special import gammaincc, gammaln, log_ndtr

from ..core.errors import InputError, check_flag
from ..core.machine import cores, side_by_side
from ..data.checks import check_alpha, check_count

T = TypeVar("T")

#: Bytes of a batch of columns with its product, per core.
BATCH_BYTES = 2**27
#: Work on less memory takes less time than the start of threads.
SMALL_BYTES = 2**20
#: Values that differ by less, relative to the spread, are tied: the same permutation gives values
#: that differ by rounding.
TIE = 1e-9
#: Differences smaller than this, relative to the numbers that they were computed from, are rounding
#: errors.
RESOLUTION = 1e-13
NOT_FINITE = (
    "the test statistic is not a finite number: values of the data are too large or too small; "
    "leave out outliers, or divide each column by its largest value"
)
#: Number of parts of the permutations for the jackknife.
N_PARTS = 10
#: Methods that draw the null distribution, as many times as requested.
DRAWN = ("permutation", "local permutation", "spectrum", "wild bootstrap")
#: Permutations of the first stage, factor from one stage to the next, and average number of
#: permutations of the first stage that exceed a statistic at the level.
FIRST_STAGE, STAGE_GROWTH, MIN_EXCEEDING = 999, 10, 10
#: A stage is the last if its p-value exceeds this multiple of the level. A test whose true p-value
#: is the level stops there once in 10^11 tests.
CLEAR = 4.0
#: Below this skewness Pearson III equals the normal distribution up to rounding; for negative
#: skewness the normal distribution is used.
MIN_SKEWNESS = 1e-3
#: Default order of the generalized mean of tail probabilities, with opposite sign: the minimum at
#: infinity, the geometric mean at zero.
ORDER = 0.5


def in_batches(
    work: Callable[[slice], np.ndarray], count: int, bytes_per_column: int
) -> np.ndarray:
    """Compute slices of ``count`` columns on all cores, and join them along the last axis.

    Args:
        work: computes a slice.
        count: number of columns.
        bytes_per_column: memory for one column.
    """
    most = max(1, BATCH_BYTES // bytes_per_column)
    small = count * bytes_per_column < SMALL_BYTES
    parts = 1 if small else max(cores(), -(-count // most))
    edges = np.linspace(0, count, min(parts, count) + 1).astype(int)
    slices = [slice(a, b) for a, b in itertools.pairwise(edges)]
    results = side_by_side(lambda index: work(slices[index]), len(slices), Event())
    return np.concatenate(results, axis=-1)


class StatisticMoments(NamedTuple):
    """Moments of statistics, (..., 1) for all columns of a row or (..., C) for each column."""

    mean: np.ndarray
    deviation: np.ndarray
    skewness: np.ndarray


def standardize(
    statistics: np.ndarray, *, zero_mean: bool = False, n_observed: int = 0
) -> np.ndarray:
    """Standardize each row (..., 1 + B) by its mean and standard deviation over all columns.

    A constant row, which does not distinguish permutations, becomes zero.

    Args:
        statistics: see above.
        zero_mean: the mean is known to be zero.
        n_observed: number of first columns that are each compared with the others alone, see
            :func:`with_single_observed`.
    """
    permuted = statistics[..., n_observed:]
    mean = np.zeros_like(permuted[..., :1]) if zero_mean else permuted.mean(axis=-1, keepdims=True)
    deviation = np.sqrt(np.mean(np.square(permuted - mean), axis=-1, keepdims=True))
    if n_observed:
        moments = StatisticMoments(mean, deviation, np.zeros_like(mean))
        mean, deviation, _ = with_single_observed(
            statistics, moments, n_observed, zero_mean=zero_mean
        )
    flat = deviation <= TIE * np.abs(statistics).max(axis=-1, keepdims=True)
    return np.where(flat, 0.0, (statistics - mean) / np.where(flat, 1.0, deviation))


def with_single_observed(
    statistics: np.ndarray, permuted: StatisticMoments, n_observed: int, *, zero_mean: bool = False
) -> StatisticMoments:
    """Return the moments of each observed statistic together with the permuted ones.

    Many observed statistics are then tested against the same permutations at once. This is the
    separate test of each, except that its contribution to the moments of the permuted ones is left
    out.

    Args:
        statistics: (..., C), the observed ones first.
        permuted: moments of the permuted ones.
        n_observed: number of observed ones.
        zero_mean: the mean is known to be zero.

    Returns:
        Moments (..., C) of each observed value with the permuted ones, and those of the latter.
    """
    count = statistics.shape[-1] - n_observed
    deviations = statistics[..., :n_observed] - permuted.mean
    step = np.zeros_like(deviations) if zero_mean else deviations / (count + 1)
    square = (count * permuted.deviation**2 + deviations**2) / (count + 1)
    cube = (count * permuted.skewness * permuted.deviation**3 + deviations**3) / (count + 1)
    variance = np.maximum(square - step**2, 0.0)
    deviation = np.sqrt(variance)
    third = cube - 3.0 * step * square + 2.0 * step**3
    skewness = third / np.where(variance > 0.0, variance * deviation, 1.0)
    observed = StatisticMoments(permuted.mean + step, deviation, skewness)
    shape = (*statistics.shape[:-1], count)
    pairs = [
        (first, np.broadcast_to(rest, shape))
        for first, rest in zip(observed, permuted, strict=True)
    ]
    return StatisticMoments(*(np.concatenate(pair, axis=-1) for pair in pairs))


def without_rounding(statistic: np.ndarray, magnitude: float) -> np.ndarray:
    """Make a statistic (1 + B,) constant if it varies by no more than rounding errors.

    Otherwise these would decide which permutations exceed the observed value.

    Args:
        statistic: (1 + B,).
        magnitude: size of the numbers whose differences the statistics are.
    """
    if np.ptp(statistic) <= RESOLUTION * magnitude:
        return np.full_like(statistic, statistic.mean())
    return statistic


def exceedances(statistic: np.ndarray) -> np.ndarray:
    """Count for each value of (1 + B,) how many are as large, with itself and its ties.

    Raises:
        InputError: a value is not finite.
    """
    if not np.isfinite(statistic).all():
        raise InputError(NOT_FINITE)
    tolerance = TIE * (statistic.std() or 1.0)
    ordered = np.sort(statistic)
    return len(statistic) - np.searchsorted(ordered, statistic - tolerance, side="left")


def p_value(statistic: np.ndarray) -> float:
    """Return (1 + #{permuted >= observed}) / (1 + B) of (1 + B,), the observed value first."""
    return float(exceedances(statistic)[0] / len(statistic))


def step_down(statistics: np.ndarray) -> np.ndarray:
    """Adjust the p-values (k,) of several statistics (Westfall and Young 1993, algorithm 2.8).

    Each statistic is compared with the maximum of those that are not more significant. The
    family-wise error rate is controlled for any set of true null hypotheses.

    Args:
        statistics: (k, 1 + B), on one scale, large for a difference; the observed value first.
    """
    if not len(statistics):
        return np.empty(0)
    order = np.argsort(-statistics[:, 0], kind="stable")
    # The maximum of each statistic and the less significant ones.
    maxima = np.maximum.accumulate(statistics[order[::-1]], axis=0)[::-1]
    observed = statistics[order, 0]
    smallest = observed - TIE * np.abs(observed)
    raw = np.mean(maxima >= smallest[:, None], axis=1)
    adjusted = np.empty(len(order))
    adjusted[order] = np.maximum.accumulate(raw)
    return adjusted


def proportion_error(pvalue: float, n_resamples: int) -> float:
    """Return the Monte Carlo standard error of a p-value that is a proportion of permutations.

    It is zero for 0 permutations, of a null distribution in closed form.
    """
    return math.sqrt(pvalue * (1.0 - pvalue) / (1 + n_resamples)) if n_resamples else 0.0


def monte_carlo_error(
    statistic: Callable[[np.ndarray], np.ndarray], pvalue: float, n_columns: int
) -> float:
    """Return the Monte Carlo standard error of a p-value whose statistic uses the permutations.

    Statistics that are standardized by their permutations, or replaced by tail probabilities, vary
    with them, in addition to the proportion. The error is that of the jackknife over parts of the
    permutations (Shao and Tu 1995, section 2.3), and at least that of a proportion.

    Args:
        statistic: maps indices (1 + b,) of columns, 0 for the observed one first, to the statistic
            of these columns, (1 + b,).
        pvalue: by all permutations.
        n_columns: 1 + B.
    """
    columns = np.arange(n_columns)
    part = (columns - 1) % N_PARTS

    def without(left_out: int) -> float:
        return p_value(statistic(columns[(part != left_out) | (columns == 0)]))

    variance = (N_PARTS - 1.0) * float(np.var(side_by_side(without, N_PARTS, Event())))
    return max(math.sqrt(variance), proportion_error(pvalue, n_columns - 1))


def check_permutations(
    n_resamples: int,
    alpha: float,
    noun: str = "permutations",
    method: str = "permutation",
    n_tests: int = 1,
) -> float:
    """Check that the number of permutations is valid and large enough for the level.

    The number is irrelevant for methods that do not draw the null distribution. The smallest
    p-value of several tests that share the level is multiplied by their number.

    Returns:
        The level.
    """
    check_count(n_resamples, "n_resamples" if noun == "permutations" else noun, 1)
    alpha = check_alpha(alpha)
    if method not in DRAWN:
        return alpha
    needed = int(np.ceil(n_tests / alpha - 1e-9)) - 1
    if n_resamples < needed:
        raise InputError(
            f"{n_resamples} {noun} cannot reject at level {alpha:g}: the smallest p-value is "
            f"{n_tests}/{n_resamples + 1}; take at least {needed}"
        )
    return alpha


def small_sample_note(n_distinct: int, alpha: float) -> tuple[str, ...]:
    """Return a note if there are too few distinct permutations to reject at the level."""
    if n_distinct >= 1.0 / alpha:
        return ()
    return (
        f"so few rows can be permuted in {n_distinct} ways only: apart from the Monte Carlo error "
        f"of the permutations, no p-value is below 1/{n_distinct}, whatever they are",
    )


def stages(n_resamples: int, alpha: float) -> list[int]:
    """Return the number of permutations of each stage; the last stage has all of them."""
    count = max(FIRST_STAGE, math.ceil(MIN_EXCEEDING / alpha) - 1)
    counts = []
    while STAGE_GROWTH * (count + 1) <= n_resamples + 1:
        counts.append(count)
        count = STAGE_GROWTH * (count + 1) - 1
    return [*counts, n_resamples]


def in_stages(
    evaluate: Callable[[int], T],
    n_resamples: int,
    alpha: float,
    *,
    sequential: bool = True,
    pvalue: Callable[[T], float] = operator.attrgetter("pvalue"),
) -> T:
    """Evaluate a test with more and more permutations until its decision is clear.

    The test stops at the first stage whose p-value exceeds :data:`CLEAR` times the level. The
    p-value of the last stage is valid: let p_1, p_2, ... be those of the stages and p > c the
    condition to stop. A p-value of at most u <= c is that of the last stage, and for u > c it
    implies p_1 <= u; the probability is at most u for both under the null hypothesis. (Besag and
    Clifford 1991 stop at a number of exceedances, which requires statistics one by one; here all
    statistics are one matrix product.)

    Args:
        evaluate: computes the test with a number of permutations.
        n_resamples: largest number of permutations.
        alpha: level.
        sequential: stop early; otherwise all permutations are drawn at once.
        pvalue: p-value of a result, its attribute by default.
    """
    check_flag(sequential, "sequential")
    *earlier, last = stages(n_resamples, alpha) if sequential else [n_resamples]
    for count in earlier:
        result = evaluate(count)
        if pvalue(result) > CLEAR * alpha:
            return result
    return evaluate(last)


def describe_count(drawn: int, requested: int) -> str:
    """Describe the number of permutations, and that fewer than requested were needed."""
    return f"{drawn} permutations" + (f" of at most {requested}" if drawn < requested else "")


def describe_p(pvalue: float, n_resamples: int, n_tests: int = 1) -> str:
    """Describe a p-value, with "≤" for the smallest one that the permutations can show.

    Args:
        pvalue: p-value of a test, or the smallest of several tests times their number.
        n_resamples: permutations of each test; 0 for a null distribution in closed form.
        n_tests: number of tests.
    """
    smallest = n_resamples > 0 and pvalue <= n_tests * (1.0 + TIE) / (1 + n_resamples)
    return f"p {'≤' if smallest else '='} {pvalue:.3g}"


def format_p(pvalue: float, n_resamples: int) -> str:
    """Format a p-value for a column with the heading "p"."""
    return describe_p(pvalue, n_resamples).removeprefix("p ").removeprefix("= ")


def describe_p_with_error(pvalue: float, error: float, n_resamples: int) -> str:
    """Describe a p-value with its Monte Carlo standard error."""
    text = describe_p(pvalue, n_resamples)
    return text if error == 0.0 or text.startswith("p ≤") else f"{text} ± {error:.1g}"


def neg_log_tails(
    statistics: np.ndarray, *, trim: int = 0, n_observed: int = 0, approximate: bool = False
) -> np.ndarray:
    """Compute minus the log tail probability of every value of statistics (..., 1 + B).

    It is zero for a constant statistic.

    Args:
        statistics: each row among its own columns.
        trim: number of largest values that are left out of the mean, variance and skewness. With 1
            a value far beyond all others gets its very small tail probability, instead of about
            one in 1 + B, which separates several significant statistics.
        n_observed: number of first columns that are observed statistics, each compared with the
            other columns alone, see :func:`.null_distribution.with_single_observed`.
        approximate: approximate the distribution, which takes a fifth of the time and suffices
            for a standard error.
    """
    magnitude = np.abs(statistics).max(axis=-1, keepdims=True)
    varies = statistics.std(axis=-1, keepdims=True) > TIE * magnitude
    used = statistics[..., n_observed:]
    if trim:
        used = np.sort(used, axis=-1)[..., :-trim]
    mean, deviation = used.mean(axis=-1, keepdims=True), used.std(axis=-1, keepdims=True)
    scores = (used - mean) / np.where(deviation > 0.0, deviation, 1.0)
    # Three factors, because a power takes ten times as long.
    skewness = np.mean(scores * scores * scores, axis=-1, keepdims=True)
    if n_observed:
        moments = StatisticMoments(mean, deviation, skewness)
        mean, deviation, skewness = with_single_observed(statistics, moments, n_observed)
    deviation = np.where(deviation > 0.0, deviation, 1.0)
    shape = 4.0 / np.maximum(skewness, MIN_SKEWNESS) ** 2
    values = np.maximum(shape + (statistics - mean) / deviation * np.sqrt(shape), 0.0)
    compute = _approximate_log_tails if approximate else _neg_log_gamma_tails
    return np.where(varies, compute(shape, values), 0.0)


def _neg_log_gamma_tails(shape: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Compute minus log P(G > values) of gamma variables G with shapes (..., 1) and scale one."""
    tails = gammaincc(shape, values)
    # If the tail underflows: the leading terms of the incomplete gamma function, for x > shape.
    underflow = tails == 0.0
    logs = np.log(np.where(underflow, 1.0, tails))
    x, shape = values[underflow], np.broadcast_to(shape, values.shape)[underflow]
    logs[underflow] = (shape - 1.0) * np.log(x) - x - gammaln(shape)
    logs[underflow] -= np.log1p(-np.maximum(shape - 1.0, 0.0) / x)
    return -logs


def _approximate_log_tails(shape: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Approximate the same by cube roots, which are nearly normal (Wilson and Hilferty 1931)."""
    normal = np.cbrt(values / shape) - 1.0 + 1.0 / (9.0 * shape)
    return np.asarray(-log_ndtr(-3.0 * np.sqrt(shape) * normal))


def combine_statistics(
    statistics: Sequence[np.ndarray],
    weights: Sequence[float],
    *,
    n_observed: int = 0,
    approximate: bool = False,
) -> np.ndarray:
    """Combine statistics, (1 + B,) each, by the generalized mean of their tail probabilities.

    The mean has the order -:data:`ORDER` (Vovk and Wang 2020). The result is minus its logarithm;
    its null distribution is that over permutations.

    Args:
        statistics: (1 + B,) each.
        weights: weights in the mean.
        n_observed: as for :func:`neg_log_tails`.
        approximate: as for :func:`neg_log_tails`.
    """
    logs = neg_log_tails(np.asarray(statistics), n_observed=n_observed, approximate=approximate)
    proportions = np.asarray(weights) / np.sum(weights)
    return generalized_mean(logs + np.log(proportions)[:, None] / ORDER)


def generalized_mean(neg_logs: np.ndarray, order: float = ORDER) -> np.ndarray:
    """Return minus the log of the mean of order ``-order`` of p-values, up to a constant.

    Args:
        neg_logs: minus the logarithms of the p-values, (k, 1 + B).
        order: the order with opposite sign.
    """
    # Several times faster than SciPy's logsumexp, which is for arrays of any library.
    scaled = order * neg_logs
    largest = scaled.max(axis=0)
    return np.asarray((largest + np.log(np.exp(scaled - largest).sum(axis=0))) / order)
