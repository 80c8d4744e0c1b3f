"""One pass over rows in parts that answers all that the statistics of a test ask.

Of every part come sums of features over the rows of each bin, and counts of each column's values;
with the labels of bins they tell what every labelling would.
"""

from __future__ import annotations

import dataclasses
import functools
from threading import Event
from typing import Any

import numpy as np

from ..core.machine import side_by_side
from ..permutation.deal import Deal
from ..permutation.pooling import dealt_out
from ..permutation.relabelled import LabelSums, Relabelled, labels_of
from ..permutation.surveyed import Surveyed, added
from .asked import Features, Sums, summed_in_bins
from .places import VALUES, Cells, Looks
from .statistic import Evidences, Questions


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spread(Relabelled):
    """Rows in bins that are not here: points are those that everything is chosen by.

    Attributes:
        of_bins: (M,), how many rows each bin has.
    """

    of_bins: np.ndarray

    @property
    def choosing(self) -> Relabelled:
        """The points, each a row, that everything is chosen by."""
        none = np.zeros((len(self.points), 0), dtype=np.int8)
        return Relabelled(self.points, self.counts, none, self.unit)

    @property
    def rows(self) -> float:
        """How many rows both samples have."""
        return float(self.of_bins.sum())

    @functools.cached_property
    def first(self) -> np.ndarray:
        """How many rows of each bin (M,) are in the first sample."""
        return np.asarray(self.labels[:, 0] * self.of_bins)

    @functools.cached_property
    def shares(self) -> np.ndarray:
        """The share of the first sample in all rows, by every labelling (1 + B,)."""
        return np.asarray(self.of_bins @ self.labels / self.rows)

    @property
    def measures(self) -> tuple[np.ndarray, np.ndarray]:
        """What the rows of each bin are counted by."""
        return np.column_stack([self.of_bins, self.first]).astype(float), self._of_both


@dataclasses.dataclass(frozen=True)
class SumsPass:
    """Sums features over the rows of each bin, and counts values.

    Attributes:
        deal: which bin a row is in.
        sample: whose rows these are, 0 the first.
        unit: (D,), what columns are divided by.
        features: with how many they are, and whether their squares are summed.
        edges: the cells of the values of each column looked at alone.
    """

    deal: Deal
    sample: int
    unit: np.ndarray
    features: tuple[tuple[Features, int, bool], ...]
    edges: tuple[np.ndarray, ...]

    def __call__(self, places: np.ndarray, rows: np.ndarray) -> list[np.ndarray]:
        """Work on a part, whose rows have these places in their sample."""
        points, count = rows / self.unit, self.deal.count(self.sample)
        bins = self.deal.within(self.sample, places)
        ones, none = np.ones(len(rows), dtype=int), np.zeros((count, 0))
        small = np.min_scalar_type(self.deal.size)  # the most rows of a bin
        here = Relabelled(points, ones, none, self.unit, bins=bins).in_bins
        found: list[np.ndarray] = []
        for features, width, squared in self.features:
            sums, squares = LabelSums(here, width), np.zeros(width)
            for block in here.blocks():
                values = features(here.points[block])
                sums.add(block, values)
                if squared:
                    squares += np.square(values, out=values).sum(axis=0)
            found += [sums.of_units, squares]
        for edges, values in zip(self.edges, points.T, strict=False):
            cells, shape = np.searchsorted(edges, values), (len(edges) + 1, count)
            table = np.bincount(
                np.ravel_multi_index((cells, bins), shape), minlength=np.prod(shape)
            )
            found += [
                table.astype(small).reshape(shape),
                np.bincount(cells, weights=values, minlength=shape[0]),
            ]
        return found


@dataclasses.dataclass(frozen=True)
class Passed:
    """Rows in parts that were gone through: sums over bins, which serve any labels of these.

    Attributes:
        deal: which bin a row is in.
        points: (k, D), scaled, that everything is chosen by.
        unit: (D,), what columns were divided by.
        sums: what the pass summed, of each sample in the order of the deal.
    """

    deal: Deal
    points: np.ndarray
    unit: np.ndarray
    sums: tuple[tuple[np.ndarray, np.ndarray], ...]

    @classmethod
    def over(cls, survey: Surveyed, rng: np.random.Generator, unit: np.ndarray) -> Passed:
        """Deal rows out in bins, choose where to look, and go through all rows once.

        Raises:
            InputError: rows cannot be dealt out in bins.
        """
        deal, points = survey.deal(rng), survey.chosen / unit
        rows = _spread(deal, points, unit, deal.of_first[:, None].astype(np.int8))
        looks = Looks.of(rows)
        asks = (*Questions.of(rows).every, *looks.asked(rows))
        features = tuple((one.features, one.width, one.squares) for one in asks)
        edges = tuple(rows.edges(column, VALUES) for column in looks.alone)
        (first,), (second,) = survey.results(
            lambda sample: SumsPass(deal, sample, unit, features, edges),
            beside=survey.places,
            merge=added,
        )
        both = zip(*((second, first) if deal.turned else (first, second)), strict=True)
        return cls(deal, points, unit, tuple(both))

    def told(
        self, permutations: int, rng: np.random.Generator
    ) -> tuple[Relabelled, Evidences, Cells]:
        """Deal labels out to bins, and tell the evidence of every kind and of every cell.

        Args:
            permutations: B.
            rng: that the deal was drawn from, after that.
        """
        labels = dealt_out(self.deal, permutations, rng)
        rows = _spread(self.deal, self.points, self.unit, labels)
        looks, questions = Looks.of(rows), Questions.of(rows)
        asks = [*questions.every, *looks.asked(rows)]
        in_product = labels.astype(float)

        def one(index: int) -> Any:
            sums, others = self.sums[2 * index : 2 * index + 2]
            if index < len(asks):
                return asks[index].told(_sums(rows, in_product, sums, others))
            column = index - len(asks)
            return looks.of_column(_of_values(rows, sums, others, column), column)

        found = side_by_side(one, len(self.sums) // 2, Event())
        count = len(questions.every)
        cells = looks.cells(found[count : len(asks)], found[len(asks) :])
        return rows, questions.told(found[:count], rows, cells), cells


def _spread(deal: Deal, points: np.ndarray, unit: np.ndarray, labels: np.ndarray) -> Spread:
    ones = np.ones(len(points), dtype=int)
    return Spread(points, ones, labels, unit, of_bins=deal.sizes_of_bins)


def _sums(
    rows: Spread,
    labels: np.ndarray,
    of_bins: tuple[np.ndarray, np.ndarray],
    squares: tuple[np.ndarray, np.ndarray],
) -> Sums:
    """Sums for every labelling (M, 1 + B) from those of bins, of each sample in order."""
    each = np.concatenate(of_bins)
    of_counts, whole = each.sum(axis=0), squares[0] + squares[1]
    first = int(rows.labels[0, 0] == 0)  # which of the two bins are counted from
    return summed_in_bins(rows, each.T @ labels, of_counts, np.stack([whole, squares[first]]))


def _of_values(
    rows: Spread,
    tables: tuple[np.ndarray, np.ndarray],
    sums: tuple[np.ndarray, np.ndarray],
    column: int,
) -> Relabelled:
    """Rows counted at the mean values of a column's cells."""
    table = np.concatenate(tables, axis=1)
    counts = table.sum(axis=1, dtype=np.int64)
    means = (sums[0] + sums[1]) / counts
    labels = labels_of(table, rows.labels)
    return Relabelled(means[:, None], counts, labels, rows.unit[[column]])
