"""Learned and compared kernels as plain data, for the JSON summary."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from bke.models.likelihood.marginal import as_likelihood

from ..core.errors import InputError
from ..learning.maximum_likelihood import LearnedKernel, Peak
from ..learning.scikit_learn import rbf_gamma
from ..sampling.record import describe_kernel, describe_prior


def model_summary(arguments: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """What the model was made of: keyword arguments of ``fit`` as plain data, and the seed."""
    told = {**arguments, **as_likelihood(arguments["likelihood"]).record()}
    if "kernel" in told:
        told["kernel"] = describe_kernel(told["kernel"])
    if told["prior"] is not None:
        told["prior"] = describe_prior(told["prior"])
    return {**told, "seed": seed}


def learned_summary(learned: LearnedKernel, columns: Sequence[str]) -> dict[str, Any]:
    """Every peak with its kernel, in the units of the data, and what was done to these."""
    pairs = zip(learned.peaks, learned.heights().tolist(), strict=True)
    units = learned.units
    return {
        "objective": learned.objective,
        "columns": list(columns),
        "scale": dict(zip(columns, units.scale.tolist(), strict=True)),
        "dither": dict(zip(columns, units.dither.tolist(), strict=True)),
        "dither_seed": units.dither_seed,
        "peaks": [_peak(peak, height) for peak, height in pairs],
    }


def _peak(peak: Peak, height: float) -> dict[str, Any]:
    found = {
        "kernel": describe_kernel(peak.kernel),
        "hyperparameters": {k: np.asarray(v).tolist() for k, v in peak.values.items()},
        "log_marginal_likelihood": peak.log_marginal_likelihood,
        "log_prior": peak.log_prior,
        "below_the_highest_nats": abs(height),
        "curvature_nats": peak.curvature.tolist(),
        "basin": None if peak.basin is None else [np.asarray(e).tolist() for e in peak.basin],
        "at_bound": peak.at_bound,
    }
    with contextlib.suppress(InputError):  # not every kernel has one
        found["gamma"] = rbf_gamma(peak.kernel)
    return found
