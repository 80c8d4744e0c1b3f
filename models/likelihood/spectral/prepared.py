"""What prepared data of any number of columns have in common."""

from __future__ import annotations

import abc
from typing import Any, cast

import jax.numpy as jnp
import numpy as np

from ...arrays.padding import PaddedRows, padded, shared_size
from ...kernels.algebra import Scaled
from ...kernels.base import Kernel
from ...measures.measure import Measure

#: Rows up to which a lengthscale too short for the sums goes to the n x n matrices.
MOST_DENSE = 5000
#: A slope below this, over the sizes of the terms it is a sum of, is rounding error: it is exactly
#: zero, as where the neighbours of a point balance.
RESOLUTION = 2.0**-50


class TooLargeError(ValueError):
    """What a lengthscale needs would be more than anybody waits for."""


class SpectralIndex(abc.ABC):
    """The points and what they need at every lengthscale."""

    rows: PaddedRows

    @property
    @abc.abstractmethod
    def entries(self) -> int:
        """Numbers that one value goes through, at a usual lengthscale."""

    @property
    @abc.abstractmethod
    def shortest(self) -> float:
        """The lengthscale from which on no matrices are needed."""

    @property
    def refused(self) -> str:
        """In words, which lengthscales go to the matrices."""
        return f"below {self.shortest:.3g}"

    def shortest_of(self, kernel: Kernel) -> Any:
        """What of the ``kernel``, a known number, is to be no less than :attr:`shortest`."""
        return cast(Any, unscaled(kernel)[0]).lengthscale

    def takes(self, kernel: Kernel) -> bool:
        """Whether its lengthscale, a known number, is long enough, or matrices can be taken."""
        lengthscale = np.asarray(self.shortest_of(kernel))
        return bool(np.all(lengthscale >= self.shortest)) or len(self.rows) <= MOST_DENSE


def line_rows(x: np.ndarray) -> PaddedRows:
    """Ascending points (n,) as rows, of a size that others share."""
    n = len(x)
    most = MOST_DENSE if n <= MOST_DENSE else shared_size(n)
    return padded(x[:, None], min(shared_size(n), most))


def filled(values: np.ndarray, size: int) -> np.ndarray:
    """``values`` (n, ...) of points, as long as the rows."""
    return np.pad(values, [(0, size - len(values)), *[(0, 0)] * (values.ndim - 1)], mode="edge")


def at_zero(kernel: Kernel, measure: Measure, dimension: int = 1) -> Any:
    """r(x, x)."""
    origin = jnp.zeros((1, dimension))
    return kernel.smoothed(measure, dimension).matrix(origin, origin)[0, 0]


def unscaled(kernel: Kernel) -> tuple[Kernel, Any]:
    """Without the number it is multiplied by, and this number; ``None`` where there is none."""
    variance = None
    while type(kernel) is Scaled:
        variance = kernel.variance if variance is None else variance * kernel.variance
        kernel = kernel.kernel
    return kernel, variance
