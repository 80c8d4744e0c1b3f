"""The evidence that rows as wholes have changed: how columns go together, and joint shapes.

Dependence: every column has a few features of mean 0 (normal scores and their squares of numbers,
indicators of frequent levels). The correlation of a feature of one column with one of another, in
each table by its own means and deviations, is told by its Fisher transform, whose standard error
hardly hangs on the marginal distributions (Fisher 1921): a pair is said to go together otherwise
only where that has changed, not where its columns have, and scores are then by ranks in each table.
Joint shape: the tilt with a squared exponential of all columns, each of variance 1.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from bke.models.arrays.seeding import spread_seeds
from scipy.spatial.distance import pdist
from scipy.special import logsumexp
from scipy.stats import norm

from ..data.canonical import random_part
from ..difference.decomposition import RESOLUTION, decomposed
from ..difference.evidence import fits
from ..difference.spectrum import kernel
from ..runtime.machine import side_by_side
from ..testing.permutation import standardised
from .aspects import Aspect
from .labelling import Labelling

#: Levels of a column that have an indicator.
INDICATORS = 3
#: Shares of rows below which an indicator tells next to nothing.
LEAST_SHARE = 0.005
#: Nodes of the joint kernel, rows from which they and their spectrum are chosen.
NODES, SOME = 256, 20_000
#: Lengthscales of the joint kernel over the median distance, and sizes.
LENGTHSCALES, SIZES = np.geomspace(0.25, 2.0, 4), np.geomspace(1e-4, 1e2, 4)
#: Rows of which distances are taken.
ROWS = 1000
#: A correlation closer to 1 than this is 1.
NEARLY_ONE = 1e-9


class Features(NamedTuple):
    """Features of one column's rows, of mean 0 and variance 1.

    Attributes:
        values: (N, f).
        weights: (f,), by which each counts in distances between rows: 1 in all.
    """

    values: np.ndarray
    weights: np.ndarray

    def positions(self) -> np.ndarray:
        """Where rows are as far as this column goes, (N, d), of variance 1 in all."""
        kept = self.weights > 0.0
        return np.asarray(self.values[:, kept] * np.sqrt(self.weights[kept]))


def features(parts: list[Aspect], weights: np.ndarray, rows: int | None = None) -> Features | None:
    """Make the features of a column by its aspects, ``None`` of one that hardly varies.

    Args:
        parts: the aspects.
        weights: (N,), how many rows each row counts for.
        rows: of the first table, for scores by the ranks in each table, which say how columns go
            together whatever became of each alone; by default ranks are those in both.
    """
    made, counts_for = [], []
    for aspect in parts:
        if aspect.holds is not None:
            continue
        if aspect.points is None:
            new = _indicators(aspect, weights)
        else:
            new = _scores(aspect, weights, rows)
        made += new
        # Squares of scores count as a feature, and not in distances.
        if aspect.points is not None and aspect.points.shape[1] == 1:
            counts_for += [1.0, 0.0]
        else:
            counts_for += [1.0 / len(new)] * len(new)
    if not made:
        return None
    return Features(np.stack(made, axis=1), np.array(counts_for) / sum(counts_for))


def _scores(aspect: Aspect, weights: np.ndarray, rows: int | None) -> list[np.ndarray]:
    """Normal scores of points on a line and their squares, or both coordinates of a circle."""
    assert aspect.points is not None
    if rows is not None:
        each = [
            _scores(aspect._replace(codes=aspect.codes[part]), weights[part], None)
            for part in (slice(None, rows), slice(rows, None))
        ]
        return [np.concatenate(both) for both in zip(*each, strict=True)]
    counts = _counts(aspect, weights)
    if aspect.points.shape[1] == 2:
        columns = list(aspect.points.T)
    else:
        rank = (np.cumsum(counts) - 0.5 * counts) / max(counts.sum(), 1.0)
        scores = norm.ppf(np.where(counts > 0, rank, 0.5))
        columns = [scores, scores**2]
    return [_standard(column, aspect.codes, counts) for column in columns]


def _indicators(aspect: Aspect, weights: np.ndarray) -> list[np.ndarray]:
    counts = _counts(aspect, weights)
    least = LEAST_SHARE * counts.sum()
    order = np.argsort(-counts, kind="stable")
    most = min(INDICATORS, np.count_nonzero(counts) - 1)
    chosen = [one for one in order[:most] if least <= counts[one] <= counts.sum() - least]
    return [_standard(np.arange(aspect.size) == one, aspect.codes, counts) for one in chosen]


def _counts(aspect: Aspect, weights: np.ndarray) -> np.ndarray:
    """How many rows have each code, (C,)."""
    there = aspect.codes >= 0
    return np.bincount(aspect.codes[there], weights=weights[there], minlength=aspect.size)


def _standard(values: np.ndarray, codes: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Values (C,) of codes as a feature (N,): mean 0 and variance 1, 0 where there is no code."""
    total = max(counts.sum(), 1.0)
    apart = values - counts @ values / total
    deviation = np.sqrt(counts @ apart**2 / total)
    return np.append(apart / (deviation or 1.0), 0.0)[codes]


