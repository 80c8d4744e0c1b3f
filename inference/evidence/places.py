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
from threading import Event
from typing import NamedTuple, TypeAlias

import numpy as np
import scipy.linalg

from ..data.weighted import weighted_quantiles
from ..relabelling.permutation import TIE
from ..relabelling.relabelled import BLOCK, MORE_ROWS, Relabelled
from ..relabelling.step_down import step_down
from ..runtime.machine import side_by_side
from .asked import Asked, Sums, answered
from .spectrum import VERY_MANY, Near, kernel

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
#: Scales, in standard deviations of one column; of D columns the longest is sqrt(D) times that.
SHORTEST, LONGEST = 0.03, 2.0
#: The least number of rows that a cell's weights are worth, (sum k)^2 / sum k^2.
LEAST_ROWS = 20.0


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


class Looks(NamedTuple):
    """Where places are looked for, chosen without looking at labels.

    Attributes:
        where: (k, D), the places in all columns together.
        middle: (D,), the median of every column.
        places: in one column alone.
        scales: likewise how many.
    """

    where: np.ndarray
    middle: np.ndarray
    places: int
    scales: int

    @classmethod
    def of(cls, rows: Relabelled) -> Looks:
        """Choose places from pooled rows."""
        dimension, chosen = rows.points.shape[1], rows.choosing
        spread = FEWER_PLACES if len(rows.points) > VERY_MANY else PLACES
        line = dimension == 1
        where = _quantiles(chosen, min(spread, LINE_PLACES)) if line else _spread(chosen, spread)
        places = max(FEWEST_PLACES, min(LINE_PLACES, MOST_CELLS // (SCALES * dimension)))
        scales = max(FEWEST_SCALES, min(SCALES, MOST_CELLS // (places * dimension)))
        middle = weighted_quantiles(chosen.points, chosen.counts, (0.5,))[0]
        return cls(where, middle, places, scales)

    @property
    def alone(self) -> range:
        """The columns that are also looked at alone."""
        return range(len(self.middle) if len(self.middle) > PLANE else 0)

    def asked(self, rows: Relabelled) -> list[Asked[Fields]]:
        """What is asked of the rows in all columns together, a scale at a time."""
        scales = np.geomspace(SHORTEST, LONGEST, SCALES) * np.sqrt(len(self.middle))
        return [_at_scales(rows, self.where, scales[index : index + 1]) for index in range(SCALES)]

    def of_column(self, own: Relabelled, column: int) -> Fields:
        """The fields of the cells of one of several columns, of which alone ``own`` has values."""
        where = _quantiles(own, self.places)
        scales = np.geomspace(SHORTEST, LONGEST, self.scales)
        return self._of([answered(_at_scales(own, where, scales), own)], where, (column,))

    def cells(self, found: list[Fields], of_columns: list[Fields]) -> Cells:
        """The cells that there are in all columns together, and in each alone."""
        together = self._of(found, self.where, tuple(range(len(self.middle))))
        return Cells(*(np.concatenate(each) for each in zip(together, *of_columns, strict=True)))

    def _of(self, found: list[Fields], where: np.ndarray, columns: tuple[int, ...]) -> Fields:
        """The fields of cells at places of some columns; the others are at the middle."""
        kept, own_scale, *others = (np.concatenate(part) for part in zip(*found, strict=True))
        at = np.tile(self.middle, (len(kept), 1))
        at[:, columns] = where[kept]
        scale = np.full(at.shape, np.inf)
        scale[:, columns] = own_scale
        return at, scale, *others


def cells(rows: Relabelled) -> Cells:
    """Evaluate t at every place and scale where the weights are worth enough rows."""
    looks = Looks.of(rows)
    asks = looks.asked(rows)
    found = side_by_side(lambda index: answered(asks[index], rows), len(asks), Event())
    of_columns = side_by_side(
        lambda column: looks.of_column(rows.of_columns((column,), VALUES), column),
        len(looks.alone),
        Event(),
    )
    return looks.cells(found, of_columns)


def _quantiles(rows: Relabelled, count: int) -> np.ndarray:
    """Points of one column (k, 1) at evenly spaced quantiles: between two values there is none."""
    below = (np.cumsum(rows.counts) - 0.5 * rows.counts) / rows.rows
    at = np.searchsorted(below, (np.arange(count) + 0.5) / count)
    return np.asarray(rows.points[np.unique(at.clip(max=len(below) - 1))])


def _spread(rows: Relabelled, count: int) -> np.ndarray:
    """Points (k, D) drawn in proportion to their rows, whatever the labels."""
    if len(rows.points) <= count:
        return rows.points
    chances = rows.counts / rows.rows
    chosen = np.random.default_rng(0).choice(len(chances), count, replace=False, p=chances)
    return np.asarray(rows.points[np.sort(chosen)])


def _at_scales(rows: Relabelled, where: np.ndarray, scales: np.ndarray) -> Asked[Fields]:
    """Ask for the index of every cell's place (k,), its scale (k, 1), and the cells' fields."""
    index, scale = np.tile(np.arange(len(where)), len(scales)), np.repeat(scales, len(where))
    at = where[index]
    return Asked(
        Near(at, scale),
        len(at),
        lambda found: _told(rows, found, at, index, scale),
        squares=True,
    )


def _told(
    rows: Relabelled, found: Sums, at: np.ndarray, index: np.ndarray, scale: np.ndarray
) -> Fields:
    """Tell the fields of cells at (k, D), as of :func:`_at_scales`."""
    each, combine = rows.measures
    # Measures, and beside them that which weighs every different point alike.
    combine = scipy.linalg.block_diag(combine, np.ones((1, 1)))
    sums, squares = found.of_measures.T @ combine, found.of_squares.T @ combine
    total = np.append(each.sum(axis=0), 1.0) @ combine
    mean, means = sums[:, 0], sums[:, 1:3]
    variance = np.maximum(squares[:, 0] - mean**2, 0.0)
    # Of each sample's mean: the sum of squares of weighted deviations from it.
    spread = squares[:, 3:5] - 2.0 * means * sums[:, 3:5] + means**2 * total[3:5]
    others = squares[:, 7:] - 2.0 * means * sums[:, 7:] + means**2
    enough = mean**2 * (1.0 + TIE) >= LEAST_ROWS * squares[:, 3:5] @ _shares(rows) ** 2
    kept = enough & (variance > 1e-12 * mean**2)  # beyond, all rows weigh the same
    apart, together = _of_partners(rows, at[kept], scale[kept])
    least = 1e-12 * mean[kept] ** 2 / rows.rows
    if rows.partners is not None:
        noise = np.maximum(apart, least)[:, None] / len(rows.partners)
    elif rows.weighted:
        about = squares[:, 5:7] - 2.0 * mean[:, None] * sums[:, 5:7]
        about += mean[:, None] ** 2 * total[5:7]
        noise = np.maximum(about[kept].sum(axis=1), least)[:, None]
    else:
        share = rows.shares
        lost = np.maximum(share * (1.0 - share), 1.0 / rows.rows**2) * (rows.rows - 1.0)
        noise = variance[kept, None] / lost
    return (
        index[kept],
        scale[kept, None],
        rows.apart(found.of_labels, mean * rows.rows)[kept] / np.sqrt(noise),
        means[kept],
        _errors(rows, means[kept], spread[kept], others[kept], together),
        together,
    )


def _errors(
    rows: Relabelled, means: np.ndarray, own: np.ndarray, others: np.ndarray, together: np.ndarray
) -> np.ndarray:
    """Standard errors (k, 2) of both samples' means, as if a few more rows had been anywhere.

    A sample's own rows tell of no error where all of them are equal.

    Args:
        rows: the points.
        means: (k, 2), of the weights.
        own: (k, 2), their variances by each sample's own rows.
        others: (k, 2), the mean squares of deviations of all points from ``means``.
        together: (k,), the covariance of the two means.
    """
    own = np.maximum(own, 0.0)
    both = np.sqrt(own.prod(axis=1))
    alike = np.divide(together, both, out=np.zeros_like(both), where=both > 0.0)
    # Of pairs those rows would be as alike as the others are, or all differences were lost in them.
    apart = 1.0 - np.clip(alike, 0.0, 1.0)[:, None]
    # Of a sample with less than a row's weight there, as if one more row could have been there.
    floor = np.where(means * rows.worth < 1.0, rows.worth**-2.0, 0.0)
    return np.sqrt(np.maximum(own + MORE_ROWS * apart * others / rows.worth**2, floor))


def _shares(rows: Relabelled) -> np.ndarray:
    return np.array([rows.share, 1.0 - rows.share])


def _of_partners(
    rows: Relabelled, at: np.ndarray, scale: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The mean square of differences of partners' weights, and the covariance of the two means.

    Each (k,), 0 where rows are independent.
    """
    apart, together = np.zeros(len(at)), np.zeros(len(at))
    if rows.partners is None:
        return apart, together
    for pairs in np.array_split(rows.partners, -(-len(rows.partners) // BLOCK)):
        a, b = (kernel(rows.points[one], at, scale) for one in pairs.T)
        apart += np.square(a - b).sum(axis=0)
        together += (a * b).sum(axis=0)
    m = len(rows.partners)
    ends = (kernel(rows.points[one], at, scale).mean(axis=0) for one in rows.partners.T)
    return apart / m, (together / m - np.prod(list(ends), axis=0)) / m
