"""Kernels at which a test looks: squared exponentials, and Laplace's of several columns.

A squared exponential hears what is near in all columns together. Where each of many columns differs
a little in its shape, as by heavier tails, it hardly does: squared distances are sums over columns,
and nearly those of normal columns of that variance. Laplace's kernel, exp(-|x - z|_1 / l), is a
product over columns with a kink in each, and hears it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from bke.models import Laplace, SquaredExponential
from scipy.spatial.distance import cdist

from .spectrum import squared_distances

#: Names of distances, as SciPy has them.
Metric: TypeAlias = Literal["euclidean", "cityblock"]


class Family(NamedTuple):
    """Kernels that differ by their lengthscale alone.

    Attributes:
        metric: that of the distances which they are functions of.
        distances: between points (k, D) and (l, D), (k, l), or their squares.
        factor: what these are multiplied by before ``exp`` at a lengthscale.
        model: the kernel as a user has it.
    """

    metric: Metric
    distances: Callable[[np.ndarray, np.ndarray], np.ndarray]
    factor: Callable[[float], float]
    model: type[SquaredExponential] | type[Laplace]

    def values(self, points: np.ndarray, others: np.ndarray, lengthscale: float) -> np.ndarray:
        """Evaluate the kernel between points (k, D) and (l, D): (k, l)."""
        return next(self.at(others, lengthscale).each(points))

    def at(self, places: np.ndarray, *lengthscales: float) -> Kernels:
        """The kernels at some lengthscales and at places (k, D)."""
        return Kernels(self, places, lengthscales)


@dataclasses.dataclass(frozen=True)
class Kernels:
    """How near rows are to places, by kernels of one family: distances are evaluated once.

    Attributes:
        family: of the kernels.
        places: (k, D).
        lengthscales: of each.
    """

    family: Family
    places: np.ndarray
    lengthscales: tuple[float, ...]

    def each(self, points: np.ndarray) -> Iterator[np.ndarray]:
        """Evaluate each kernel (r, k) between rows (r, D) and places."""
        apart = self.family.distances(points, self.places)
        for lengthscale in self.lengthscales:
            found = self.family.factor(lengthscale) * apart
            yield np.exp(found, out=found)

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Evaluate all kernels (r, L k) between rows (r, D) and places, side by side."""
        return np.concatenate(list(self.each(points)), axis=1)


def _cityblock(points: np.ndarray, others: np.ndarray) -> np.ndarray:
    return np.asarray(cdist(points, others, "cityblock"))


def _of_square(lengthscale: float) -> float:
    return -0.5 / lengthscale**2


def _of_length(lengthscale: float) -> float:
    return -1.0 / lengthscale


# Functions with names, for kernels are sent to where rows are.
GAUSSIAN = Family("euclidean", squared_distances, _of_square, SquaredExponential)
LAPLACE = Family("cityblock", _cityblock, _of_length, Laplace)
