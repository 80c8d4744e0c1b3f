"""Kernels with which a difference is looked for, in standard deviations of the columns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import pdist

from ..data.canonical import random_part
from ..data.equality import positive_distances
from ..learning.bandwidths import bandwidth_grid
from ..permutation.relabelled import Relabelled
from .families import GAUSSIAN, LAPLACE, Family, Metric
from .spectrum import VERY_MANY

#: Rows whose distances tell which scales there are.
ROWS = 1000
#: Of the test: lengthscales from this part of the short distances to so many medians, and s^2.
SHORT, SHORTEST, LONGEST = 0.05, 1.0 / 16.0, 4.0
LENGTHSCALES, OF_LAPLACE = 9, 5
#: Columns up to which Laplace kernels are left out.
PLANE = 2
VARIANCES = np.geomspace(1e-4, 1e4, 5)
#: Of very many rows the kernel of one lengthscale is that of the one before, squared so often.
SQUARINGS = 2


class Scale(NamedTuple):
    """One kernel of the test.

    Attributes:
        family: what kind it is.
        lengthscale: its own, in standard deviations of the columns.
    """

    family: Family
    lengthscale: float


def test_scales(rows: Relabelled) -> list[Scale]:
    """Kernels with which a test looks, from well below the shortest distances."""
    found = []
    # In few columns both families hear the same. What takes longest comes first.
    families = [(LAPLACE, OF_LAPLACE), (GAUSSIAN, LENGTHSCALES)]
    for family, count in families[rows.points.shape[1] <= PLANE :]:
        short, median = _distances(rows, family.metric)
        shortest = short if rows.weighted else SHORTEST * short
        if _in_squares(rows):
            lengthscales = family.squares(LONGEST * median, shortest, SQUARINGS)
        else:
            lengthscales = np.geomspace(shortest, LONGEST * median, count)
        found += [Scale(family, float(one)) for one in lengthscales]
    return found


def landmark_lengthscales(rows: Relabelled) -> np.ndarray:
    """Lengthscales (L,) of the evidence at landmarks."""
    found = bandwidth_grid(rows.choosing.points, 0)
    if _in_squares(rows):
        found = GAUSSIAN.squares(found[-1], found[0], 1)
    return found[found >= _distances(rows)[0]] if rows.weighted else found


def _in_squares(rows: Relabelled) -> bool:
    """Whether kernels are evaluated together: others are gone through one at a time."""
    return len(rows.points) > VERY_MANY and rows.independent


def _distances(rows: Relabelled, metric: Metric = "euclidean") -> tuple[float, float]:
    """A short distance between rows and the median one.

    Below the short one, where hardly any row is near another, evidence is a row's own weight; of
    weighted rows, whose signs are turned, it says nothing of a difference.
    """
    points = rows.choosing.points
    distances = pdist(random_part(points, ROWS, 0), metric)
    if not distances.any():  # of rows in bins, nearly all of which are equal
        distances = pdist(random_part(np.unique(points, axis=0), ROWS, 0), metric)
    short, median = np.quantile(positive_distances(distances, points), [SHORT, 0.5])
    return float(short), float(median)
