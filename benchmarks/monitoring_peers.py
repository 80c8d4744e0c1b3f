"""Other methods that monitor a stream, calibrated to the same rate of false alarms.

Betting with a fixed kernel is a test with a guaranteed level. The detectors of river and frouros
have no guarantee: their statistics of every row are compared with a quantile of the maximum over
streams without a change.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np
from monitoring_settings import normal
from scipy.spatial.distance import cdist, pdist

ALPHA = 0.05
#: Streams without a change, fewer for slow tools; their rows, and rows of the reference.
STREAMS, STREAMS_OF_SLOW_TOOLS, ROWS, REFERENCE = 100, 30, 10_000, 1000
SLOW = ("incremental KS", "streaming MMD")
#: Parameter grids of detectors that return alarms but no statistic.
DELTAS = 10.0 ** -np.arange(2.0, 16.0)
LIMITS = np.geomspace(10.0, 1000.0, 25)[::-1]
#: Rows of a window of frouros's detectors.
WINDOW = 200
#: Descriptions of the tools in the report.
DESCRIPTIONS = {
    "betting": "Betting: on the witness of a squared exponential kernel with the median distance, "
    "learned from all earlier rows, by online Newton steps (Shekhar and Ramdas 2023). It receives "
    "a new row of the reference's distribution for every row of the stream, which the other tools "
    "do not; alarm at a wealth of 20.",
    "ADWIN": "ADWIN: river's, one per column, initialized with the reference.",
    "Page-Hinkley": "Page-Hinkley: river's, one per column, initialized with the reference.",
    "incremental KS": "Incremental Kolmogorov-Smirnov: frouros's, one per column, windows of 200 "
    "rows.",
    "streaming MMD": "Streaming MMD: frouros's, windows of 200 rows and 200 rows of the reference.",
}
THRESHOLDS = (
    "Thresholds of detectors are calibrated to alarms in 5 % of 100 streams (frouros: 30) of "
    "10 000 rows without a change."
)


def alarm(tool: str, reference: np.ndarray, stream: np.ndarray, seed: int) -> float:
    """Return the row of the first alarm, counted from 1, or infinity without an alarm."""
    if tool == "betting":
        statistics = betting(stream, normal(len(stream), np.random.default_rng([7, seed])))
        limit = math.log(1.0 / ALPHA)
    else:
        statistics, limit = STATISTICS[tool](reference, stream), threshold(tool)
    over = statistics > limit
    return float(np.argmax(over) + 1) if over.any() else math.inf


@functools.cache
def threshold(tool: str) -> float:
    """Return the 95 % quantile of the statistic's maximum over streams without a change."""
    largest = []
    for seed in range(STREAMS_OF_SLOW_TOOLS if tool in SLOW else STREAMS):
        rng = np.random.default_rng([11, seed])
        reference = normal(REFERENCE, rng)
        largest.append(STATISTICS[tool](reference, normal(ROWS, rng)).max())
    return float(np.quantile(largest, 1.0 - ALPHA, method="higher"))


def betting(stream: np.ndarray, reference_rows: np.ndarray, block: int = 100) -> np.ndarray:
    """Return the log wealth (n,) of bets on pairs of rows by the witness of all earlier rows.

    The witness is divided by its norm, so that a payoff is at most sqrt(2) in absolute value and at
    most half of the wealth is lost; the stake follows the online Newton step.
    """
    scale = float(np.median(pdist(reference_rows[:500])))
    wealth, stake, curvature = 0.0, 0.0, 1.0
    log_wealth, norm = np.empty(len(stream)), 0.0
    for start in range(0, len(stream), block):
        rows = slice(start, min(start + block, len(stream)))
        both = np.concatenate([stream[rows], reference_rows[rows]])
        past = np.concatenate([stream[:start], reference_rows[:start]])
        signs = np.repeat([1.0, -1.0], start)
        # All rows of a block use the witness of the rows before the block.
        payoffs = np.zeros(rows.stop - start)
        if start:
            values = np.exp(-0.5 * cdist(both, past, "sqeuclidean") / scale**2) @ signs / start
            payoffs = (values[: len(payoffs)] - values[len(payoffs) :]) / max(norm, 1e-12)
            payoffs = np.clip(payoffs / math.sqrt(2.0), -1.0, 1.0)
        for index, payoff in enumerate(payoffs):
            wealth += math.log1p(stake * payoff)
            log_wealth[start + index] = wealth
            gradient = payoff / (1.0 + stake * payoff)
            curvature += gradient**2
            stake = float(
                np.clip(stake + 2.0 / (2.0 - math.log(3.0)) * gradient / curvature, -0.5, 0.5)
            )
        norm = _norm(np.concatenate([past, both]), start, rows.stop - start, scale)
    return log_wealth


