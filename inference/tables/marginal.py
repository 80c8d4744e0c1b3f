"""The evidence that a column has changed: of every aspect, for every relabelling.

Of numbers it has the parts of :func:`~bke.inference.compare`, each told by how surprising it is.
Codes that are only different have the tilt with a kernel that is 1 for equal codes (log BF = 1/2
sum_a b_a^2 s^2 n_a / (1 + s^2 n_a) up to what labels do not change, b_a being the residual of code
a in its standard errors), at sizes s^2 from where frequent codes count to where all count alike, as
in chi^2; and the most conspicuous code.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..comparison.weighing import Weighing
from ..evidence.places import Cells, cells
from ..evidence.statistic import evidences
from ..permutation.relabelled import Relabelled
from .aspects import Aspect
from .fitted import Fitted, Told
from .labelling import Labelling

#: Sizes of a difference between codes, over the number of rows.
SIZES = np.geomspace(0.1, 1e3, 7)


class Marginal(NamedTuple):
    """What every relabelling has of one aspect.

    Attributes:
        aspect: the codes.
        counts: (C,), rows of each.
        labels: (C, 1 + B), of the first table.
        statistics: of every relabelling.
        cells: of points on a line, where the tables are held against each other.
        sizes: rows that have a code, in both tables as they are.
    """

    aspect: Aspect
    counts: np.ndarray
    labels: np.ndarray
    statistics: Told
    cells: Cells | None = None
    sizes: tuple[float, float] = (0.0, 0.0)

    @property
    def permutations(self) -> int:
        """How many relabellings there are."""
        return self.labels.shape[1] - 1

    def weighing(self) -> Weighing:
        """The rows of both tables as they are, at the points."""
        assert self.aspect.points is not None
        first = self.labels[:, 0].astype(float)
        each = np.stack([first, self.counts - first], axis=1)
        sizes = each.sum(axis=0)
        return Weighing(self.aspect.points * self.aspect.unit, each / sizes, sizes)


def marginal(aspect: Aspect, labelling: Labelling) -> Marginal:
    """Evaluate the statistics of an aspect for every relabelling."""
    each = labelling.each(aspect.codes, aspect.size)
    counts, labels = np.asarray(each.sum(axis=1)), labelling.labelled(each)
    total, of_first = counts.sum(), labels.sum(axis=0)
    sizes = (float(of_first[0]), float(total - of_first[0]))
    if aspect.holds is not None:
        each = aspect.holds @ each
        counts, labels = np.asarray(each.sum(axis=1)), labelling.labelled(each)
    if aspect.points is None:
        codes = _of_codes(counts, labels, total, of_first)
        return Marginal(aspect, counts, labels, codes, sizes=sizes)
    there = counts > 0
    rows = Relabelled(
        aspect.points[there],
        counts[there],
        labels[there],
        np.full(aspect.points.shape[1], aspect.unit),
    )
    at = cells(rows)
    found = evidences(rows, at, lambda count: None)
    return Marginal(aspect, counts, labels, found, at, sizes)


def residuals(
    counts: np.ndarray, labels: np.ndarray, total: float, of_first: np.ndarray
) -> np.ndarray:
    """Every code's rows of the first table less what is expected, in standard errors, (C, 1 + B).

    As in a table of two columns: (O - E) / sqrt(n_a share (1 - share) (1 - n_a / n) n / (n - 1)).

    Args:
        counts: (C,), rows of each code.
        labels: (C, 1 + B), of the first table.
        total: rows in all, which may have several codes.
        of_first: (1 + B,), of the first table.
    """
    share = of_first / total
    spread = share * (1.0 - share) * total / max(total - 1.0, 1.0)
    error = np.sqrt(np.outer(counts * (1.0 - counts / total), spread))
    apart = labels - np.outer(counts, share)
    return np.divide(apart, error, out=np.zeros_like(apart), where=error > 0.0)


def _of_codes(counts: np.ndarray, labels: np.ndarray, total: float, of_first: np.ndarray) -> Fitted:
    """The tilt at all sizes, and beside it the most conspicuous code."""
    found = residuals(counts, labels, total, of_first)
    if np.count_nonzero(counts) == 2:  # which all say the same
        return Fitted(np.square(found).max(axis=0, keepdims=True))
    variance = SIZES[:, None] / total
    weights = 0.5 * variance * counts / (1.0 + variance * counts)
    return Fitted(weights @ np.square(found), np.abs(found).max(axis=0))