class Dependence(NamedTuple):
    """How pairs of columns go together.

    Attributes:
        pairs: (p,), of the indices of two columns.
        statistics: (p, 1 + B), the largest change of a correlation of their features.
        correlations: (p, 2), in the tables as they are, of the features where it is.
    """

    pairs: list[tuple[int, int]]
    statistics: np.ndarray
    correlations: np.ndarray


def dependence(columns: list[Features | None], labelling: Labelling) -> Dependence:
    """Hold the correlations of features of every two columns against each other."""
    used = [(index, column.values) for index, column in enumerate(columns) if column is not None]
    pairs, statistics, correlations = [], [], []
    sums = [Sums.of(values.__getitem__, labelling) for _, values in used]
    squares = [Sums.of((values**2).__getitem__, labelling) for _, values in used]
    for a, (i, values) in enumerate(used[:-1]):
        others = np.concatenate([other for _, other in used[a + 1 :]], axis=1)

        def products(rows: slice, values: np.ndarray = values, others: np.ndarray = others) -> Any:
            both = values[rows, :, None] * others[rows, None, :]
            return both.reshape(len(both), -1)

        together = Sums.of(products, labelling).reshaped(values.shape[1])
        start = 0
        for b, (j, other) in enumerate(used[a + 1 :], start=a + 1):
            here = together.part(slice(start, start + other.shape[1]))
            start += other.shape[1]
            changes, observed = _changes(sums[a], squares[a], sums[b], squares[b], here)
            pairs.append((i, j))
            statistics.append(np.abs(changes).max(axis=0))
            correlations.append(observed[int(np.abs(changes[:, 0]).argmax())])
    labellings = labelling.labels.shape[1]
    return Dependence(
        pairs,
        np.array(statistics).reshape(-1, labellings),
        np.array(correlations).reshape(-1, 2),
    )


class Sums(NamedTuple):
    """Sums of features over both tables' rows, (..., 1 + B), and how many rows each has."""

    first: np.ndarray
    second: np.ndarray
    sizes: tuple[np.ndarray, np.ndarray]

    @classmethod
    def of(cls, made: Callable[[slice], np.ndarray], labelling: Labelling) -> Sums:
        """Sum features (rows, f) that are made for slices of the rows, for every labelling."""
        totals = labelling.totals(made)
        first = labelling.sums(totals)
        sizes = labelling.sizes
        every = labelling.weights.sum()
        return cls(first, totals.sum(axis=0)[:, None] - first, (sizes, every - sizes))

    def reshaped(self, features: int) -> Sums:
        """Sums of products with so many features, one after the other: (features, ..., 1 + B)."""
        shape = (features, -1, self.first.shape[1])
        return Sums(self.first.reshape(shape), self.second.reshape(shape), self.sizes)

    def part(self, chosen: slice) -> Sums:
        """Those along the second axis."""
        return Sums(self.first[:, chosen], self.second[:, chosen], self.sizes)


