"""Other ways to watch a stream, each brought to one rate of false alarms.

Betting with a fixed kernel is a test with a guarantee of its own. Of the detectors of river and
frouros, which have none, statistics of every row are compared with the quantile of their maximum
over streams that do not change.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np
from monitoring_settings import normal
from scipy.spatial.distance import cdist, pdist

ALPHA = 0.05
#: Streams that do not change, fewer for what is slow; their rows, and rows of the reference.
STREAMS, OF_SLOW, ROWS, REFERENCE = 100, 30, 10_000, 1000
SLOW = ("incremental KS", "streaming MMD")
#: Parameters of detectors that tell alarms alone, from few to many of them.
DELTAS = 10.0 ** -np.arange(2.0, 16.0)
LIMITS = np.geomspace(10.0, 1000.0, 25)[::-1]
#: Rows of a window of frouros's detectors.
WINDOW = 200
#: What each tool does.
TOLD = {
    "betting": "Betting: on the witness of a squared exponential kernel with the median distance, "
    "learned from all rows before, by online Newton steps (Shekhar and Ramdas 2023), with a new "
    "row of the reference's distribution beside every row of the stream, more than the others "
    "have; alarm at a wealth of 20.",
    "ADWIN": "ADWIN: river's, one a column, after the reference.",
    "Page-Hinkley": "Page-Hinkley: river's, likewise.",
    "incremental KS": "Incremental Kolmogorov-Smirnov: frouros's, one a column, windows of 200 "
    "rows.",
    "streaming MMD": "Streaming MMD: frouros's, windows of 200 rows, beside 200 of the reference.",
}
THRESHOLDS = (
    "Thresholds of detectors give alarms ever in 5 % of so many streams of 10 000 rows that do not "
    "change: 100, and 30 of frouros's."
)


def alarm(tool: str, reference: np.ndarray, stream: np.ndarray, seed: int) -> float:
    """The row of the first alarm, counted from 1; infinite where there is none."""
    if tool == "betting":
        found = betting(stream, normal(len(stream), np.random.default_rng([7, seed])))
        limit = math.log(1.0 / ALPHA)
    else:
        found, limit = STATISTICS[tool](reference, stream), threshold(tool)
    over = found > limit
    return float(np.argmax(over) + 1) if over.any() else math.inf


@functools.cache
def threshold(tool: str) -> float:
    """What the statistic's maximum exceeds in 5 % of streams that do not change."""
    largest = []
    for seed in range(OF_SLOW if tool in SLOW else STREAMS):
        rng = np.random.default_rng([11, seed])
        reference = normal(REFERENCE, rng)
        largest.append(STATISTICS[tool](reference, normal(ROWS, rng)).max())
    return float(np.quantile(largest, 1.0 - ALPHA, method="higher"))


def betting(stream: np.ndarray, beside: np.ndarray, block: int = 100) -> np.ndarray:
    """Log wealth (n,) of bets on pairs of rows, by the witness of all rows before.

    The witness is over its norm, so that a payoff is at most sqrt(2) in size and half of the
    wealth is never lost; the stake follows the online Newton step.
    """
    scale = float(np.median(pdist(beside[:500])))
    wealth, stake, curvature = 0.0, 0.0, 1.0
    found, norm = np.empty(len(stream)), 0.0
    for start in range(0, len(stream), block):
        rows = slice(start, min(start + block, len(stream)))
        both = np.concatenate([stream[rows], beside[rows]])
        past = np.concatenate([stream[:start], beside[:start]])
        signs = np.repeat([1.0, -1.0], start)
        # Within a block the witness is that of the rows before it.
        payoffs = np.zeros(rows.stop - start)
        if start:
            values = np.exp(-0.5 * cdist(both, past, "sqeuclidean") / scale**2) @ signs / start
            payoffs = (values[: len(payoffs)] - values[len(payoffs) :]) / max(norm, 1e-12)
            payoffs = np.clip(payoffs / math.sqrt(2.0), -1.0, 1.0)
        for at, payoff in enumerate(payoffs):
            wealth += math.log1p(stake * payoff)
            found[start + at] = wealth
            slope = payoff / (1.0 + stake * payoff)
            curvature += slope**2
            stake = float(
                np.clip(stake + 2.0 / (2.0 - math.log(3.0)) * slope / curvature, -0.5, 0.5)
            )
        norm = _norm(np.concatenate([past, both]), start, rows.stop - start, scale)
    return found


