"""What prepared data of any number of columns have in common."""

from __future__ import annotations

import abc
from typing import Any, cast

import numpy as np

from ..kernels import SquaredExponential
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

    def takes(self, kernel: Kernel) -> bool:
        """Whether its lengthscale, a known number, is long enough, or matrices can be taken."""
        lengthscale = np.asarray(cast(SquaredExponential, kernel).lengthscale)
        return bool(np.all(lengthscale >= self.shortest)) or len(self.points) <= MOST_DENSE
