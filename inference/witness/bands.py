"""Bands of the witness, pointwise, from its draws and their weights."""

from __future__ import annotations

import dataclasses
import numbers

import numpy as np
import xarray as xr

from ..core.errors import InputError
from ..data.weighted import weighted_quantiles


@dataclasses.dataclass(frozen=True)
class Band:
    """Mean and equal-tailed band of the witness at every point.

    Attributes:
        mean, lower, upper: shape (m,).
        level: posterior probability inside, pointwise.
        draws: how many draws it rests on.
    """

    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    level: float
    draws: int


def band(witness: xr.DataTree, level: float = 0.8, mode: int | None = None) -> Band:
    """Mean and equal-tailed band of :func:`sample_witness`'s draws.

    Args:
        witness: the group that :func:`sample_witness` returned.
        level: posterior probability of the band at each point.
        mode: index of a mode; ``None`` for all draws with the weights of the witness: modes by
            their posterior mass unless :func:`sample_witness` was told otherwise. Stuck chains are
            left out, unless all are stuck.
    """
    if not isinstance(level, numbers.Real) or not 0.0 < level < 1.0:
        raise InputError(f"level must be between 0 and 1, got {level}")
    if not isinstance(witness, xr.DataTree) or "witness" not in witness.data_vars:
        raise InputError("band needs what sample_witness returned")
    dataset = witness.to_dataset()
    draws, labels = dataset["witness"].values, dataset["mode"].values
    used = dataset["weight"].values > 0 if mode is None else labels == mode
    chosen = draws[used]
    if not len(chosen):
        raise InputError(f"no draw is in mode {mode}")
    weights = dataset["weight"].values[used] if mode is None else np.ones(len(chosen))
    weights = weights / weights.sum()
    lower, upper = weighted_quantiles(chosen, weights, ((1 - level) / 2, (1 + level) / 2))
    return Band(weights @ chosen, lower, upper, level, len(chosen))