def _norm(rows: np.ndarray, before: int, new: int, scale: float) -> float:
    """The norm of the witness of all rows, by at most 1000 of each sample."""
    signs = np.concatenate([np.repeat([1.0, -1.0], before), np.repeat([1.0, -1.0], new)])
    if len(rows) > 2000:
        some = np.linspace(0, len(rows) - 1, 2000).astype(int)
        rows, signs = rows[some], signs[some]
    weights = signs / np.where(signs > 0, (signs > 0).sum(), (signs < 0).sum())
    gram = np.exp(-0.5 * cdist(rows, rows, "sqeuclidean") / scale**2)
    return math.sqrt(max(float(weights @ gram @ weights), 0.0))


def _steps(make: Callable[[float], object], grid: np.ndarray) -> Callable[..., np.ndarray]:
    """How many parameters of a grid have raised an alarm in some column, by rows."""

    def statistic(reference: np.ndarray, stream: np.ndarray) -> np.ndarray:
        found = np.zeros(len(stream))
        for column, before in zip(stream.T, reference.T, strict=True):
            scale = before.std()
            for at, parameter in enumerate(grid):
                found = np.maximum(
                    found,
                    (at + 1.0) * _since_first(make(parameter), before / scale, column / scale),
                )
        return found

    return statistic


def _since_first(detector: object, before: np.ndarray, column: np.ndarray) -> np.ndarray:
    """Whether an alarm has been raised, by rows (n,) of 0 and 1."""
    for value in before.tolist():
        detector.update(value)  # type: ignore[attr-defined]
    for at, value in enumerate(column.tolist()):
        detector.update(value)  # type: ignore[attr-defined]
        if detector.drift_detected:  # type: ignore[attr-defined]
            return (np.arange(len(column)) >= at).astype(float)
    return np.zeros(len(column))


def _adwin(reference: np.ndarray, stream: np.ndarray) -> np.ndarray:
    from river.drift import ADWIN

    # The grid goes from many alarms to few, so that a later one is stronger evidence.
    return _steps(lambda delta: ADWIN(delta=delta), DELTAS)(reference, stream)


def _page_hinkley(reference: np.ndarray, stream: np.ndarray) -> np.ndarray:
    from river.drift import PageHinkley

    return _steps(lambda limit: PageHinkley(threshold=limit, alpha=1.0), LIMITS[::-1])(
        reference, stream
    )


def _kolmogorov(reference: np.ndarray, stream: np.ndarray) -> np.ndarray:
    from frouros.detectors.data_drift.streaming import IncrementalKSTest

    found = np.zeros(len(stream))
    for column, before in zip(stream.T, reference.T, strict=True):
        detector = IncrementalKSTest(window_size=WINDOW)
        detector.fit(X=before)
        for at, value in enumerate(column):
            result, _ = detector.update(value=value)
            if result is not None:
                found[at] = max(found[at], result.statistic)
    return found


def _mmd(reference: np.ndarray, stream: np.ndarray) -> np.ndarray:
    from frouros.detectors.data_drift.streaming import MMD
    from frouros.utils.kernels import rbf_kernel

    scale = reference.std(axis=0)
    sigma = float(np.median(pdist(reference[:500] / scale)))
    detector = MMD(window_size=WINDOW, kernel=functools.partial(rbf_kernel, sigma=sigma))
    detector.fit(X=reference[:WINDOW] / scale)
    found = np.full(len(stream), -1.0)
    for at, row in enumerate(stream / scale):
        result, _ = detector.update(value=row)
        if result is not None:
            found[at] = result.distance
    return found


#: Statistics (n,) of every row, from a reference and a stream.
STATISTICS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "ADWIN": _adwin,
    "Page-Hinkley": _page_hinkley,
    "incremental KS": _kolmogorov,
    "streaming MMD": _mmd,
}
TOOLS = ("betting", *STATISTICS)
