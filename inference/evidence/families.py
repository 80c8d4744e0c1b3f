"""Kernels at which a test looks: squared exponentials, and Laplace's of several columns.

A squared exponential hears what is near in all columns together. Where each of many columns differs
a little in its shape, as by heavier tails, it hardly does: squared distances are sums over columns,
and nearly those of normal columns of that variance. Laplace's kernel, exp(-|x - z|_1 / l), is a
product over columns with a kink in each, and hears it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from bke.models import Laplace, SquaredExponential
from scipy.spatial.distance import cdist

from .spectrum import squared_distances


class Family(NamedTuple):
    """Kernels that differ by their lengthscale alone.

    Attributes:
        metric: that of the distances which they are functions of.
        distances: between points (k, D) and (l, D), (k, l), or their squares.
        factor: what these are multiplied by before ``exp`` at a lengthscale.
        model: the kernel as a user has it.
    """

    metric: str
    distances: Callable[[np.ndarray, np.ndarray], np.ndarray]
    factor: Callable[[float], float]
    model: type[SquaredExponential] | type[Laplace]

    def kernels(
        self, points: np.ndarray, others: np.ndarray, lengthscales: Sequence[float]
    ) -> Iterator[np.ndarray]:
        """Evaluate the kernel at each lengthscale between points (k, D) and (l, D): (k, l) each."""
        apart = self.distances(points, others)
        for lengthscale in lengthscales:
            found = self.factor(lengthscale) * apart
            yield np.exp(found, out=found)


def _cityblock(points: np.ndarray, others: np.ndarray) -> np.ndarray:
    return np.asarray(cdist(points, others, "cityblock"))


GAUSSIAN = Family(
    "euclidean", squared_distances, lambda length: -0.5 / length**2, SquaredExponential
)
LAPLACE = Family("cityblock", _cityblock, lambda length: -1.0 / length, Laplace)
