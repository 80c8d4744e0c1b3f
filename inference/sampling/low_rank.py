"""What an approximate likelihood is worth over a posterior: the error of its differences there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from bke.models.likelihood.low_rank import LowRankError, error_of_differences
from bke.models.likelihood.marginal import restore_likelihood

from .record import likelihood_record
from .target import Points, Target, flatten, unflatten

#: Draws at which the error is looked at, and how far below the highest, in nats, they may be.
DRAWS, LOWEST = 16, 30.0
#: An error beside which a difference of one nat counts for what it is.
SMALL = 0.3
#: Columns up to which the estimate may be too small: a few rows far out have most of the error.
FEW_COLUMNS = 3


def recorded_error(
    target: Target, points: Points, z: Mapping[str, np.ndarray], lp: np.ndarray
) -> dict[str, Any]:
    """Error of an approximate likelihood over unconstrained draws (chain, draw, ...).

    For attributes: NaN where a view has no evidence of it, and nothing for a likelihood that is no
    approximation.
    """
    if not target.likelihood.approximate:
        return {}
    flat = flatten(z, leading=2).reshape(lp.size, -1)
    inside = np.flatnonzero(lp.ravel() >= lp.max() - LOWEST)
    ordered = flat[inside[np.argsort(flat[inside, 0], kind="stable")]]
    middles = (np.arange(DRAWS) + 0.5) / DRAWS * len(ordered)
    chosen = np.unique(ordered[middles.astype(int)], axis=0)
    views = points if isinstance(points, tuple) else (points,)
    found: list[list[Any]] = [[] for _ in views]
    every = target.constrain(unflatten(chosen, target.shapes))
    for index in range(len(chosen)):
        values = {name: value[index] for name, value in every.items()}
        noise = values.get("noise_variance", target.noise_variance)
        for view, pieces in zip(views, found, strict=True):
            pieces.append(
                view.error_terms(target.kernel_at(values), noise, target.measure_at(values))
            )
    if any(piece is None for pieces in found for piece in pieces):
        error = LowRankError(float("nan"), float("nan"))
    else:
        error = error_of_differences(found)
    return {
        "low_rank_error": error.size,
        "low_rank_standard_error": error.standard_error,
        "low_rank_truncation": error.truncation,
        "low_rank_draws": len(chosen),
    }


def error_of_run(run: xr.DataTree) -> float | None:
    """What :func:`recorded_error` found, in nats; ``None`` for a run that is no approximation."""
    return float(run.attrs["low_rank_error"]) if "low_rank_error" in run.attrs else None


def is_small(error: float) -> bool:
    """Whether a difference of one nat counts for what it is; not where the error is not known."""
    return error <= SMALL


def in_words(run: xr.DataTree) -> list[str]:
    """Tell the error in a sentence, with a warning where it is not small beside one nat."""
    error = error_of_run(run)
    if error is None:
        return []
    attrs = run.attrs
    likelihood = restore_likelihood(likelihood_record(attrs))
    if math.isnan(error):
        return [
            f"The likelihood is {likelihood.description}: how far differences of its log over "
            "these draws are off is NOT KNOWN."
        ]
    few = run["observed_data"].sizes["column"] <= FEW_COLUMNS
    more = ", or by more than twice that where these few columns have heavy tails" if few else ""
    sentences = [
        f"The likelihood is {likelihood.description}: differences of its log "
        f"over these draws are estimated to be off by {error:.2g} nats (root mean square at "
        f"{attrs['low_rank_draws']} of them){more}."
    ]
    if not is_small(error):
        sentences.append(
            "NOT ACCURATE: that is not small beside 1 nat, so the posterior may be shifted by as "
            f"much as it is wide: {likelihood.advice}."
        )
    return sentences
