"""Kernels at which a test looks: squared exponentials, and Laplace's of several columns.

A squared exponential hears what is near in all columns together. Where each of many columns differs
a little in its shape, as by heavier tails, it hardly does: squared distances are sums over columns,
and nearly those of normal columns of that variance. Laplace's kernel, exp(-|x - z|_1 / l), is a
product over columns with a kink in each, and hears it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np
from scipy.spatial.distance import cdist

from .spectrum import kernel, nearness

if TYPE_CHECKING:
    from bke.models import Laplace, SquaredExponential

#: Names of distances, as SciPy has them.
Metric: TypeAlias = Literal["euclidean", "cityblock"]


class Family(NamedTuple):
    """Kernels that differ by their lengthscale alone.

    Attributes:
        metric: that of the distances which they are functions of.
        each: evaluates those of some lengthscales between points (k, D) and (l, D), (k, l) each.
        name: of the kernel as a user has it, in :mod:`bke.models`.
        together: how many lengthscales are worth evaluating at once.
        nodes: the share of the nodes that there are at which they are taken.
    """

    metric: Metric
    each: Callable[[np.ndarray, np.ndarray, tuple[float, ...]], Iterator[np.ndarray]]
    name: str
    together: int
    nodes: float

    @property
    def model(self) -> type[SquaredExponential] | type[Laplace]:
        """The kernel as a user has it, which needs JAX; what is evaluated here does not."""
        from bke import models

        return getattr(models, self.name)  # type: ignore[no-any-return]

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
        return self.family.each(points, self.places, self.lengthscales)

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Evaluate all kernels (r, L k) between rows (r, D) and places, side by side."""
        each, count = self.each(points), len(self.places)
        if len(self.lengthscales) == 1:
            return next(each)
        found = np.empty((len(points), count * len(self.lengthscales)))
        for index, near in enumerate(each):
            found[:, index * count : (index + 1) * count] = near
        return found


def _squared_exponentials(
    points: np.ndarray, others: np.ndarray, lengthscales: tuple[float, ...]
) -> Iterator[np.ndarray]:
    return (kernel(points, others, lengthscale) for lengthscale in lengthscales)


def _laplace(
    points: np.ndarray, others: np.ndarray, lengthscales: tuple[float, ...]
) -> Iterator[np.ndarray]:
    # These distances are no matrix product: they cost more than all that is made of them.
    apart = cdist(points, others, "cityblock")
    for lengthscale in lengthscales:
        yield nearness(apart * (-1.0 / lengthscale))


GAUSSIAN = Family("euclidean", _squared_exponentials, "SquaredExponential", 1, 1.0)
LAPLACE = Family("cityblock", _laplace, "Laplace", 5, 0.375)
