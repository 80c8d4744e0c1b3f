"""The error of an approximate likelihood over a posterior."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from bke.models.likelihood.low_rank import LowRankError, error_of_differences
from bke.models.likelihood.marginal import restore_likelihood

from .record import likelihood_record, read_record
from .target import Points, Target, flatten, unflatten


def estimate_error(
    target: Target,
    points: Points,
    z: Mapping[str, np.ndarray],
    lp: np.ndarray,
    *,
    num_draws: int = 16,
    max_depth: float = 30.0,
) -> dict[str, Any]:
    """Estimate the error of an approximate likelihood over the draws of a posterior.

    Args:
        target: the model.
        points: the data as the likelihood needs them, or a tuple of samples.
        z: unconstrained draws (chain, draw, ...) by site.
        lp: log density of the draws (chain, draw).
        num_draws: number of draws at which the error is estimated; not tuned.
        max_depth: nats below the highest density that these draws may be; not tuned.

    Returns:
        Attributes of the run, with NaN where the approximation cannot estimate its error; empty
        for a likelihood that is no approximation.
    """
    if not target.likelihood.approximate:
        return {}
    flat = flatten(z, leading=2).reshape(lp.size, -1)
    high = np.flatnonzero(lp.ravel() >= lp.max() - max_depth)
    ordered = flat[high[np.argsort(flat[high, 0], kind="stable")]]
    quantiles = (np.arange(num_draws) + 0.5) / num_draws * len(ordered)
    draws = np.unique(ordered[quantiles.astype(int)], axis=0)
    samples = points if isinstance(points, tuple) else (points,)
    constrained = target.constrain(unflatten(draws, target.shapes))
    values = [{name: constrained[name][i] for name in constrained} for i in range(len(draws))]
    noise = target.noise_variance
    parameters = [
        (target.kernel_at(at), at.get("noise_variance", noise), target.measure_at(at))
        for at in values
    ]
    estimates: list[list[Any]] = [
        [sample.error_terms(*at) for at in parameters] for sample in samples
    ]
    known = all(estimate is not None for of_sample in estimates for estimate in of_sample)
    error = error_of_differences(estimates) if known else LowRankError(math.nan, math.nan)
    return {
        "low_rank_error": error.size,
        "low_rank_standard_error": error.standard_error,
        "low_rank_truncation": error.truncation,
        "low_rank_draws": len(draws),
    }


def recorded_error(run: xr.DataTree) -> float | None:
    """Return the error of :func:`estimate_error` in nats; ``None`` without an approximation."""
    record = read_record(run.attrs)
    return float(record["low_rank_error"]) if "low_rank_error" in record else None


def is_small(error: float, threshold: float = 0.3) -> bool:
    """Return whether an error is small compared with one nat; false where it is not known."""
    return error <= threshold


def error_sentences(run: xr.DataTree, *, heavy_tail_columns: int = 3) -> list[str]:
    """Describe the error of an approximate likelihood, with a warning where it is not small.

    Args:
        run: a run of :func:`~bke.inference.fit`.
        heavy_tail_columns: number of columns up to which the estimate may be too small, since a
            few rows far from the others have most of the error.
    """
    error = recorded_error(run)
    if error is None:
        return []
    record = read_record(run.attrs)
    likelihood = restore_likelihood(likelihood_record(record))
    if math.isnan(error):
        return [
            f"The likelihood is {likelihood.description}: the error of differences of its log over "
            "these draws is NOT KNOWN."
        ]
    narrow = run["observed_data"].sizes["column"] <= heavy_tail_columns
    more = ", or by more than twice that where these few columns have heavy tails"
    sentences = [
        f"The likelihood is {likelihood.description}: differences of its log "
        f"over these draws are estimated to be off by {error:.2g} nats (root mean square at "
        f"{record['low_rank_draws']} of them){more if narrow else ''}."
    ]
    if not is_small(error):
        sentences.append(
            "NOT ACCURATE: that is not small compared with 1 nat, so the posterior may be shifted "
            f"by as much as its width: {likelihood.advice}."
        )
    return sentences
