"""The report of a run in at most twenty lines: diagnosis, masses and extremes of the witness."""

from __future__ import annotations

import math
import string
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from scipy.signal import find_peaks

from ..core.machine import computing
from ..diagnostics.diagnosis import Diagnosis, format_mass
from ..diagnostics.modes import (
    Modes,
    format_chains,
    scalar_values,
    unconstrained_draws,
    unconstrained_shapes,
)
from ..plots.names import figure5_names
from ..sampling.open_run import open_run
from ..sampling.run import in_data_units
from ..sampling.target import unflatten

#: Topics of a verdict that the table of modes and the lines below it have.
IN_TABLE = ("modes", "weighting", "mass", "stuck", "zeros")


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
        run: with one hyperparameter.
        modes: of the run.
        points: number of points of both grids. Not tuned.
        depth: in nats; that of a zero is about ``log(points)``.
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
        diagnosis: of the run.
        summary: the run's, see :func:`~bke.inference.report.words.run_summary`.
        names: of the modes.
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
        length = f"{settings['num_warmup']} warmup + {settings['num_samples']} draws each"
        lines = [f"Posterior of the {parameters} by {count}, {length}:"]
    lines += _table(_mode_rows(diagnosis, summary["posterior"], names))
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
        for name, places in zip(names, zeros, strict=False):
            if places:
                where = " and ".join(f"{place:.3g}" for place in places)
                if len(places) > 3:
                    where = f"{len(places)} places from {places[0]:.3g} to {places[-1]:.3g}"
                mode = name.rpartition(": ")[2]
                whose = mode if mode.startswith("mode") else f"the {mode}"
                lines.append(f"Zeros of the density at {where} divide {whose}.")
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
        for site, found in values.items():
            spread = f" ({found['sd']:.2g})" if "sd" in found else ""
            label = f"{site} {found['mean']:.3g}" if len(values) > 1 else f"{found['mean']:.3g}"
            rows.append([start[0], f"{label}{spread}", *start[1:]])
            start = [""] * len(start)
    return rows


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Align the columns of a table, the first to the left, two blanks between columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  "
        + "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def brief_witness(
    witness: Mapping[str, Any], names: Sequence[str], samples: tuple[str, str]
) -> list[str]:
    """List the extremes of the witness in each mode and over the modes.

    Args:
        witness: summary, see :func:`~bke.inference.report.words.witness_summary`.
        names: of the modes.
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
    return [title, *_table(rows)]


def _extreme(found: Mapping[str, Any]) -> str:
    """Format a mean to two digits, its place, and its band to the same decimals."""
    mean, at = found["mean"], list(found["at"].values())
    decimals = max(0, 1 - math.floor(math.log10(abs(mean)))) if mean else 2
    place = ", ".join(f"{value:.2g}" for value in at)
    place = f"({place})" if len(at) > 1 else place
    ends = (mean, found["lower"], found["upper"])
    values = (f"{round(value, decimals) + 0.0:.{decimals}f}" for value in ends)  # no "-0.000"
    return "{} at {place} ({}, {})".format(*values, place=place)
