"""Kernels at which a test looks: squared exponentials, and Laplace's of several columns.

A squared exponential hears what is near in all columns together. Where each of many columns differs
a little in its shape, as by heavier tails, it hardly does: squared distances are sums over columns,
and nearly those of normal columns of that variance. Laplace's kernel, exp(-|x - z|_1 / l), is a
product over columns with a kink in each, and hears it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np
from scipy.spatial.distance import cdist

from .spectrum import Values, kernel, nearness, squared

if TYPE_CHECKING:
    from bke.models import Laplace, SquaredExponential

#: Names of distances, as SciPy has them.
Metric: TypeAlias = Literal["euclidean", "cityblock"]
#: Kernels that are evaluated together: more no longer fit in a cache, and occupy fewer cores.
RUN = 4
#: What is as near to a whole number is one.
WHOLE = 1e-9


class Family(NamedTuple):
    """Kernels that differ by their lengthscale alone.

    Attributes:
        metric: that of the distances which they are functions of.
        values: evaluates that of a lengthscale between points (k, D) and (l, D): (k, l).
        power: p, where that of a lengthscale l is that of 1 to the power l^-p.
        name: of the kernel as a user has it, in :mod:`bke.models`.
        nodes: the share of the nodes that there are at which they are taken.
    """

    metric: Metric
    values: Values
    power: int
    name: str
    nodes: float

    @property
    def model(self) -> type[SquaredExponential] | type[Laplace]:
        """The kernel as a user has it, which needs JAX; what is evaluated here does not."""
        from bke import models

        return getattr(models, self.name)  # type: ignore[no-any-return]

    def squarings(self, longer: float, lengthscale: float) -> int:
        """How often the kernel of a longer lengthscale is squared to be that of another.

        Zero where no square of it is.
        """
        found = self.power * math.log2(longer / lengthscale)
        whole = round(found)
        return max(whole, 0) if abs(found - whole) < WHOLE else 0

    def runs(self, lengthscales: Iterable[float]) -> list[tuple[float, ...]]:
        """Lengthscales in runs that are worth evaluating together, each a square of the last."""
        found: list[tuple[float, ...]] = []
        for one in map(float, lengthscales):
            last = found[-1] if found else ()
            if last and len(last) < RUN and self.squarings(last[-1], one) > 0:
                found[-1] = (*last, one)
            else:
                found.append((one,))
        return found

    def squares(self, longest: float, shortest: float, squarings: int) -> np.ndarray:
        """Lengthscales from the longest down to the shortest, or the next one beyond.

        The kernel of each is that of the one before, squared so often.
        """
        steps = self.power / squarings * math.log2(longest / shortest)
        count = 1 + math.ceil(steps - WHOLE)
        return longest * 2.0 ** (-squarings / self.power * np.arange(count))

    def at(self, places: np.ndarray, *lengthscales: float) -> Kernels:
        """The kernels at some lengthscales and at places (k, D)."""
        return Kernels(self, places, lengthscales)


@dataclasses.dataclass(frozen=True)
class Kernels:
    """How near rows are to places, by kernels of one family.

    Squaring takes a tenth of the time of evaluating one.

    Attributes:
        family: of the kernels.
        places: (k, D).
        lengthscales: of each.
    """

    family: Family
    places: np.ndarray
    lengthscales: tuple[float, ...]

    def each(self, points: np.ndarray) -> Iterator[np.ndarray]:
        """Evaluate each kernel (r, k) between rows (r, D) and places, in the place of the last."""
        near: np.ndarray | None = None
        last = self.lengthscales[0]
        for lengthscale in self.lengthscales:
            squarings = self.family.squarings(last, lengthscale)
            if near is None or squarings == 0:
                near = self.family.values(points, self.places, lengthscale)
            for _ in range(squarings):
                squared(near)
            last = lengthscale
            yield near

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Evaluate all kernels (r, L k) between rows (r, D) and places, side by side."""
        count = len(self.places)
        if len(self.lengthscales) == 1:
            return next(self.each(points))
        found = np.empty((len(points), count * len(self.lengthscales)))
        for index, near in enumerate(self.each(points)):
            found[:, index * count : (index + 1) * count] = near
        return found


def _laplace(points: np.ndarray, others: np.ndarray, lengthscale: float) -> np.ndarray:
    found = cdist(points, others, "cityblock")
    found *= -1.0 / lengthscale
    return nearness(found)


GAUSSIAN = Family("euclidean", kernel, 2, "SquaredExponential", 1.0)
# These distances are no matrix product, and take longer.
LAPLACE = Family("cityblock", _laplace, 1, "Laplace", 0.375)
