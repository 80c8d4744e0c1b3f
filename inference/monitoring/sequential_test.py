"""Sequential test of a stream of rows against a reference, and estimate of the change point."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from .martingales import Martingales, WealthHistory
from .scores import (
    NUM_BINS,
    NUM_WITNESSES,
    Columns,
    Scores,
    Witnesses,
    bin_counts,
    bin_edges,
    bin_indices,
)

#: Largest number of training rows of the reference, of other rows of the reference that are stored,
#: and of rows of the stream that are stored.
MAX_TRAINING, MAX_CALIBRATION, MAX_RECENT = 1000, 2000, 4096
#: Posterior probability of the interval of a change point.
INTERVAL_PROBABILITY = 0.9


class ChangePoint(NamedTuple):
    """Estimate of a change point, in rows of the stream, counted from 1.

    Attributes:
        row: posterior mode of the first row after the change.
        low: lower end of the shortest interval of posterior probability 0.9.
        high: upper end of the interval.
        censored: the change may precede all stored rows.
    """

    row: int
    low: int
    high: int
    censored: bool

    def __str__(self) -> str:
        text = f"{'at or before ' if self.censored else ''}row {self.row}"
        interval = f" (90 % interval {self.low} to {self.high})"
        return text if self.low == self.high else text + interval


@dataclasses.dataclass(frozen=True)
class Change:
    """A change of one score.

    Attributes:
        description: text, such as "temperature is larger".
        columns: names of the columns of the score.
        wealth: wealth of the score at the row of the alarm, times its weight.
    """

    description: str
    columns: tuple[str, ...]
    wealth: float

    def __str__(self) -> str:
        return self.description


class Alarm(NamedTuple):
    """State of the test at the row of an alarm.

    Attributes:
        row: row of the alarm, counted from 1.
        change_point: estimate of the change point.
        changes: changes of scores, in decreasing order of wealth. The wealth of a score of a single
            column counts ten times.
        change_point_time: times of the row, the lower and the upper end of ``change_point``.
    """

    row: int
    change_point: ChangePoint
    changes: tuple[Change, ...]
    change_point_time: tuple[str, str, str] | None = None


@dataclasses.dataclass
class SequentialTest:
    """Test of a stream against a reference, in bounded memory.

    Attributes:
        alpha: level; an alarm is raised when the wealth reaches 1 / alpha.
        seed: seed of the random numbers that break ties, and of landmarks.
        training_rows: (a, C), rows of the reference on which scores are chosen.
        calibration_rows: (r, C), some of the ranked rows of the reference.
        scores: fixed scores.
        edges: (J, NUM_BINS - 1), edges of the bins of the fixed scores.
        martingales: test martingales of all scores and witnesses.
        witnesses: witnesses that are learned from the stream.
        recent_rows: (m, C), last rows of the stream.
        history: thinned history of the wealth.
        num_rows: number of rows of the stream so far.
        max_wealth: largest wealth so far, over rows and scores, times the weight of the score.
        alarm: the first alarm.
    """

    alpha: float
    seed: int
    training_rows: np.ndarray
    calibration_rows: np.ndarray
    scores: Scores
    edges: np.ndarray
    martingales: Martingales
    witnesses: Witnesses
    recent_rows: np.ndarray
    history: WealthHistory
    num_rows: int = 0
    max_wealth: float = 1.0
    alarm: Alarm | None = None

    @classmethod
    def initialize(
        cls, columns: Columns, reference: np.ndarray, alpha: float, seed: int
    ) -> SequentialTest:
        """Start a test with a reference (n, C)."""
        order = np.random.default_rng(seed).permutation(len(reference))
        num_training = min(MAX_TRAINING, len(reference) // 2)
        training, ranked = reference[order[:num_training]], reference[order[num_training:]]
        scores = Scores.choose(columns.with_indicators(training), training, seed)
        edges = bin_edges(scores.compute(training))
        dimension = scores.features(training[:1]).shape[1]
        counts = np.zeros((len(edges) + NUM_WITNESSES, NUM_BINS), dtype=np.int64)
        test = cls(
            alpha,
            seed,
            training,
            ranked[:MAX_CALIBRATION],
            scores,
            edges,
            Martingales.initialize(counts),
            Witnesses.initialize(dimension, scores.scale),
            reference[:0],
            WealthHistory(),
        )
        test.add_reference(ranked)
        return test

    def add_reference(self, values: np.ndarray) -> None:
        """Add rows (n, C) to the reference."""
        for start in range(0, len(values), MAX_RECENT):
            bins = self._bins(values[start : start + MAX_RECENT])
            self.martingales = self.martingales.add_reference(bin_counts(bins))

    def update(self, values: np.ndarray) -> None:
        """Test rows (n, C), one after the other."""
        start = 0
        while start < len(values):
            size = min(len(values) - start, self.witnesses.next_row - self.num_rows, MAX_RECENT)
            self._update_block(values[start : start + size])
            start += size

    def _update_block(self, values: np.ndarray) -> None:
        """Test rows (n, C) between two generations of witnesses."""
        # Random numbers depend on the number of the row only. The generator draws four at a time.
        num_scores = len(self.weights)
        per_row = -(-num_scores // 4)
        philox = np.random.Philox(key=self.seed, counter=self.num_rows * per_row)
        uniform = np.random.Generator(philox).random((len(values), 4 * per_row))[:, :num_scores]
        self.martingales, wealth = self.martingales.update(self._bins(values), uniform)
        wealth = wealth * self.weights
        largest = wealth.max(axis=1)
        self.history = self.history.extend(self.num_rows, largest)
        self.max_wealth = max(self.max_wealth, float(largest.max()))
        recent = np.concatenate([self.recent_rows, values])
        if self.alarm is None and self.max_wealth >= 1.0 / self.alpha:
            index = int(np.argmax(largest >= 1.0 / self.alpha))
            until_alarm = recent[: len(recent) - len(values) + index + 1][-MAX_RECENT:]
            self.alarm = self._alarm(self.num_rows + index + 1, wealth[index], until_alarm)
        self.recent_rows = recent[-MAX_RECENT:]
        self.num_rows += len(values)
        if self.num_rows == self.witnesses.next_row:
            self._learn_witnesses()

    def _learn_witnesses(self) -> None:
        features = self.scores.features
        self.witnesses, counts = self.witnesses.learn(
            features(self.recent_rows[-self.witnesses.window :]),
            features(self.training_rows),
            features(self.calibration_rows),
            np.random.default_rng([self.seed, self.witnesses.generation]),
        )
        newest, offset = self.witnesses.newest, len(self.edges)
        self.martingales = self.martingales.restart(
            slice(offset + newest.start, offset + newest.stop), counts
        )

    @property
    def weights(self) -> np.ndarray:
        """Weight of each score and witness (J,) in the level of the test."""
        return np.concatenate([self.scores.weights, self.witnesses.weights])

    def _compute_scores(self, values: np.ndarray) -> np.ndarray:
        """Compute the scores and witnesses (n, J) of rows (n, C)."""
        witnesses = self.witnesses.compute(self.scores.features(values))
        return np.concatenate([self.scores.compute(values), witnesses], axis=1)

    @property
    def _edges(self) -> np.ndarray:
        """Edges (J, NUM_BINS - 1) of the bins of all scores and witnesses."""
        return np.concatenate([self.edges, self.witnesses.edges])

    def _bins(self, values: np.ndarray) -> np.ndarray:
        return bin_indices(self._compute_scores(values), self._edges)

    def _alarm(self, row: int, wealth: np.ndarray, recent: np.ndarray) -> Alarm:
        """Estimate the change point and describe the changes.

        Args:
            row: row of the alarm, counted from 1.
            wealth: (J,) wealth at that row, times weights.
            recent: (m, C) rows of the stream up to that row.
        """
        reference, stream = map(self._compute_scores, (self.calibration_rows, recent))
        order = np.argsort(-wealth, kind="stable")
        best, first = order[0], row - len(recent) + 1
        change_point = find_change_point(
            reference[:, best], stream[:, best], self._edges[best], first
        )
        after = stream[change_point.row - first :]
        descriptions = self.scores.descriptions + self.witnesses.describe(self.scores.columns.names)
        # Scores with less than a tenth of the wealth of an alarm are not reported.
        single_column = ("numbers", "levels", "missing")
        reported = [index for index in order if index == best or wealth[index] >= 0.1 / self.alpha]
        reported.sort(
            key=lambda index: -wealth[index] * 10.0 ** (descriptions[index].family in single_column)
        )
        changes: dict[str, Change] = {}
        for index in reported:
            text = descriptions[index].describe_change(reference[:, index], after[:, index])
            # Scores such as one landmark at two scales have equal descriptions.
            changes.setdefault(
                text, Change(text, descriptions[index].columns, float(wealth[index]))
            )
        return Alarm(row, change_point, tuple(changes.values())[:4])


def find_change_point(
    reference: np.ndarray, stream: np.ndarray, edges: np.ndarray, first_row: int
) -> ChangePoint:
    """Estimate the change point of a score from the rows of a stream up to an alarm.

    The model has one change at a row with a uniform prior. The distributions over bins before and
    after the change have Dirichlet priors. Rows before the change have the distribution of the
    reference. The prior of the distribution after the change is centered at that of the reference.

    Args:
        reference: (r,) scores of rows before the stream.
        stream: (n,) scores of the last rows of the stream.
        edges: (NUM_BINS - 1,) edges of the bins of the score.
        first_row: number of the row ``stream[0]``, counted from 1.
    """
    bins, stream_bins = (
        bin_indices(scores[:, np.newaxis], edges[np.newaxis])[:, 0]
        for scores in (reference, stream)
    )
    counts = np.bincount(bins, minlength=NUM_BINS)
    # Bins are pooled by their mid-ranks, which keeps ties together. Pools are smaller in the tails.
    ranks = (np.cumsum(counts) - 0.5 * counts) / max(counts.sum(), 1)
    pool_edges = [0.004, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97, 0.996]
    pools = np.unique(np.searchsorted(np.array(pool_edges), ranks), return_inverse=True)[1]
    size = int(pools.max()) + 1
    before = np.bincount(pools, weights=counts, minlength=size)
    rows = float(before.sum())
    flat = np.full(size, 0.5)  # Jeffreys prior
    # The prior after the change counts for up to three rows per pool, and for half as many if the
    # reference has 100 rows.
    centered = 3.0 * size * rows / (rows + 100.0) * (before + 0.5) / (rows + 0.5 * size)
    cumulative = np.zeros((len(stream_bins) + 1, size))
    cumulative[1:] = np.cumsum(np.eye(size)[pools[stream_bins]], axis=0)
    # The score is the one of largest wealth at the row of an alarm, a selection that makes
    # intervals too short: those of the posterior covered 0.73 to 0.90 of changes. A power of the
    # likelihood corrects this, see benchmarks/results/monitoring-delays.md.
    power = 0.7
    log_posterior = power * (
        _log_marginal_likelihood(before + cumulative[:-1], flat)
        + _log_marginal_likelihood(cumulative[-1] - cumulative[:-1], flat + centered)
    )
    posterior = np.exp(log_posterior - log_posterior.max())
    posterior /= posterior.sum()
    low, high = _shortest_interval(posterior)
    return ChangePoint(
        first_row + int(np.argmax(posterior)),
        first_row + low,
        first_row + high,
        first_row > 1 and low == 0,
    )


def _log_marginal_likelihood(counts: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Compute log marginal likelihoods (n,) of counts (n, K) under a Dirichlet prior.

    A constant that does not depend on the counts is omitted.
    """
    total = gammaln(counts.sum(axis=1) + prior.sum())
    return np.asarray(np.sum(gammaln(counts + prior), axis=1) - total)


def _shortest_interval(probabilities: np.ndarray) -> tuple[int, int]:
    """Find the first and the last index of the shortest interval of INTERVAL_PROBABILITY."""
    total = np.append(0.0, np.cumsum(probabilities))
    required = total[:-1] + INTERVAL_PROBABILITY
    ends = np.searchsorted(total, np.minimum(required, total[-1]) - 1e-12)
    ends = np.where(required > total[-1] + 1e-9, len(probabilities) * 2, ends)
    start = int(np.argmin(ends - np.arange(len(probabilities))))
    return start, int(min(ends[start], len(probabilities))) - 1
