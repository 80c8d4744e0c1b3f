r"""Credible bands of witness functions, and the posterior draws that they need.

Conditioning on the samples takes n x n matrices for every draw of the hyperparameters; another
draw of the witness at the same hyperparameters costs little. An end of an equal-tailed band is a
quantile, and the quantile of k independent draws has the standard error
:math:`\sqrt{p (1 - p) / k} / f`, with f their density there: for a Gaussian and bands of 80 to 95 %
it is :math:`0.68 / \sqrt{k}` of the band's width. With k = 200 draws of a mode it is below 5 % of
it even if draws of the witness differ in the hyperparameters only. All
posterior draws still give one draw of the witness each, so that the rest of the variance is
averaged over as many as before. Chains that mix badly have fewer effective draws than 200.

Draws of a single hyperparameter are sorted, and each draw that is used represents its neighbors:
100 of them have at most half that error (0.02 of the width for a witness that is linear in the
hyperparameter, 0.04 for its square, where 200 draws in the order of the chains have 0.05 and 0.11;
1600 draws, ``tests/inference/witness/test_bands.py``). For two and more hyperparameters clusters of
neighbors did not improve the ends of bands.
"""

from __future__ import annotations

import dataclasses
import numbers
from typing import Literal, TypeAlias

import numpy as np
import xarray as xr

from ..core.errors import InputError
from ..data.weighted import weighted_quantiles

Thin: TypeAlias = int | Literal["auto"]


@dataclasses.dataclass(frozen=True)
class CredibleBand:
    """Mean and equal-tailed credible band of a witness at every point.

    Attributes:
        mean, lower, upper: shape (m,).
        level: posterior probability of the band at each point.
        draws: number of draws.
    """

    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    level: float
    draws: int


def credible_band(
    witness: xr.DataTree, level: float = 0.8, mode: int | None = None
) -> CredibleBand:
    """Compute the mean and the pointwise equal-tailed credible band of a witness.

    Args:
        witness: the group that :func:`sample_witness` returned.
        level: posterior probability of the band at each point.
        mode: index of a mode; ``None`` for all draws with the weights of the witness, by default
            modes by their posterior mass. Stuck chains are left out, unless all are stuck.

    Raises:
        InputError: for another tree, a level that is not between 0 and 1, or a mode without draws.
    """
    if not isinstance(level, numbers.Real) or not 0.0 < level < 1.0:
        raise InputError(f"level must be between 0 and 1, got {level}")
    if not isinstance(witness, xr.DataTree) or "witness" not in witness.data_vars:
        raise InputError("credible_band needs what sample_witness returned")
    weights = witness["weight"].values
    if mode is not None:
        weights = np.where(witness["mode"].values == mode, 1.0, 0.0)
    used = weights > 0.0
    if not used.any():
        raise InputError(f"no draw is in mode {mode}")
    draws, weights = witness["witness"].values[used], weights[used] / weights[used].sum()
    lower, upper = weighted_quantiles(draws, weights, ((1 - level) / 2, (1 + level) / 2))
    return CredibleBand(weights @ draws, lower, upper, level, len(draws))


def weighted_by_chain(witness: xr.DataTree) -> xr.DataTree:
    """Return a witness whose chains have equal weights, stuck ones zero (BKE Figure 5 C)."""
    draws = witness.to_dataset()
    used = draws["mode"] >= 0
    used = used if used.any() else xr.ones_like(used)
    result = witness.assign(weight=used / used.sum())
    result.attrs = {**witness.attrs, "weights": "chains"}
    return result


def within_range(witness: xr.DataTree) -> xr.DataTree:
    """Return a witness at its points within the range of the data, or at all if no point is."""
    inside = np.asarray(witness["in_range"].values, dtype=bool)
    return witness.isel(point=inside) if inside.any() else witness


def thin_draws(
    thin: Thin, labels: np.ndarray, z: np.ndarray, least: int = 200, least_sorted: int = 100
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Choose the posterior draws that a witness is conditioned on, and map every draw to one.

    Each chosen draw represents draws of the same mode only, so that no mode is lost.

    Args:
        thin: every ``thin``-th draw of each mode and chain; ``"auto"`` for ``least`` or more of
            each mode, or ``least_sorted`` of a single hyperparameter in its order; see above.
        labels: mode of every draw, (chain, draw); -1 where it is in none.
        z: hyperparameters, (chain, draw, p).
        least: draws of each mode.
        least_sorted: draws of each mode, of a single hyperparameter.

    Returns:
        Indices (k,) of the chosen draws among all, chain after chain; the position in these of the
        draw that represents each draw, (chain, draw); and the number of draws before it that this
        one represents too, (chain, draw).
    """
    modes, group, counts = np.unique(labels, return_inverse=True, return_counts=True)
    group = group.reshape(labels.shape)
    in_order = thin == "auto" and z.shape[-1] == 1
    if thin == "auto":
        steps = np.maximum(1, counts // (least_sorted if in_order else least))
        steps[modes < 0] = steps.max()  # no band uses these
    else:
        group = group + len(modes) * np.arange(len(labels))[:, None]
        steps = np.full(len(modes) * len(labels), thin)
    represented_by, turn = np.zeros((2, labels.size), dtype=int)
    for index in np.unique(group):
        members, step = np.flatnonzero(group.ravel() == index), steps[index]
        chosen = np.arange(len(members)) // step * step
        if in_order:
            members = members[np.argsort(z.reshape(-1)[members], kind="stable")]
            # The middle of the neighbors, which may be fewer at the end.
            chosen += (np.minimum(chosen + step, len(members)) - 1 - chosen) // 2
        turn[members] = np.arange(len(members)) % step
        represented_by[members] = members[chosen]
    chosen, source = np.unique(represented_by, return_inverse=True)
    return chosen, source.reshape(labels.shape), turn.reshape(labels.shape)
