"""Runs of approximate Bayesian computation in words, as plain data and as a table of draws."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import xarray as xr

from ..likelihood_free.results import parameter_draws, posterior_table
from ..sampling.record import read_record


def abc_text(run: xr.DataTree) -> str:
    """What was done, in a sentence, and the posterior as a table."""
    found = abc_summary(run)
    stopped = f"; stopped because {found['stopped']}" if "stopped" in found else ""
    table = posterior_table(run).to_string(index=False, float_format=lambda value: f"{value:.4g}")
    return (
        f"{found['simulations']} simulations, {found['failed']} of them failed; kernel "
        f"{found['kernel']}, estimator {found['estimator']}{stopped}\n{table}"
    )


def abc_summary(run: xr.DataTree) -> dict[str, Any]:
    """Method, distance, simulations and the posterior at every epsilon."""
    attrs = run.attrs
    distance = read_record(attrs)["distance"]
    lines = [
        {str(k): None if isinstance(v, float) and np.isnan(v) else v for k, v in line.items()}
        for line in posterior_table(run).to_dict("records")
    ]
    return {
        "method": attrs["method"],
        "kernel": distance["kernel_in_words"],
        "estimator": distance["estimator"],
        "simulations": int(attrs["simulations"]),
        "failed": int(attrs["failed"]),
        "failures": json.loads(attrs["failures"]),
        "seed": int(attrs["seed"]),
        **({"stopped": attrs["stopped"]} if "stopped" in attrs else {}),
        "posterior": lines,
    }


def weighted_draws(run: xr.DataTree) -> tuple[list[str], np.ndarray]:
    """All draws with their distances, and their weights at every epsilon: names and columns."""
    draws = parameter_draws(run)
    stats = run["sample_stats"].to_dataset()
    header = [
        *draws,
        "squared_distance",
        *(f"weight at {value:.6g}" for value in stats["epsilon"].values),
    ]
    parts = [
        *(values.ravel() for values in draws.values()),
        stats["squared_distance"].values[0],
        *stats["weight"].values[0].T,
    ]
    return header, np.column_stack(parts)
