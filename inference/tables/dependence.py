"""The evidence that columns go together differently.

The correlation of a feature of one column with one of another, in each table by its own means and
deviations, is told by its Fisher transform, whose standard error hardly hangs on the marginal
distributions of numbers (Fisher 1921): a pair is said to go together differently only where that
has changed, not where its columns have, and scores are then by ranks in each table. It does hang on
how often values are missing, since those that are count as the middle, and on the shares of levels.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .features import Features, all_features
from .labelling import Labelling

#: Numbers that sums of products over units are kept in.
MOST_PRODUCTS = 50_000_000
#: A correlation closer to 1 than this is 1.
NEARLY_ONE = 1e-9


class Dependence(NamedTuple):
    """How pairs of columns go together.

    Attributes:
        pairs: (p,), of the indices of two columns.
        statistics: (p, 1 + B), the largest change of a correlation of their features.
        correlations: (p, 2), in the tables as they are, of the features where it is.
        features: (p,), what these are in words.
    """

    pairs: list[tuple[int, int]]
    statistics: np.ndarray
    correlations: np.ndarray
    features: list[tuple[str, str]]


def dependence(columns: list[Features | None], labelling: Labelling) -> Dependence:
    """Hold the correlations of features of every two columns against each other."""
    used = [(index, column) for index, column in enumerate(columns) if column is not None]
    made = [column for _, column in used]
    ends = np.cumsum([0, *(len(column.weights) for column in made)])
    labellings = labelling.labels.shape[1]
    pairs, statistics, correlations, names = [], [], [], []
    moments = Moments.of(made, labelling) if len(made) > 1 else None
    for some in _some(ends, len(labelling.labels)):
        assert moments is not None
        start = ends[some[0]]
        products = _products(made, slice(start, ends[some[-1] + 1]), labelling)
        for a in some:
            for b in range(a + 1, len(used)):
                own, other = slice(ends[a], ends[a + 1]), slice(ends[b], ends[b + 1])
                here = slice(own.start - start, own.stop - start)
                changes, observed = moments.changes(own, other, [p[here, other] for p in products])
                pairs.append((used[a][0], used[b][0]))
                statistics.append(np.abs(changes).max(axis=0))
                most = int(np.abs(changes[:, 0]).argmax())
                correlations.append(observed[most])
                f, g = divmod(most, len(made[b].names))
                names.append((made[a].names[f], made[b].names[g]))
    return Dependence(
        pairs,
        np.array(statistics).reshape(-1, labellings),
        np.array(correlations).reshape(-1, 2),
        names,
    )


def _some(ends: np.ndarray, units: int) -> list[range]:
    """Ranges of columns whose products with all features fit into memory, over all units."""
    columns = len(ends) - 1
    most = max(1, int(MOST_PRODUCTS // (units * max(ends[-1], 1))))
    found, start = [], 0
    while start < columns - 1:
        stop = int(np.searchsorted(ends, ends[start] + most, side="right")) - 1
        stop = min(max(stop, start + 1), columns - 1)
        found.append(range(start, stop))
        start = stop
    return found


def _products(made: list[Features], some: slice, labelling: Labelling) -> list[np.ndarray]:
    """Sums of products of some features with all, in both tables, (s, F, 1 + B) each."""
    totals = labelling.products(lambda rows: all_features(made, rows), some)
    flat = totals.reshape(len(totals), -1)
    shape = (*totals.shape[1:], -1)
    first = labelling.sums(flat).reshape(shape)
    return [first, totals.sum(axis=0)[..., None] - first]


class Moments(NamedTuple):
    """Means and variances of all features in both tables, (2, F, 1 + B), and rows, (2, 1 + B)."""

    means: np.ndarray
    variances: np.ndarray
    rows: np.ndarray

    @classmethod
    def of(cls, made: list[Features], labelling: Labelling) -> Moments:
        """Evaluate them for every labelling."""

        def both(rows: np.ndarray) -> np.ndarray:
            found = all_features(made, rows)
            return np.concatenate([found, found**2], axis=1)

        totals = labelling.totals(both)
        first = labelling.sums(totals)
        sums = np.stack([first, totals.sum(axis=0)[:, None] - first])
        sizes = labelling.sizes
        rows = np.stack([sizes, labelling.weights.sum() - sizes])
        means, squares = np.split(sums / np.maximum(rows, 1.0)[:, None], 2, axis=1)
        return cls(means, np.maximum(squares - means**2, 0.0), rows)

    def changes(
        self, own: slice, other: slice, products: list[np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """By how many standard errors correlations differ, (k, 1 + B), and observed ones, (k, 2).

        Args:
            own: features of one column.
            other: features of another.
            products: sums of their products, (f, g, 1 + B), in both tables.
        """
        sides, defined = [], True
        for side in (0, 1):
            mean, spread = self.means[side], self.variances[side]
            covariance = products[side] / np.maximum(self.rows[side], 1.0)
            covariance = covariance - mean[own, None] * mean[None, other]
            scale = np.sqrt(spread[own, None] * spread[None, other])
            known = scale > NEARLY_ONE
            defined &= known
            sides.append(np.divide(covariance, scale, out=np.zeros_like(covariance), where=known))
        bound = 1.0 - NEARLY_ONE
        first, second = (np.arctanh(np.clip(side, -bound, bound)) for side in sides)
        error = np.sqrt(sum(1.0 / np.maximum(n - 3.0, 1.0) for n in self.rows))
        # Where a feature is constant in a table there is no correlation, and no change of one.
        changes = np.where(defined, (first - second) / error, 0.0)
        observed = np.stack([side[..., 0].ravel() for side in sides], axis=1)
        return changes.reshape(-1, changes.shape[-1]), observed
