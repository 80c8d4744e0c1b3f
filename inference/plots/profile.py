"""Plot of the posterior density of a single hyperparameter with its modes and chains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.interpolate import CubicSpline

from ..core.errors import InputError
from ..diagnostics.modes import Modes, find_modes, format_chains
from ..sampling.foreign import ModelArguments
from ..sampling.open_run import Run, open_run
from ..sampling.samplers import is_independent
from .style import SMALL, log_scale, mode_color, panels, plain, site_components

#: Smallest range of the log density that is drawn, in nats below the maximum.
LEAST_DEPTH = 40.0
#: Color of the smoothed density; the density itself is nearly black.
SMOOTHED = "0.55"
#: Points of the drawn curve per step of the grid.
FINER = 8


def plot_profile(
    run: Run, *, axes: Sequence[Axes] | None = None, **model: Unpack[ModelArguments]
) -> Figure:
    """Plot the log posterior density of a single hyperparameter, also smoothed, and its prior.

    Densities are those of the unconstrained coordinate (log lengthscale). Dips of the density are
    its zeros; modes are those of the smoothed density. Both curves are relative to their maxima.
    Ticks show the median of each chain, in the color of its mode, gray for stuck chains; other
    methods have no chains.

    Args:
        run: result of :func:`~bke.inference.fit`, open or not, or draws of another program, with
            one scalar hyperparameter.
        axes: axes for the profile and for the prior; by default those of a new figure.
        **model: model of draws of another program, see :func:`~bke.inference.open_run`.

    Raises:
        InputError: if the run has several hyperparameters.
    """
    opened = open_run(run, **model)
    run, modes = opened.tree, find_modes(opened)
    if "profile" not in run.children:
        count = len(site_components(run, "posterior", None))
        raise InputError(
            f"plot_profile needs a run of one hyperparameter, and this one has {count}: see "
            "plot_trace and plot_rank instead"
        )
    profile = run["profile"].to_dataset()
    name = str(profile.attrs["site"])
    grid = profile["unconstrained"].values
    values, label = _axis_values(run, profile)
    smoothed = profile["smoothed"].values
    centers = np.median(run["unconstrained_posterior"].to_dataset()[name].values, axis=1)
    locations = _locations(profile, modes)
    tops = [int(np.argmin(np.abs(grid - location))) for location in locations]
    highest = max(smoothed[top] for top in tops)
    low = _bottom(grid, smoothed - highest, tops, centers, modes)
    indices = _range(grid, smoothed - highest, low, centers, modes)

    figure, (ax, below) = panels(
        2, 1, axes, width=7.5, height=5.0, sharex=True, height_ratios=[3.5, 1]
    )
    # Each relative to its own maximum: with many rows the smoothed one is much lower.
    at, raw = _raw(run, grid, profile["log_density"].values)
    raw -= np.nanmax(raw)
    ax.plot(np.interp(at, grid, values), raw, color="0.1", linewidth=1.0, label="density")
    # With many rows a peak may be as narrow as a few steps of the grid.
    steps = np.arange(len(grid))
    fine = np.interp(np.linspace(0, steps[-1], FINER * steps[-1] + 1), steps, grid)
    curve = CubicSpline(grid, smoothed - highest)
    ax.plot(
        np.interp(fine, grid, values), curve(fine), color=SMOOTHED, linewidth=1.6, linestyle="--",
        label="smoothed over its dips, which defines the modes", zorder=1.5,
    )  # fmt: skip
    if not is_independent(run.attrs):
        _mark_chains(ax, np.interp(centers, grid, values), values[indices], modes)
    _mark_modes(
        ax,
        np.interp(locations, grid, values),
        np.fmax(curve(locations), np.interp(locations, at, raw)),
    )
    ax.set_ylim(low - 0.12 * abs(low), 0.2 * abs(low))
    ax.set_ylabel(f"log posterior density of\nlog {name} (maximum 0)")
    ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=3, fontsize=SMALL, frameon=False)
    plain(ax)

    below.fill_between(values, np.exp(profile["log_prior"].values), color="0.8", linewidth=0)
    below.set_ylabel(f"prior density\nof log {name}")
    below.set_ylim(bottom=0)
    below.set_xlabel(label)
    plain(below)
    for panel in (ax, below):
        log_scale(panel, "x", values[indices], wider_than=1.0)
        panel.set_xlim(values[indices][0], values[indices][-1])
    ax.tick_params(labelbottom=False)
    return figure


def _mark_modes(ax: Axes, at: np.ndarray, heights: np.ndarray) -> None:
    for index, (x, height) in enumerate(zip(at, heights, strict=True)):
        ax.plot(x, height, "o", color=mode_color(index), markersize=6, zorder=4)
        ax.annotate(
            f"mode {index + 1}\n{x:.3g}",
            (x, height),
            xytext=(0, 7),
            textcoords="offset points",
            ha="center",
            color=mode_color(index),
            fontsize=SMALL,
        )


def _raw(run: xr.DataTree, grid: np.ndarray, density: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the log density on the grid and at the nodes of quadrature, denser at peaks."""
    at, raw = grid, density
    if "quadrature" in run.children:
        nodes = run["quadrature"].to_dataset()
        at, first = np.unique(
            np.concatenate([grid, nodes["unconstrained"].values.ravel()]), return_index=True
        )
        raw = np.concatenate([density, nodes["log_density"].values])[first]
    return at, np.where(np.isfinite(raw), raw, np.nan)


