"""Plots of likelihood-free inference: posteriors, effective sample sizes, sequential epsilon."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ..core.errors import InputError, check_choice
from ..data.weighted import weighted_quantiles
from ..likelihood_free.results import (
    MIN_ESS,
    check_run,
    components,
    effective_sample_size,
    log_weights,
    parameter_draws,
)
from .style import MODES, OVERALL, P_COLOR, SHADE, SMALL, log_scale, panels, plain

#: Bars of a histogram.
BARS = 40
#: Probability of the central interval of the prior and of the widest posterior that is plotted.
PROBABILITY = 0.99
MOST_COLUMNS = 3
#: Bandwidths along the line of effective sample sizes.
GRID = 200


def plot_abc(
    run: xr.DataTree,
    parameter: str | None = None,
    *,
    truth: Mapping[str, float] | None = None,
    axes: Axes | Sequence[Axes] | None = None,
) -> Figure:
    """Plot the marginal posterior of every parameter, for every epsilon, over its prior.

    Weighted histograms on common bars; the prior is shaded.

    Args:
        run: result of any function of likelihood-free inference.
        parameter: a parameter, such as ``"a"`` or ``"a[0]"``; by default all.
        truth: true values of parameters, drawn as vertical lines.
        axes: axes of the panels; by default those of a new figure.

    Raises:
        InputError: for another type of run, or an unknown parameter.
    """
    draws = {name: values.ravel() for name, values in parameter_draws(run).items()}
    before = components(run["prior" if "prior" in run.children else "posterior"].to_dataset())
    if parameter is not None:
        check_choice(parameter, "parameter", list(draws))
        draws = {parameter: draws[parameter]}
    unknown = set(truth or ()) - set(draws) - set(before)
    if unknown:
        raise InputError(f"truth is of {sorted(unknown)}, and the parameters are {list(before)}")
    count = len(draws)
    columns = min(count, MOST_COLUMNS)
    rows = -(-count // columns)
    if axes is None:
        figure, panel_axes = panels(
            rows, columns, None, width=0.8 + 3.0 * columns, height=0.6 + 2.4 * rows
        )
        for empty in panel_axes[count:]:
            empty.set_visible(False)
    else:
        figure, panel_axes = panels(1, count, axes, width=0.0, height=0.0)
    weights = _weights(run)
    for ax, (name, values) in zip(panel_axes, draws.items(), strict=False):
        _marginal(ax, values, weights, before[name].ravel())
        if truth is not None and name in truth:
            ax.axvline(truth[name], color=P_COLOR, linewidth=1.0, linestyle="--", label="truth")
        ax.set_xlabel(name)
    handles, labels = panel_axes[0].get_legend_handles_labels()
    panel_axes[0].legend(
        handles,
        labels,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=2,
        fontsize=SMALL,
        frameon=False,
    )
    return figure


def _weights(run: xr.DataTree) -> dict[str, np.ndarray]:
    """Return the weights of all draws, by the label of their posterior."""
    stats = run["sample_stats"].to_dataset()
    if "epsilon" not in stats.coords:
        count = run["posterior"].sizes["chain"] * run["posterior"].sizes["draw"]
        return {run.attrs["method"].replace("_", " "): np.full(count, 1.0 / count)}
    return {
        f"epsilon {value:.3g}": stats["weight"].values[0, :, at]
        for at, value in enumerate(stats["epsilon"].values)
    }


def _marginal(
    ax: Axes, values: np.ndarray, weights: Mapping[str, np.ndarray], before: np.ndarray
) -> None:
    low, high = _window(values, list(weights.values()), before)
    edges = np.linspace(low, high, BARS + 1)
    width = edges[1] - edges[0]
    prior = np.histogram(before, edges)[0] / (len(before) * width)
    ax.stairs(prior, edges, fill=True, color=SHADE, label="prior")
    for at, (label, weight) in enumerate(weights.items()):
        density = np.histogram(values, edges, weights=weight)[0] / width
        ax.stairs(density, edges, color=MODES[at % len(MODES)], linewidth=1.3, label=label)
    ax.set_xlim(low, high)
    ax.set_ylim(bottom=0.0)
    ax.set_yticks([])
    plain(ax)
    ax.spines["left"].set_visible(False)


def _window(
    values: np.ndarray, weights: Sequence[np.ndarray], before: np.ndarray
) -> tuple[float, float]:
    """Return limits around the posteriors with a margin, within the range of the prior."""
    ends, tails = [], (0.5 * (1 - PROBABILITY), 0.5 * (1 + PROBABILITY))
    for draws, weight in [(values, weight) for weight in weights if weight.any()]:
        ends.append(weighted_quantiles(draws, weight, tails, method="inverted_cdf"))
    prior = np.quantile(before, tails)
    low, high = (np.min(ends, axis=0)[0], np.max(ends, axis=0)[1]) if ends else (prior[0], prior[1])
    more = 0.25 * (high - low)
    low, high = max(low - more, min(prior[0], low)), min(high + more, max(prior[1], high))
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def plot_ess(run: xr.DataTree, *, ax: Axes | None = None) -> Figure:
    """Plot the effective sample size of the weighted simulations for every epsilon.

    Dots are at the epsilons of the run. Values below 10 are shaded: too few simulations have
    weight.

    Args:
        run: result of :func:`~bke.inference.k2_abc` or :func:`~bke.inference.abc`.
        ax: axes of the plot; by default those of a new figure.

    Raises:
        InputError: for another type of run.
    """
    check_run(run)
    if "acceptance" not in run.attrs:
        raise InputError("plot_ess is for weighted simulations: plot_stages is for sequential runs")
    stats = run["sample_stats"].to_dataset()
    squared, epsilon = stats["squared_distance"].values[0], stats["epsilon"].values
    grid = np.geomspace(epsilon.min() / 30.0, epsilon.max() * 10.0, GRID)
    line = np.array(
        [
            effective_sample_size(log_weights(squared, value, run.attrs["acceptance"]))
            for value in grid
        ]
    )
    figure, (ax,) = panels(1, 1, ax, width=5.0, height=3.2)
    positive = line > 0.0
    ax.plot(grid[positive], line[positive], color=OVERALL, linewidth=1.3)
    dots = stats["ess"].values
    ax.plot(epsilon[dots > 0.0], dots[dots > 0.0], "o", color=OVERALL, label="epsilon of the run")
    log_scale(ax, "x", grid)
    log_scale(ax, "y", line[positive])
    ax.axhspan(0.0 if ax.get_yscale() == "linear" else 1e-3, MIN_ESS, color=SHADE, zorder=0)
    ax.set_ylim(bottom=min(1.0, line[positive].min()) * 0.8, top=2.0 * line.max())
    ax.set_xlabel("epsilon")
    ax.set_ylabel("effective sample size")
    ax.legend(frameon=False, fontsize=SMALL)
    plain(ax)
    return figure


def plot_stages(run: xr.DataTree, *, axes: Sequence[Axes] | None = None) -> Figure:
    """Plot epsilon and the acceptance rate of moves by stage.

    Args:
        run: result of :func:`~bke.inference.sequential_k2_abc` or ``sequential_abc``.
        axes: two axes; by default those of a new figure.

    Raises:
        InputError: for another type of run.
    """
    check_run(run)
    if "stages" not in run.children:
        raise InputError("plot_stages is for sequential runs: plot_ess is for weighted simulations")
    stages = run["stages"].to_dataset()
    figure, (top, bottom) = panels(2, 1, axes, width=5.0, height=4.2, sharex=True)
    number = stages["stage"].values
    for ax, name in ((top, "epsilon"), (bottom, "acceptance_rate")):
        ax.plot(number, stages[name].values, "o-", color=OVERALL, linewidth=1.3, markersize=4)
        plain(ax)
    log_scale(top, "y", stages["epsilon"].values)
    top.set_ylabel("epsilon")
    bottom.set_ylabel("proportion of moves\naccepted")
    bottom.set_ylim(0.0, 1.05 * max(stages["acceptance_rate"].values.max(), 0.05))
    bottom.set_xlabel("stage")
    bottom.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure
