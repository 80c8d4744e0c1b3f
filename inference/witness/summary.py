"""The extremes of a witness function, as plain data and as a table."""

from __future__ import annotations

import math
import string
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from ..core.names import align_columns
from ..diagnostics.modes import Modes
from .bands import CredibleBand, credible_band, weighted_by_chain, within_range

WEIGHTING = {
    "posterior": "modes by posterior mass",
    "chains": "modes by number of draws, not by posterior mass",
}


def witness_summary(witness: xr.DataTree, modes: Modes, level: float) -> dict[str, Any]:
    """Return the extremes of the witness with their pointwise bands, overall and in each mode.

    Extremes are those within the range of the data, if any point is. They are not a test: pointwise
    bands exclude zero somewhere by chance; use ``compare`` for regions of difference. ``overall``
    weights modes as the witness does and leaves stuck chains out; ``by_chain`` gives all chains the
    same weight, as BKE Figure 5 (C), and is included if it differs.
    """
    points, witness = witness.sizes["point"], within_range(witness)
    dataset = witness.to_dataset()
    at, labels = dataset["at"], dataset["mode"].values
    per_mode: list[dict[str, Any]] = []
    for mode in range(len(modes.modes)):
        summary: dict[str, Any] = {"mode": mode + 1, "draws": int(np.sum(labels == mode))}
        if summary["draws"]:
            summary |= _extremes(credible_band(witness, level, mode), at)
        per_mode.append(summary)
    overall = credible_band(witness, level)
    by_chain = {}
    several = sum(part["draws"] > 0 for part in per_mode) > 1
    if several and not witness.attrs["independent"] and witness.attrs["weights"] == "posterior":
        by_chain = {"by_chain": _extremes(credible_band(weighted_by_chain(witness), level), at)}
    return {
        "level": level,
        "noise": witness.attrs["noise"],
        "seed": witness.attrs["seed"],
        "thinning": thinning_note(witness),
        "sizes": witness.attrs["sizes"],
        "points": points,
        "modes": per_mode,
        "overall": {
            "weighting": WEIGHTING[witness.attrs["weights"]],
            "draws": overall.draws,
            **_extremes(overall, at),
        },
        **by_chain,
    }


def thinning_note(witness: xr.DataTree) -> str:
    """Return a sentence that says at how many distinct lengthscales a witness was drawn."""
    sizes, thin = witness["witness"].sizes, witness.attrs["thin"]
    draws, lengthscales = sizes["chain"] * sizes["draw"], int(witness.attrs["num_lengthscales"])
    note = f"The {draws} draws of the witness are at {lengthscales} distinct lengthscales"
    if thin == "auto" and lengthscales < draws:
        return (
            f"{note}, as many of each mode as keep the ends of a band within 5 % of its width; at "
            "those of all posterior draws: thin=1."
        )
    return f"{note}." if thin in ("auto", 1) else f"{note}, of one in {thin} posterior draws."


def _extremes(band: CredibleBand, at: xr.DataArray) -> dict[str, Any]:
    """Return the largest and the smallest mean with their points and the pointwise band there."""
    points = at.transpose("point", "column").values
    names = [str(name) for name in at["column"].values]
    return {
        name: {
            "mean": float(band.mean[index]),
            "lower": float(band.lower[index]),
            "upper": float(band.upper[index]),
            "at": dict(zip(names, points[index].tolist(), strict=True)),
        }
        for name, index in (
            ("largest", int(band.mean.argmax())),
            ("smallest", int(band.mean.argmin())),
        )
    }


def brief_witness(
    witness: Mapping[str, Any], names: Sequence[str], samples: tuple[str, str]
) -> list[str]:
    """List the extremes of the witness in each mode and over the modes.

    Args:
        witness: summary, see :func:`witness_summary`.
        names: names of the modes.
        samples: names of the two samples.
    """
    level = f"{100 * witness['level']:g} % band"
    parts = [
        (name.partition(" (mode ")[0], part)
        for name, part in zip(names, witness["modes"], strict=True)
        if part["draws"]
    ]
    if len(witness["modes"]) > 1:
        overall = witness["overall"]
        by_mass = overall["weighting"].endswith("by posterior mass")
        last = string.ascii_uppercase[len(parts)] if parts[0][0].startswith("A: ") else "all modes"
        parts.append((f"{last}: by {'mass' if by_mass else 'chain'}", overall))
        if "by_chain" in witness:
            parts.append((f"{last}: by chain", witness["by_chain"]))
    title = f"Witness {' - '.join(samples)}: largest and smallest posterior mean ({level})"
    rows: list[list[str]] = []
    for name, part in parts:
        row = [_extreme(part[end]) for end in ("largest", "smallest")]
        same = next((other for other in rows if other[1:] == row), None)
        if same is None or not name.endswith(": by mass") or name.startswith("all"):
            rows.append([name, *row])
        else:  # practically all of the mass is in one mode
            same[0] = f"{same[0][0]}, {name}"
    return [title, *align_columns(rows)]


def _extreme(extreme: Mapping[str, Any]) -> str:
    """Format a mean to two digits, its point, and its band to the same decimals."""
    mean, at = extreme["mean"], list(extreme["at"].values())
    decimals = max(0, 1 - math.floor(math.log10(abs(mean)))) if mean else 2
    point = ", ".join(f"{value:.2g}" for value in at)
    point = f"({point})" if len(at) > 1 else point
    ends = (mean, extreme["lower"], extreme["upper"])
    values = (f"{round(value, decimals) + 0.0:.{decimals}f}" for value in ends)  # no "-0.000"
    return "{} at {point} ({}, {})".format(*values, point=point)
