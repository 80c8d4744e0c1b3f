r"""Which posterior draws a witness is conditioned on: every so many-th, or as many as a band needs.

Conditioning on the samples takes n x n matrices for every draw of the hyperparameters; one more
draw of the witness at the same hyperparameters takes hardly anything. An end of an equal-tailed
band is a quantile, and that of k independent draws has a standard error of
:math:`\sqrt{p (1 - p) / k} / f`, with f their density there: for a Gaussian and bands of 80 to 95 %
it is :math:`0.68 / \sqrt{k}` of the band's width. :data:`ENOUGH` draws of a mode keep that below
5 % of the width even if draws of the witness differed in nothing but the hyperparameters; all
posterior draws still give one draw of the witness each, so that what hyperparameters do not explain
is averaged over as many as before. Chains that mix badly have fewer effective draws than these, and
lose nothing by it.

Of a single hyperparameter draws are taken in its order, and each that is kept stands for those
next to it: :data:`IN_ORDER` of them, half as many, have at most half that error (0.02 of the width
for what grows with the hyperparameter, 0.04 for its square, where 200 in the order of the chains
have 0.05 and 0.11; 1600 draws, ``tests/inference/witness/test_bands.py``). Of two and more
hyperparameters cells of neighbours were no better at the ends of bands.
"""

from __future__ import annotations

import dataclasses
import numbers
from typing import Literal, TypeAlias

import numpy as np
import xarray as xr

from ..core.errors import InputError
from ..data.checks import check_count
from ..data.weighted import weighted_quantiles

#: Of each mode, and where a single hyperparameter orders its draws.
ENOUGH, IN_ORDER = 200, 100
#: What both guarantee, over the width of the band.
ERROR = 0.05

Thin: TypeAlias = int | Literal["auto"]


@dataclasses.dataclass(frozen=True)
class Thinning:
    """Which posterior draws are conditioned on, and which of their witnesses stands for each draw.

    Attributes:
        kept: their places among all draws, chain after chain, (k,).
        source: index into ``kept`` for every posterior draw, (chain, draw).
        turn: which of the witnesses of that one, (chain, draw).
    """

    kept: np.ndarray
    source: np.ndarray
    turn: np.ndarray

    @property
    def each(self) -> int:
        """How many witnesses one of them gives, at most."""
        return int(self.turn.max()) + 1


def check_thin(thin: Thin, draws: int) -> None:
    """Refuse what is neither ``"auto"`` nor a number up to the draws of a chain."""
    if thin != "auto":
        check_count(thin, "thin", 1, draws)


def enough(parameters: int) -> int:
    """How many draws of each mode ``"auto"`` keeps at least, of so many hyperparameters."""
    return IN_ORDER if parameters == 1 else ENOUGH


def thinning(thin: Thin, labels: np.ndarray, z: np.ndarray) -> Thinning:
    """Every ``thin``-th draw of each chain, or for ``"auto"`` :func:`enough` or more of each mode.

    A draw stands for draws of its own mode alone, so that none loses its last.

    Args:
        thin: of :func:`check_thin`.
        labels: mode of every draw, (chain, draw); -1 where it is in none.
        z: their hyperparameters, (chain, draw, p), by which they are ordered if p is 1.
    """
    stands, turn = np.arange(labels.size), np.zeros(labels.size, dtype=int)
    modes, which, counts = np.unique(labels, return_inverse=True, return_counts=True)
    group = which.reshape(labels.shape)
    if thin == "auto":
        steps = np.maximum(1, counts // enough(z.shape[-1]))
        steps[modes < 0] = steps.max()  # no band uses these
    else:
        group = group + len(modes) * np.arange(len(labels))[:, None]
        steps = np.full(len(modes) * len(labels), thin)
    in_order = thin == "auto" and z.shape[-1] == 1
    for one in np.unique(group):
        inside, step = np.flatnonzero(group.ravel() == one), steps[one]
        first = np.arange(len(inside)) // step * step
        if in_order:
            inside = inside[np.argsort(z.reshape(-1)[inside], kind="stable")]
            # The middle one of its neighbours, of which the last ones may be fewer.
            first += (np.minimum(first + step, len(inside)) - 1 - first) // 2
        turn[inside] = np.arange(len(inside)) % step
        stands[inside] = inside[first]
    kept, source = np.unique(stands, return_inverse=True)
    return Thinning(kept, source.reshape(labels.shape), turn.reshape(labels.shape))


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