def _norm(rows: np.ndarray, before: int, new: int, scale: float) -> float:
    """Estimate the norm of the witness of all rows from at most 1000 rows of each sample."""
    signs = np.concatenate([np.repeat([1.0, -1.0], before), np.repeat([1.0, -1.0], new)])
    if len(rows) > 2000:
        subset = np.linspace(0, len(rows) - 1, 2000).astype(int)
        rows, signs = rows[subset], signs[subset]
    weights = signs / np.where(signs > 0, (signs > 0).sum(), (signs < 0).sum())
    gram = np.exp(-0.5 * cdist(rows, rows, "sqeuclidean") / scale**2)
    return math.sqrt(max(float(weights @ gram @ weights), 0.0))


def _alarm_counts(make: Callable[[float], object], grid: np.ndarray) -> Callable[..., np.ndarray]:
    """Return a statistic of each row: the number of parameters with an alarm in some column."""

    def statistic(reference: np.ndarray, stream: np.ndarray) -> np.ndarray:
        statistics = np.zeros(len(stream))
        for column, before in zip(stream.T, reference.T, strict=True):
            scale = before.std()
            for index, parameter in enumerate(grid):
                statistics = np.maximum(
                    statistics,
                    (index + 1.0)
                    * _alarm_indicator(make(parameter), before / scale, column / scale),
                )
        return statistics

    return statistic


def _alarm_indicator(detector: object, before: np.ndarray, column: np.ndarray) -> np.ndarray:
    """Return 1 for rows (n,) from the first alarm on, and 0 before it."""
    for value in before.tolist():
        detector.update(value)  # type: ignore[attr-defined]
    for index, value in enumerate(column.tolist()):
        detector.update(value)  # type: ignore[attr-defined]
        if detector.drift_detected:  # type: ignore[attr-defined]
            return (np.arange(len(column)) >= index).astype(float)
    return np.zeros(len(column))


def _adwin(reference: np.ndarray, stream: np.ndarray) -> np.ndarray:
    from river.drift import ADWIN

    # The grid is in the order of decreasing sensitivity: a larger statistic is more extreme.
    return _alarm_counts(lambda delta: ADWIN(delta=delta), DELTAS)(reference, stream)


def _page_hinkley(reference: np.ndarray, stream: np.ndarray) -> np.ndarray:
    from river.drift import PageHinkley

    return _alarm_counts(lambda limit: PageHinkley(threshold=limit, alpha=1.0), LIMITS[::-1])(
        reference, stream
    )


def _kolmogorov(reference: np.ndarray, stream: np.ndarray) -> np.ndarray:
    from frouros.detectors.data_drift.streaming import IncrementalKSTest

    statistics = np.zeros(len(stream))
    for column, before in zip(stream.T, reference.T, strict=True):
        detector = IncrementalKSTest(window_size=WINDOW)
        detector.fit(X=before)
        for index, value in enumerate(column):
            result, _ = detector.update(value=value)
            if result is not None:
                statistics[index] = max(statistics[index], result.statistic)
    return statistics


def _mmd(reference: np.ndarray, stream: np.ndarray) -> np.ndarray:
    from frouros.detectors.data_drift.streaming import MMD
    from frouros.utils.kernels import rbf_kernel

    scale = reference.std(axis=0)
    sigma = float(np.median(pdist(reference[:500] / scale)))
    detector = MMD(window_size=WINDOW, kernel=functools.partial(rbf_kernel, sigma=sigma))
    detector.fit(X=reference[:WINDOW] / scale)
    statistics = np.full(len(stream), -1.0)
    for index, row in enumerate(stream / scale):
        result, _ = detector.update(value=row)
        if result is not None:
            statistics[index] = result.distance
    return statistics


#: Functions that compute the statistic (n,) of every row from a reference and a stream.
STATISTICS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "ADWIN": _adwin,
    "Page-Hinkley": _page_hinkley,
    "incremental KS": _kolmogorov,
    "streaming MMD": _mmd,
}
TOOLS = ("betting", *STATISTICS)
