"""Places where two samples differ, simultaneously: the maximum of t over places and scales.

At a place x and a scale l a row z weighs ``k(x, z) = exp(-1/2 |z - x|^2 / l^2)``. The difference of
the mean weights of the two samples, by its standard deviation under P = Q,

    t_l(x) = (mean_P k - mean_Q k) / sqrt(var_pooled k (1/m + 1/n)),

needs nothing that a relabelling changes but the means. Of three columns or more places are looked
for in all of them together and in each alone. The permutation distribution of the largest |t| gives
every cell (x, l) a p-value that is right for all of them together; stepping down (Westfall and
Young 1993, algorithm 2.8), a cell competes with those alone that are no more significant. Where P =
Q the chance of naming any place is at most alpha, exactly; where they differ elsewhere it holds to
the accuracy of the central limit theorem.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from threading import Event
from typing import NamedTuple, TypeAlias

import numpy as np

from ..core.machine import side_by_side
from ..data.weighted import weighted_quantiles
from ..permutation.relabelled import Relabelled
from ..permutation.step_down import step_down
from .asked import Asked, answered
from .families import GAUSSIAN
from .local_t import Local, local_t
from .spectrum import VERY_MANY, nearness

#: The fields of cells, one after the other.
Fields: TypeAlias = tuple[np.ndarray, ...]
#: Places of one column, quantiles, and of more, rows, fewer of very many; scales.
LINE_PLACES, PLACES, FEWER_PLACES, SCALES = 100, 200, 64, 14
#: Of so many columns windows of one alone would speak of rows far away in the other.
PLANE = 2
#: Of many columns each has fewer places and scales: so many cells in all, about.
MOST_CELLS = 20_000
FEWEST_PLACES, FEWEST_SCALES = 5, 4
#: Cells that values of one of several columns are merged to.
VALUES = 512
#: Cells of several columns, each alone, that are evaluated at once where values are not merged.
CELLS_AT_ONCE = 1000
#: Scales, in standard deviations of one column; of D columns the longest is sqrt(D) times that. Of
#: very many rows they are powers of sqrt(2) apart, and the shortest is a little shorter.
SHORTEST, LONGEST = 0.03, 2.0
LADDER = np.geomspace(SHORTEST, LONGEST, SCALES)


@dataclasses.dataclass(frozen=True)
class Cells:
    """Every place and scale at which rows are enough, with its t for every labelling.

    Attributes:
        at: (J, D), in standard deviations of the columns; the median in those not looked at.
        scale: (J, D), likewise; infinite in those not looked at.
        t: (J, 1 + B).
        means: (J, 2), of the weights over P and over Q.
        errors: (J, 2), standard errors of ``means``; of less than one row those of one.
        covariance: (J,), of the two means: 0 unless rows belong together.
        others: (1 + B,), the largest |t| elsewhere that cells compete with, as of other columns of
            a table; ``None`` where there is nothing else.
    """

    at: np.ndarray
    scale: np.ndarray
    t: np.ndarray
    means: np.ndarray
    errors: np.ndarray
    covariance: np.ndarray
    others: np.ndarray | None = None

    @property
    def largest(self) -> np.ndarray:
        """The largest |t| of every labelling, (1 + B,)."""
        # Of very many cells several times faster than the largest of what is made positive first.
        largest = np.maximum(self.t.max(axis=0, initial=0.0), -self.t.min(axis=0, initial=0.0))
        return largest if self.others is None else np.maximum(largest, self.others)

    def _competing(self) -> np.ndarray:
        size = np.abs(self.t)
        return size if self.others is None else np.concatenate([size, self.others[None]])

    def critical(self, alpha: float) -> float:
        """The value that the largest |t| exceeds in at most ``alpha`` of the labellings."""
        ordered = np.sort(self.largest)
        return float(ordered[max(0, int(np.ceil((1.0 - alpha) * len(ordered))) - 1)])

    def pvalues(self) -> np.ndarray:
        """Step-down p-values (J,) of the maximum of |t|, adjusted for all cells."""
        return step_down(self._competing())[: len(self.t)]


class Alone(NamedTuple):
    """How near rows are to cells in one column each.

    Attributes:
        columns: (k,).
        at: (k,), the places in these columns.
        scale: (k,).
    """

    columns: np.ndarray
    at: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, counts: np.ndarray, column: int, looks: Looks) -> Alone:
        """Choose where a column is looked at, by its values (C,) and their counts."""
        order = np.argsort(values, kind="stable")
        where = values[order][_quantiles(counts[order], looks.places)]
        scales = np.geomspace(SHORTEST, LONGEST, looks.scales)
        columns = np.full(len(where) * len(scales), column)
        return cls(columns, np.tile(where, len(scales)), np.repeat(scales, len(where)))

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Evaluate the squared exponential (r, k) between rows (r, D) and cells."""
        found = points[:, self.columns]
        found -= self.at
        found /= self.scale
        np.square(found, out=found)
        found *= -0.5
        return nearness(found)

    def fields(self, found: Local, middle: np.ndarray) -> Fields:
        """The fields of cells that are at the middle (D,) in the other columns."""
        kept, *others = found
        where = np.arange(len(kept)), self.columns[kept]
        at, scale = np.tile(middle, (len(kept), 1)), np.full((len(kept), len(middle)), np.inf)
        at[where], scale[where] = self.at[kept], self.scale[kept]
        return at, scale, *others


