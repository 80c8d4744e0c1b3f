"""What a run found as plain data: the JSON summary, from which the terminal's text is printed."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import xarray as xr

from ..core.machine import computing
from ..data.units import Units
from ..data.weighted import weighted_quantiles
from ..diagnostics.diagnosis import Diagnosis
from ..diagnostics.integral import integral_group
from ..diagnostics.modes import Modes, draw_weights, unconstrained_shapes
from ..sampling.open_run import open_run
from ..sampling.record import FUNCTION, likelihood_record, read_record
from ..sampling.run import in_data_units, rows_of, units_of
from ..sampling.samplers import SAMPLERS
from ..sampling.target import unflatten
from ..witness.bands import CredibleBand, credible_band, weighted_by_chain, within_range

QUANTILES = (0.1, 0.5, 0.9)
WEIGHTING = {
    "posterior": "modes by posterior mass",
    "chains": "modes by number of draws, not by posterior mass",
}


def run_summary(run: xr.DataTree, diagnosis: Diagnosis) -> dict[str, Any]:
    """Settings, versions, diagnosis and per-mode posterior of a run of ``fit``."""
    return {
        "settings": settings(run),
        "versions": read_record(run.attrs)["packages"],
        "diagnosis": diagnosis.summary(),
        "posterior": posterior_summary(run, diagnosis.modes),
    }


def _not_learned(kernel: Mapping[str, Any], prior: Mapping[str, Any]) -> dict[str, Any]:
    """A kernel's record without what was learned, of which the template's value says nothing."""
    left = {name: value for name, value in kernel.items() if name not in prior}
    if left["type"] == FUNCTION:
        left["parameters"] = {k: v for k, v in left["parameters"].items() if k not in prior}
    return left


#: What samplers record of themselves.
SAMPLER_SETTINGS = tuple(
    dict.fromkeys(field.name for kind in SAMPLERS.values() for field in dataclasses.fields(kind))
)


def settings(run: xr.DataTree) -> dict[str, Any]:
    """What the run was made with, from its attributes; scale and dither by column."""
    units = units_of(run)
    record = read_record(run.attrs)
    model = record["model"]
    seen = "constant_data" in run.children
    options = {k: v for k, v in likelihood_record(record).items() if k != "likelihood"}
    return {
        "kernel": _not_learned(model["kernel"], model["prior"]),
        **{name: model[name] for name in ("prior", "noise_variance", "measure", "likelihood")},
        **{name: record[name] for name in ("method", "seed")},
        **{
            name: record[name]
            for name in ("chosen", "samples", *SAMPLER_SETTINGS)
            if name in record
        },
        **({"rank": options["rank"]} if "rank" in options else {}),
        **({"likelihood_options": options} if options else {}),
        **({"landmarks": run["constant_data"].sizes["landmark"]} if seen else {}),
        "rows": rows_of(run),
        "columns": list(units.columns),
        "scale": dict(zip(units.columns, units.scale.tolist(), strict=True)),
        "dither": dict(zip(units.columns, units.dither.tolist(), strict=True)),
        "dither_seed": units.dither_seed,
        "data_sha256": record["data_sha256"],
    }


def rounding_notes(run: xr.DataTree) -> list[str]:
    """What was added to rounded columns, in a sentence; nothing where nothing was."""
    return notes_on_units(units_of(run))


def notes_on_units(units: Units) -> list[str]:
    """What :func:`rounding_notes` says, of units."""
    dithered = [
        f"{name} in units of {unit:.4g}"
        for name, unit in zip(units.columns, units.dither, strict=True)
        if unit
    ]
    if not dithered:
        return []
    return [
        f"Rounded data: {', '.join(dithered)}. Uniform noise within the unit was added (seed "
        f"{units.dither_seed}), since balanced neighbours make the density exactly zero."
    ]


def posterior_summary(run: xr.DataTree, modes: Modes) -> dict[str, Any]:
    """Mean, sd and quantiles of every hyperparameter, in the units of the data.

    ``modes``: in each mode, counted from 1 as in the printed diagnosis; draws of stuck chains are
    in none. ``overall``: weighted by posterior mass, or ``None`` where the masses of several
    modes are not known.
    """
    of_draws = np.array(modes.of_draws)
    of_draws[list(modes.stuck)] = -1
    summaries = []
    for mode in range(len(modes.modes)):
        inside = of_draws == mode
        summaries.append(
            {
                "mode": mode + 1,
                "draws": int(inside.sum()),
                "hyperparameters": _parameters(run, inside.astype(float)) if inside.any() else {},
            }
        )
    weights = None
    if modes.covered if modes.has_masses else len(modes.modes) == 1:
        weights = draw_weights(run, modes, "posterior" if modes.has_masses else "chains")
    overall = None
    weighing = integral_group(run)
    if weighing is not None and "weight" in run[weighing]:
        overall = _of_nodes(run, weighing)
    elif weights is not None:
        overall = _parameters(run, weights)
    return {"modes": summaries, "overall": overall}


def _of_nodes(run: xr.DataTree, group: str) -> dict[str, dict[str, float]]:
    """Summary of the nodes in a group, which do not depend on how well chains mixed."""
    opened = open_run(run)
    nodes = run[group].to_dataset()
    with computing():
        z = unflatten(nodes["unconstrained"].values[None], unconstrained_shapes(run))
        values = in_data_units(opened.target, opened.units, z)
    return {
        name: _statistics(entries[0], nodes["weight"].values)
        for variable in values.data_vars.values()
        for name, entries in _entries(variable)
    }


def _parameters(run: xr.DataTree, weights: np.ndarray) -> dict[str, dict[str, float]]:
    return {
        name: _statistics(values[weights > 0], weights[weights > 0])
        for variable in run["posterior"].data_vars.values()
        for name, values in _entries(variable)
    }


def _entries(variable: xr.DataArray) -> Iterator[tuple[str, np.ndarray]]:
    """Each scalar of a hyperparameter as ``name`` or ``name[column]`` with its (chain, draw)."""
    extra = [str(dim) for dim in variable.dims if dim not in ("chain", "draw")]
    ordered = variable.transpose("chain", "draw", *extra)
    for index in np.ndindex(*(variable.sizes[dim] for dim in extra)):
        labels = [
            str(variable[dim].values[at]) if dim in variable.coords else str(at)
            for dim, at in zip(extra, index, strict=True)
        ]
        suffix = f"[{', '.join(labels)}]" if labels else ""
        yield f"{variable.name}{suffix}", ordered.values[(..., *index)]


def _statistics(draws: np.ndarray, weights: np.ndarray) -> dict[str, float]:
    weights = weights / weights.sum()
    mean = float(weights @ draws)
    deviation = math.sqrt(weights @ (draws - mean) ** 2) if len(draws) > 1 else math.nan
    quantiles = weighted_quantiles(draws, weights, QUANTILES)
    return {
        "mean": mean,
        "sd": deviation,
        **{f"q{100 * q:.0f}": float(v) for q, v in zip(QUANTILES, quantiles, strict=True)},
    }


def witness_summary(witness: xr.DataTree, modes: Modes, level: float) -> dict[str, Any]:
    """Return the extremes of the witness with their pointwise bands, overall and in each mode.

    Extremes are those within the range of the data, if any point is. They are no claim: somewhere
    such bands exclude zero by chance, and ``compare`` names regions. ``overall`` weights modes as
    the witness does and leaves stuck chains out; ``by_chain`` gives all chains the same weight, as
    BKE Figure 5 (C), and is there if that differs.
    """
    points, witness = witness.sizes["point"], within_range(witness)
    dataset = witness.to_dataset()
    at, labels = dataset["at"], dataset["mode"].values
    per_mode: list[dict[str, Any]] = []
    for mode in range(len(modes.modes)):
        found: dict[str, Any] = {"mode": mode + 1, "draws": int(np.sum(labels == mode))}
        if found["draws"]:
            found |= _extremes(credible_band(witness, level, mode), at)
        per_mode.append(found)
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
            "those of all posterior draws: thin=1 (--thin 1)."
        )
    return f"{note}." if thin in ("auto", 1) else f"{note}, of one in {thin} posterior draws."


def _extremes(found: CredibleBand, at: xr.DataArray) -> dict[str, Any]:
    """The largest and the smallest mean, where they are, and the pointwise band there."""
    places = at.transpose("point", "column").values
    names = [str(name) for name in at["column"].values]
    return {
        name: {
            "mean": float(found.mean[there]),
            "lower": float(found.lower[there]),
            "upper": float(found.upper[there]),
            "at": dict(zip(names, places[there].tolist(), strict=True)),
        }
        for name, there in (
            ("largest", int(found.mean.argmax())),
            ("smallest", int(found.mean.argmin())),
        )
    }


def plain(value: Any) -> Any:
    """``value`` as what JSON can hold: no arrays, and ``None`` for numbers that are not finite."""
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, (str, int, bool, type(None))) else str(value)


def to_json(summary: Mapping[str, Any]) -> str:
    """``summary`` as JSON text."""
    text = json.dumps(plain(summary), indent=2, allow_nan=False, ensure_ascii=False)
    # Names of files may hold bytes that are no text.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
