"""The posterior and diagnosis of a run, as plain data and as a report of about ten lines."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from scipy.signal import find_peaks

from ..core.machine import computing
from ..core.names import align_columns
from ..data.units import Units
from ..data.weighted import weighted_quantiles
from ..sampling.open_run import open_run
from ..sampling.record import FUNCTION, likelihood_record, read_record
from ..sampling.run import in_data_units, rows_of, units_of
from ..sampling.samplers import SAMPLERS
from ..sampling.target import unflatten
from .diagnosis import Diagnosis, format_mass
from .integral import integral_group
from .modes import (
    Modes,
    draw_weights,
    figure5_names,
    format_chains,
    scalar_values,
    unconstrained_draws,
    unconstrained_shapes,
)

QUANTILES = (0.1, 0.5, 0.9)
#: Options of samplers in the record of a run.
SAMPLER_SETTINGS = tuple(
    dict.fromkeys(field.name for kind in SAMPLERS.values() for field in dataclasses.fields(kind))
)
#: Topics of a verdict that the table of modes and the lines below it have.
IN_TABLE = ("modes", "weighting", "mass", "stuck", "zeros")


def run_summary(run: xr.DataTree, diagnosis: Diagnosis) -> dict[str, Any]:
    """Settings, versions, diagnosis and per-mode posterior of a run of ``fit``."""
    return {
        "settings": settings(run),
        "versions": read_record(run.attrs)["packages"],
        "diagnosis": diagnosis.summary(),
        "posterior": posterior_summary(run, diagnosis.modes),
    }


def settings(run: xr.DataTree) -> dict[str, Any]:
    """Return the settings of a run from its attributes, with scale and dither by column."""
    units = units_of(run)
    record = read_record(run.attrs)
    model = record["model"]
    has_landmarks = "constant_data" in run.children
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
        **({"landmarks": run["constant_data"].sizes["landmark"]} if has_landmarks else {}),
        "rows": rows_of(run),
        "columns": list(units.columns),
        "scale": dict(zip(units.columns, units.scale.tolist(), strict=True)),
        "dither": dict(zip(units.columns, units.dither.tolist(), strict=True)),
        "dither_seed": units.dither_seed,
        "data_sha256": record["data_sha256"],
    }


def _not_learned(kernel: Mapping[str, Any], prior: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of a kernel without learned parameters, whose values are placeholders."""
    left = {name: value for name, value in kernel.items() if name not in prior}
    if left["type"] == FUNCTION:
        left["parameters"] = {k: v for k, v in left["parameters"].items() if k not in prior}
    return left


def rounding_notes(run: xr.DataTree) -> list[str]:
    """Return a sentence on the noise that was added to rounded columns, if any."""
    return notes_on_units(units_of(run))


def notes_on_units(units: Units) -> list[str]:
    """Return the sentence of :func:`rounding_notes` for units."""
    dithered = [
        f"{name} in units of {unit:.4g}"
        for name, unit in zip(units.columns, units.dither, strict=True)
        if unit
    ]
    if not dithered:
        return []
    return [
        f"Rounded data: {', '.join(dithered)}. Uniform noise within the unit was added (seed "
        f"{units.dither_seed}), since balanced neighbors make the density exactly zero."
    ]


