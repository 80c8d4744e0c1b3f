"""What prepared data of any number of columns have in common."""

from __future__ import annotations

import abc
from typing import Any, cast

import numpy as np

from ..kernels import Scaled
from ..kernels.base import Kernel

#: Rows up to which a lengthscale too short for the sums goes to the n x n matrices.
MOST_DENSE = 5000
#: A slope below this, over the sizes of the terms it is a sum of, is rounding error: it is exactly
#: zero, as where the neighbours of a point balance.
RESOLUTION = 2.0**-50


class TooLargeError(ValueError):
    """What a lengthscale needs would be more than anybody waits for."""


class SpectralIndex(abc.ABC):
    """The (n, D) points and what they need at every lengthscale."""

    points: Any

    @property
    @abc.abstractmethod
    def entries(self) -> int:
        """Numbers that one value goes through, at a usual lengthscale."""

    @property
    @abc.abstractmethod
    def shortest(self) -> float:
        """The lengthscale from which on no matrices are needed."""

    def shortest_of(self, kernel: Kernel) -> Any:
        """What of the ``kernel``, a known number, is to be no less than :attr:`shortest`."""
        return cast(Any, unscaled(kernel)[0]).lengthscale

    def takes(self, kernel: Kernel) -> bool:
        """Whether its lengthscale, a known number, is long enough, or matrices can be taken."""
        lengthscale = np.asarray(self.shortest_of(kernel))
        return bool(np.all(lengthscale >= self.shortest)) or len(self.points) <= MOST_DENSE


def unscaled(kernel: Kernel) -> tuple[Kernel, Any]:
    """Without the number it is multiplied by, and this number; ``None`` where there is none."""
    variance = None
    while type(kernel) is Scaled:
        variance = kernel.variance if variance is None else variance * kernel.variance
        kernel = kernel.kernel
    return kernel, variance