def _changes(
    a: Sums, square_a: Sums, b: Sums, square_b: Sums, products: Sums
) -> tuple[np.ndarray, np.ndarray]:
    """By how many standard errors correlations differ, (k, 1 + B), and observed ones, (k, 2)."""
    sides = []
    for side in (0, 1):
        n = np.maximum(a.sizes[side], 1)
        mean_a, mean_b = a[side] / n, b[side] / n
        spread_a = np.maximum(square_a[side] / n - mean_a**2, 0.0)
        spread_b = np.maximum(square_b[side] / n - mean_b**2, 0.0)
        covariance = products[side] / n - mean_a[:, None] * mean_b[None]
        scale = np.sqrt(spread_a[:, None] * spread_b[None])
        known = scale > NEARLY_ONE
        sides.append(np.divide(covariance, scale, out=np.zeros_like(covariance), where=known))
    bound = 1.0 - NEARLY_ONE
    first, second = (np.arctanh(np.clip(side, -bound, bound)) for side in sides)
    error = np.sqrt(sum(1.0 / np.maximum(n - 3.0, 1.0) for n in a.sizes))
    changes = (first - second) / error
    labellings = changes.shape[-1]
    observed = np.stack([side[..., 0].ravel() for side in sides], axis=1)
    return changes.reshape(-1, labellings), observed


def joint(
    columns: list[Features | None], labelling: Labelling, marks: np.ndarray
) -> list[np.ndarray]:
    """Evaluate the tilt of rows as wholes, at its most and at all scales together, (1 + B,) each.

    Args:
        columns: their features; none where fewer than two vary.
        labelling: of the rows.
        marks: (N,), by which rows have an order of their own.
    """
    used = [column for column in columns if column is not None]
    if len(used) < 2:
        return []
    points = np.concatenate([column.positions() for column in used], axis=1)
    rng = np.random.default_rng(0)
    chosen = random_part(np.argsort(marks, kind="stable"), SOME, 0)
    part = points[chosen]
    at = np.unique(part[spread_seeds(part, min(NODES, len(part)), rng)], axis=0)
    some = part[:: max(1, len(part) // ROWS)]
    distances = pdist(some)
    median = float(np.median(distances[distances > 0.0]))

    def at_scale(index: int) -> np.ndarray:
        return _joint(points, chosen, at, LENGTHSCALES[index] * median, labelling)

    found = standardised(np.concatenate(side_by_side(at_scale, len(LENGTHSCALES), Event())))
    return [found.max(axis=0), logsumexp(found, axis=0)]


def _joint(
    points: np.ndarray, chosen: np.ndarray, at: np.ndarray, lengthscale: float, labelling: Labelling
) -> np.ndarray:
    """What of log BF the labels change, at one lengthscale and all sizes, (S, 1 + B)."""
    own, vectors = scipy.linalg.eigh(kernel(at, at, lengthscale), driver="evd")
    kept = own > own[-1] * RESOLUTION
    root = vectors[:, kept] / np.sqrt(own[kept])
    known = kernel(points[chosen], at, lengthscale) @ root
    weights = labelling.weights
    total = weights.sum()
    weight = weights[chosen] * (total / weights[chosen].sum())
    totals = labelling.totals(lambda rows: kernel(points[rows], at, lengthscale) @ root)
    first, every = labelling.sums(totals), totals.sum(axis=0)
    share = labelling.sizes / total
    apart = (first - share * every[:, None]) / (total * share * (1.0 - share))
    second = (known * weight[:, None]).T @ known
    found = decomposed(root, second, weight @ known, apart, total, share)
    return fits(found, SIZES)