class Looks(NamedTuple):
    """Where places are looked for, chosen without looking at labels.

    Attributes:
        where: (k, D), the places in all columns together.
        together: the scales of all columns together.
        middle: (D,), the median of every column.
        places: in one column alone.
        scales: likewise how many.
    """

    where: np.ndarray
    together: np.ndarray
    middle: np.ndarray
    places: int
    scales: int

    @classmethod
    def of(cls, rows: Relabelled) -> Looks:
        """Choose places from pooled rows."""
        dimension, chosen = rows.points.shape[1], rows.choosing
        very_many = len(rows.points) > VERY_MANY
        spread = FEWER_PLACES if very_many else PLACES
        ladder = GAUSSIAN.squares(LONGEST, SHORTEST, 1) if very_many else LADDER
        if dimension == 1:
            where = chosen.points[_quantiles(chosen.counts, min(spread, LINE_PLACES))]
        else:
            where = _spread(chosen, spread)
        places = max(FEWEST_PLACES, min(LINE_PLACES, MOST_CELLS // (SCALES * dimension)))
        scales = max(FEWEST_SCALES, min(SCALES, MOST_CELLS // (places * dimension)))
        middle = weighted_quantiles(chosen.points, chosen.counts, (0.5,))[0]
        return cls(where, ladder * np.sqrt(dimension), middle, places, scales)

    @property
    def alone(self) -> range:
        """The columns that are also looked at alone."""
        return range(len(self.middle) if len(self.middle) > PLANE else 0)

    @property
    def runs(self) -> list[tuple[float, ...]]:
        """The scales of all columns together, those that are evaluated together in one."""
        return GAUSSIAN.runs(self.together)

    def asked(self, rows: Relabelled) -> list[Asked[Local]]:
        """What is asked of the rows in all columns together, some scales at a time."""
        count = len(self.where)
        return [local_t(rows, GAUSSIAN.at(self.where, *run), count * len(run)) for run in self.runs]

    def of_column(self, own: Relabelled, column: int) -> Fields:
        """The fields of the cells of one of several columns, of which alone ``own`` has values."""
        cells = Alone.of(own.points[:, 0], own.counts, column, self)
        near = cells._replace(columns=np.zeros_like(cells.columns))
        return cells.fields(answered(local_t(own, near, len(cells.at)), own), self.middle)

    def of_columns(self, rows: Relabelled, columns: Sequence[int]) -> Fields:
        """The fields of the cells of columns, each alone, in which no points are equal."""
        each = [Alone.of(rows.points[:, one], rows.counts, one, self) for one in columns]
        cells = Alone(*(np.concatenate(part) for part in zip(*each, strict=True)))
        return cells.fields(answered(local_t(rows, cells, len(cells.at)), rows), self.middle)

    def groups(self, rows: Relabelled) -> list[range]:
        """Columns that are looked at alone: together those that need no merging of points."""
        found = [range(one, one + 1) for one in self.alone]
        if len(rows.points) > VALUES or rows.bins is not None:
            return found
        together = max(1, CELLS_AT_ONCE // (self.places * self.scales))
        groups = []
        ordered = np.sort(rows.points, axis=0)
        different = np.all(np.diff(ordered, axis=0) > 0.0, axis=0)
        for alike, run in itertools.groupby(self.alone, lambda one: bool(different[one])):
            columns = list(run)
            step = together if alike else 1
            groups += [
                range(start, min(start + step, columns[-1] + 1))
                for start in range(columns[0], columns[-1] + 1, step)
            ]
        return groups

    def cells(self, found: Sequence[Local], of_columns: Sequence[Fields]) -> Cells:
        """The cells that there are in all columns together, and in each alone."""
        together = []
        for (kept, *others), run in zip(found, self.runs, strict=True):
            scale, place = np.divmod(kept, len(self.where))
            scales = np.repeat(np.array(run)[scale, None], len(self.middle), axis=1)
            together.append((self.where[place], scales, *others))
        return Cells(*(np.concatenate(each) for each in zip(*together, *of_columns, strict=True)))


def cells(rows: Relabelled) -> Cells:
    """Evaluate t at every place and scale where the weights are worth enough rows."""
    looks = Looks.of(rows)
    asks, groups = looks.asked(rows), looks.groups(rows)
    found = side_by_side(lambda index: answered(asks[index], rows), len(asks), Event())

    def alone(index: int) -> Fields:
        column, *more = groups[index]
        if more:
            return looks.of_columns(rows, groups[index])
        return looks.of_column(rows.of_columns((column,), VALUES), column)

    return looks.cells(found, side_by_side(alone, len(groups), Event()))


def _quantiles(counts: np.ndarray, count: int) -> np.ndarray:
    """Indices (k,) of ordered points with counts at evenly spaced quantiles."""
    below = (np.cumsum(counts) - 0.5 * counts) / counts.sum()
    at = np.searchsorted(below, (np.arange(count) + 0.5) / count)
    return np.unique(at.clip(max=len(below) - 1))


def _spread(rows: Relabelled, count: int) -> np.ndarray:
    """Points (k, D) drawn in proportion to their rows, whatever the labels."""
    if len(rows.points) <= count:
        return rows.points
    chances = rows.counts / rows.rows
    chosen = np.random.default_rng(0).choice(len(chances), count, replace=False, p=chances)
    return np.asarray(rows.points[np.sort(chosen)])
