"""From observed data back to a simulator's parameters: what all likelihood-free ways are given."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..core.errors import InputError
from ..data.checks import as_sample, check_count
from .distances import MMD, Distance
from .prior import Prior
from .simulators import Simulate, simulating
from .store import code_of


@dataclasses.dataclass(frozen=True)
class InverseProblem:
    """Observed data, a simulator, a prior and a distance, checked.

    Attributes:
        method: name of the public function.
        data: observed, (m, D).
        shape: of every simulated data set, (n, D).
        simulate: as the user gave it.
        prior: of the parameters.
        distance: from the observed data.
        workers: processes for a plain function; ``None`` for this one alone.
        seed: of every random number.
    """

    method: str
    data: np.ndarray
    shape: tuple[int, int]
    simulate: Any
    prior: Prior
    distance: Distance
    workers: int | None
    seed: int

    @classmethod
    def checked(
        cls,
        method: str,
        observed: ArrayLike,
        simulate: Any,
        prior: Any,
        distance: Distance,
        *,
        rows: int | None,
        workers: int | None,
        seed: int,
    ) -> InverseProblem:
        """Check what a user gave; simulators and workers are checked when they are started.

        Raises:
            InputError: for arguments that make no sense, in one sentence.
        """
        believed = Prior.checked(prior)
        data, shape = check_data(observed, distance, rows)
        return cls(method, data, shape, simulate, believed, distance, workers, check_seed(seed))

    def simulating(self) -> contextlib.AbstractContextManager[Simulate]:
        """Start the simulator and its processes, for as long as the context lasts."""
        return simulating(self.simulate, self.shape, self.workers)

    def settings(self, **more: Any) -> dict[str, Any]:
        """Describe a run by plain data, with what ``more`` its way has."""
        return {
            "method": self.method,
            "prior": self.prior.describe(),
            "distance": self.distance.describe(),
            "simulator": code_of(self.simulate),
            "rows": self.shape[0],
            **more,
            "seed": self.seed,
        }


def check_seed(seed: Any) -> int:
    """Check that a seed is a whole number of at least 0, or raise ``InputError``."""
    return check_count(seed, "seed", 0)


def check_data(
    observed: ArrayLike, distance: Distance, rows: int | None
) -> tuple[np.ndarray, tuple[int, int]]:
    """Check the observed data, (m, D); with them comes the shape (n, D) of simulated data sets.

    Raises:
        InputError: for data that are no sample or not the distance's, or rows that it is not for.
    """
    data = as_sample(observed, "observed", may_be_constant=True)
    if isinstance(distance, type) or not hasattr(distance, "squared"):
        raise InputError(f"distance must be MMD(...) or Summaries(...), got {distance!r}")
    if not np.array_equal(data, distance.observed):
        raise InputError("the distance was made for other observed data than these")
    count = len(data) if rows is None else check_count(rows, "rows", 1)
    if isinstance(distance, MMD):
        distance.check_rows(count)
    return data, (count, data.shape[1])
