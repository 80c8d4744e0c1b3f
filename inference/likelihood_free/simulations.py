"""Simulated data sets with their distances, and those that failed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.errors import InputError
from .distances import Distance
from .simulators import Parameters, Simulate, as_words, commonest, parameters_at

#: What random numbers are for.
PRIOR, DATA = 0, 1
#: Cause of failure of a simulation that is too far from the observed data, or nowhere.
NO_DISTANCE = "a distance that is not finite"
#: Where so many simulations have failed and none has not, all of them will.
HOPELESS = 100


class Simulations(NamedTuple):
    """What a run has simulated, failures included."""

    theta: dict[str, np.ndarray]  # (M, ...) each
    squared: np.ndarray  # (M,), squared distances; NaN where a simulation failed
    causes: np.ndarray  # (M,) of str: why, "" where it did not

    @property
    def good(self) -> np.ndarray:
        """Which simulations did not fail, (M,)."""
        return np.asarray(self.causes == "")


def simulations_at(
    theta: Parameters, run: Simulate, distance: Distance, seed: np.random.SeedSequence
) -> Simulations:
    """Simulate one data set for each of the parameters, and tell how far it is."""
    values, causes = run(theta, seed)
    squared = np.full(len(causes), np.nan)
    good = causes == ""
    if good.any():
        squared[good] = distance.squared(values[good])
    causes = np.where(good & ~np.isfinite(squared), NO_DISTANCE, causes)
    squared[causes != ""] = np.nan
    return Simulations(dict(theta), squared, causes)


def together(parts: list[Simulations]) -> Simulations:
    """Join simulations that were made in several goes."""
    return Simulations(
        {name: np.concatenate([part.theta[name] for part in parts]) for name in parts[0].theta},
        np.concatenate([part.squared for part in parts]),
        np.concatenate([part.causes for part in parts]),
    )


def check_hope(parts: list[Simulations]) -> None:
    """Give up where the first hundred simulations have all failed."""
    if sum(len(part.squared) for part in parts) >= HOPELESS and not any(
        part.good.any() for part in parts
    ):
        raise_hopeless(together(parts))


def raise_hopeless(found: Simulations) -> None:
    """Refuse to go on where all simulations have failed."""
    cause, times = next(iter(commonest(found.causes).items()))
    first = as_words(parameters_at(found.theta, 0))
    raise InputError(
        f"all {len(found.causes)} simulations failed, {times} of them with {cause}; the first was "
        f"for {first}" + (": rows= says how many a data set has" if "shape (" in cause else "")
    )
