"""Densities of rows, how typical they are, and the parameters behind them, as plain data."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from ..learning.kernel_selection import format_kernel
from ..student_t.learning import LearnedStudentT
from ..student_t.sampling import student_t_predictive


class Densities(NamedTuple):
    """Log density and typicality of each row, (m,), and notes on them."""

    log_density: np.ndarray
    typicality: np.ndarray
    notes: list[str]


def densities(
    learned: LearnedStudentT, run: xr.DataTree | None, rows: np.ndarray, *, among: bool
) -> Densities:
    """The densities of ``rows``, (m, D).

    Args:
        learned: the density.
        run: the posterior of its hyperparameters, over which it is averaged then.
        rows: in the units of the data.
        among: they are the rows that it was learned from, each compared with the others.
    """
    values = learned.log_density(rows)
    notes = [] if run is None else json.loads(run.attrs["notes"])
    if run is not None:
        with np.errstate(divide="ignore"):
            values = np.log(student_t_predictive(run, rows).mean(axis=0))
    typicality = learned.typicality(None if among else rows)
    return Densities(values, typicality, [*notes, *_outside(learned, rows)])


def _outside(learned: LearnedStudentT, rows: np.ndarray) -> list[str]:
    """How many rows have no density, in a sentence."""
    found = learned.normalizer
    outside = 0 if found is None else int(np.sum(~found.contains(rows)))
    if found is None or not outside:
        return []
    ends = zip(found.low, found.high, strict=True)
    box = " x ".join(f"[{low:.4g}, {high:.4g}]" for low, high in ends)
    return [f"{outside} row(s) are outside the box {box}: their density is 0."]


def density_summary(
    learned: LearnedStudentT, run: xr.DataTree | None, found: Densities
) -> dict[str, Any]:
    """Parameters of the density, and what it says of the rows."""
    density = learned.density
    told: dict[str, Any] = {"kernel": format_kernel(density.kernel)}
    told |= {name: float(getattr(density, name)) for name in ("noise_variance", "alpha", "beta")}
    told["normalised"] = learned.normalizer is not None
    told["log_density"] = [None if np.isneginf(one) else float(one) for one in found.log_density]
    told["typicality"] = found.typicality.tolist()
    if run is not None:
        told["posterior"] = {
            str(name): {"mean": float(one.mean()), "sd": float(one.std())}
            for name, one in run["posterior"].data_vars.items()
        }
    return told