def _axis_values(run: xr.DataTree, profile: xr.Dataset) -> tuple[np.ndarray, str]:
    """Return the hyperparameter on the grid, in the units of the data if it is scalar there."""
    in_data_units = profile["value_in_data_units"].values
    if in_data_units.ndim == 1:
        return in_data_units, next(iter(site_components(run, "posterior", None)))
    return profile["value"].values, f"{profile.attrs['site']}, over the scale of each column"


def _locations(profile: xr.Dataset, modes: Modes) -> np.ndarray:
    """Return the location of every mode, (k,), in the coordinate of the grid."""
    values = profile["value_in_data_units"].values.reshape(profile.sizes["grid"], -1)[:, 0]
    locations = [np.ravel(mode.location[profile.attrs["site"]])[0] for mode in modes.modes]
    return np.interp(locations, values, profile["unconstrained"].values)


def _bottom(
    grid: np.ndarray, height: np.ndarray, tops: list[int], centers: np.ndarray, modes: Modes
) -> float:
    """Return the lower limit of the axis, below the modes, their barriers and the chains."""
    low = min(-LEAST_DEPTH, float(height[min(tops) : max(tops) + 1].min()))
    of_chains = np.interp(centers, grid, height)
    stuck = np.isin(np.arange(len(centers)), modes.stuck)
    low = min([low, *of_chains[~stuck]])
    # A chain stuck much further down would flatten the modes; its tick shows where it is.
    return float(max(2 * low, min([low, *of_chains[stuck]])))


def _range(
    grid: np.ndarray, height: np.ndarray, low: float, centers: np.ndarray, modes: Modes
) -> np.ndarray:
    """Return grid indices from the first to the last that is high enough or near a chain.

    A stuck chain far away would leave most of the plot blank: it is named at the border.
    """
    high = np.flatnonzero(height > low - 0.12 * abs(low))
    stuck = np.isin(np.arange(len(centers)), modes.stuck)
    reach = 0.5 * (grid[high[-1]] - grid[high[0]])
    near = (centers > grid[high[0]] - reach) & (centers < grid[high[-1]] + reach)
    visible = centers[near | ~stuck]
    chains = (
        np.searchsorted(grid, [visible.min() - 0.1, visible.max() + 0.1]) if len(visible) else high
    )
    start, stop = min(high[0], chains[0]), max(high[-1], chains[-1])
    return np.arange(start, min(stop, len(grid) - 1) + 1)


def _mark_chains(ax: Axes, at: np.ndarray, axis_values: np.ndarray, modes: Modes) -> None:
    low, high = axis_values[0], axis_values[-1]
    for side, x, outside in (("left", 0.01, at < low), ("right", 0.99, at > high)):
        if outside.any():
            arrow = "\N{LEFTWARDS ARROW}" if side == "left" else "\N{RIGHTWARDS ARROW}"
            medians = ", ".join(f"{value:.2g}" for value in at[outside])
            text = f"{format_chains(np.flatnonzero(outside))} at {medians}"
            ax.text(
                x,
                0.12,
                f"{arrow} {text}" if side == "left" else f"{text} {arrow}",
                transform=ax.transAxes,
                ha=side,
                fontsize=SMALL,
                color=mode_color(-1),
            )
    for chain, value in enumerate(at):
        stuck = chain in modes.stuck
        ax.axvline(
            value,
            0.0,
            0.1,
            color=mode_color(-1 if stuck else int(modes.of_chains[chain])),
            linewidth=1.6,
            zorder=3,
        )
    label = "chains (gray: stuck)" if modes.stuck else "chains"
    ax.plot([], [], "|", color="0.4", markersize=9, markeredgewidth=1.6, label=label)