def posterior_summary(run: xr.DataTree, modes: Modes) -> dict[str, Any]:
    """Return mean, sd and quantiles of every hyperparameter, in the units of the data.

    ``modes`` has the statistics of each mode, numbered from 1 as in the printed diagnosis, without
    draws of stuck chains. ``overall`` has those of all modes weighted by posterior mass, or
    ``None`` if the masses of several modes are unknown.
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
    group = integral_group(run)
    if group is not None and "weight" in run[group]:
        overall = _node_statistics(run, group)
    elif weights is not None:
        overall = _parameters(run, weights)
    return {"modes": summaries, "overall": overall}


def _node_statistics(run: xr.DataTree, group: str) -> dict[str, dict[str, float]]:
    """Return statistics of the weighted nodes in a group, which do not depend on mixing."""
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
    """Yield each scalar of a hyperparameter as ``name`` or ``name[column]``, (chain, draw)."""
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


def mode_names(modes: Modes, *, as_figure5: bool = False) -> list[str]:
    """Return the names of the modes in reports: ``mode 1``, or those of BKE Figure 5.

    Args:
        modes: the modes.
        as_figure5: name the modes with draws ``A: short mode`` and ``B: long mode``; with other
            numbers of them ``A: mode 1`` and so on.
    """
    names = [f"mode {index}" for index in range(1, len(modes.modes) + 1)]
    with_draws = [index for index, mode in enumerate(modes.modes) if mode.draws]
    letters = figure5_names(with_draws) if as_figure5 else {}
    return [letters.get(index, name) for index, name in enumerate(names)]


def zeros_of_density(
    run: xr.DataTree, modes: Modes, *, points: int = 200, depth: float = 3.0
) -> list[list[float]]:
    """Locate the zeros of the density in each mode, in the units of the data.

    Only the range of the central 99 % of the draws of each mode is searched, without stuck chains.
    With one column the Jacobian factor is zero at some lengthscales; a chain crosses such a zero
    only by a step over it. At a zero the minimum of the log density on a finer grid, between the
    two neighbors of a local minimum, is lower than at both by ``depth``.

    Args:
        run: run with one hyperparameter.
        modes: modes of the run.
        points: number of points of both grids. Not tuned.
        depth: smallest depth in nats; that of a zero is about ``log(points)``.
    """
    opened = open_run(run)
    ((name, shape),) = unconstrained_shapes(run).items()
    z, moving = unconstrained_draws(run)[..., 0], np.ones(len(modes.of_draws), dtype=bool)
    moving[list(modes.stuck)] = False
    zeros_of_modes: list[list[float]] = []
    for index in range(len(modes.modes)):
        inside = z[(modes.of_draws == index) & moving[:, None]]
        if len(inside) < 2:
            zeros_of_modes.append([])
            continue
        low, high = np.quantile(inside, [0.005, 0.995])
        grid = np.linspace(low, high, points)
        density = opened.log_density({name: grid.reshape(-1, *shape)})
        zeros: list[float] = []
        for dip in find_peaks(-density, prominence=0.5)[0]:
            finer = np.linspace(grid[dip - 1], grid[dip + 1], points)
            values = opened.log_density({name: finer.reshape(-1, *shape)})
            if values[[0, -1]].min() - values.min() >= depth:
                zeros.append(finer[values.argmin()])
        with computing():
            at = unflatten(np.reshape(zeros, (1, -1, 1)), {name: shape})
            dataset = in_data_units(opened.target, opened.units, at) if zeros else None
        zeros_of_modes.append([] if dataset is None else dataset[name].values.ravel().tolist())
    return zeros_of_modes


def brief_diagnosis(
    diagnosis: Diagnosis,
    summary: Mapping[str, Any],
    names: Sequence[str],
    zeros: Sequence[Sequence[float]] = (),
) -> list[str]:
    """Describe draws, modes and convergence in about eight lines.

    Args:
        diagnosis: diagnosis of the run.
        summary: summary of the run, see :func:`run_summary`.
        names: names of the modes.
        zeros: zeros of the density in each mode, see :func:`zeros_of_density`.
    """
    modes, overall = diagnosis.modes, diagnosis.convergence
    settings = summary["settings"]
    parameters = ", ".join(settings["prior"])
    if overall is None:
        method = f"{diagnosis.method} (auto)" if diagnosis.chosen else diagnosis.method
        lines = [f"Posterior of the {parameters} by {method}; --method nuts runs chains."]
    else:
        count = f"{len(overall.chains)} chains of {diagnosis.method.upper()}"
        warmup = f"{settings['num_warmup']} warmup + " if "num_warmup" in settings else ""
        length = f"{warmup}{diagnosis.num_draws // len(overall.chains)} draws each"
        lines = [f"Posterior of the {parameters} by {count}, {length}:"]
    lines += align_columns(_mode_rows(diagnosis, summary["posterior"], names))
    known: tuple[str, ...] = ()
    if overall is not None and diagnosis.multimodal:
        crossed = "none moved between modes"
        if modes.crossings:
            crossed = f"{modes.crossings} moves between modes"
        lines.append(
            f"All chains: {overall.rhat_text}, bulk ESS {math.floor(overall.ess_bulk)}; "
            f"{crossed}: do not pool."
        )
        if modes.stuck:
            lines.append(f"Stuck at a far lower density, left out: {format_chains(modes.stuck)}.")
        for name, zeros_of_mode in zip(names, zeros, strict=False):
            if zeros_of_mode:
                at = " and ".join(f"{zero:.3g}" for zero in zeros_of_mode)
                if len(zeros_of_mode) > 3:
                    first, last = zeros_of_mode[0], zeros_of_mode[-1]
                    at = f"{len(zeros_of_mode)} points from {first:.3g} to {last:.3g}"
                mode = name.rpartition(": ")[2]
                subject = mode if mode.startswith("mode") else f"the {mode}"
                lines.append(f"Zeros of the density at {at} divide {subject}.")
        known = IN_TABLE
    return [*lines, *(text for topic, text in diagnosis.sentences if topic not in known)]


def _mode_rows(
    diagnosis: Diagnosis, posterior: Mapping[str, Any], names: Sequence[str]
) -> list[list[str]]:
    """Return the header and the rows of the table of modes, one for each hyperparameter."""
    chains = diagnosis.convergence is not None
    header = ["", "mean (sd)", "posterior mass", *(["chains", "R-hat", "bulk ESS"] * chains)]
    rows = [header]
    for name, mode, part, inside in zip(
        names, diagnosis.modes.modes, posterior["modes"], diagnosis.per_mode, strict=True
    ):
        mass = "unknown" if mode.mass is None else format_mass(mode)
        if mode.mass is None and mode.height < 0:
            mass = f"log lower by {-mode.height:.0f}"
        start = [name.replace(" mode (mode ", " (mode "), mass]  # 80 characters in a line
        if chains:
            members = format_chains(mode.chains).removeprefix("chains ").removeprefix("chain ")
            several = inside is not None and len(inside.chains) > 1
            rhat = inside.rhat_text.removeprefix("R-hat ") if inside and several else "-"
            ess = "-" if inside is None else f"{math.floor(inside.ess_bulk)}"
            start += ["stuck" if mode.stuck and not mode.draws else members, rhat, ess]
        values = part["hyperparameters"] or {
            site: {"mean": value} for site, value in scalar_values(mode.location).items()
        }
        for site, statistics in values.items():
            sd = f" ({statistics['sd']:.2g})" if "sd" in statistics else ""
            mean = f"{statistics['mean']:.3g}"
            label = f"{site} {mean}" if len(values) > 1 else mean
            rows.append([start[0], f"{label}{sd}", *start[1:]])
            start = [""] * len(start)
    return rows
