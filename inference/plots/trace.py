"""Plots of chains by arviz-plots, each chain in a shade of its mode's color (BKE Figure 4)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Unpack

import arviz_plots
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from scipy.stats import rankdata

from ..core.errors import InputError, check_choice
from ..diagnostics.modes import Modes, find_modes, format_chains
from ..sampling.foreign import ModelArguments
from ..sampling.open_run import OpenRun, Run, open_run
from ..sampling.samplers import is_independent
from .style import (
    SMALL,
    STUCK,
    log_scale,
    mode_color,
    mode_name,
    panels,
    plain,
    shade,
    site_components,
)


def mode_colors(run: Run, **model: Unpack[ModelArguments]) -> dict[str, Any]:
    """Return arguments for functions of arviz-plots that color chains by the mode they are in.

    ``arviz_plots.plot_forest(run, combined=False, **mode_colors(run))``, and also ``plot_trace``,
    ``plot_rank``, ``plot_energy``, ``plot_ess``. Chains of one mode have shades of its color, from
    dark to light; stuck chains are gray.

    Args:
        run: from :func:`~bke.inference.fit`, open or not; or draws of another program.
        **model: of draws of another program, see :func:`~bke.inference.open_run`.
    """
    modes = find_modes(open_run(run, **model))
    of_chains = [
        -1 if chain in modes.stuck else int(mode) for chain, mode in enumerate(modes.of_chains)
    ]
    colors = [
        shade(mode_color(mode), of_chains[:chain].count(mode), of_chains.count(mode))
        for chain, mode in enumerate(of_chains)
    ]
    colors += [STUCK] * (3 - len(colors))  # arviz-plots refuses fewer than three
    return {"backend": "matplotlib", "aes": {"color": ["chain"]}, "color": colors}


def plot_trace(
    run: Run, sites: str | Sequence[str] | None = None, **model: Unpack[ModelArguments]
) -> Figure:
    """Plot the density and the trace of every chain, in shades of its mode's color (BKE Figure 4).

    By ``arviz_plots.plot_trace_dist``; axes are logarithmic where the draws span more than a factor
    of 10. A chain that crosses between modes has the color of the one that it is in most.

    Args:
        run: from :func:`~bke.inference.fit`, open or not; or draws of another program.
        sites: names of hyperparameters; by default all of them.
        **model: of draws of another program, see :func:`~bke.inference.open_run`.

    Raises:
        InputError: if the draws are in no order, or the run has no such hyperparameter.
    """
    opened = open_run(run, **model)
    _check_chains(opened, "plot_trace")
    names = _names(opened, sites)
    posterior = opened.tree["posterior"].to_dataset()
    rows = sum(posterior[name][0, 0].size for name in names)
    collection = arviz_plots.plot_trace_dist(
        opened.tree,
        var_names=names,
        compact=False,
        combined=False,
        figure_kwargs={"figsize": (9.0, 1.2 + 2.2 * rows), "layout": "constrained"},
        **mode_colors(opened),
    )
    for name in names:
        panels = collection.viz["plot"][name].transpose(..., "column").values.reshape(-1, 2)
        values = posterior[name].values.reshape(posterior.sizes["chain"], -1, len(panels))
        for index, (density, trace) in enumerate(panels):
            log_scale(density, "x", values[..., index])
            log_scale(trace, "y", values[..., index])
    tree = opened.tree
    recorded = "sample_stats" in tree.children and "diverging" in tree["sample_stats"]
    diverging = recorded and bool(tree["sample_stats"]["diverging"].any())
    tick: dict[str, Any] = {"color": "black", "marker": "|", "linestyle": "none"}
    more = [Line2D([], [], label="divergent iterations", **tick)] if diverging else []
    return _with_legend(collection.viz["figure"].item(), find_modes(opened), more)


def plot_rank(
    run: Run, sites: str | Sequence[str] | None = None, **model: Unpack[ModelArguments]
) -> Figure:
    """Plot the ranks of every chain's draws among those of all, in shades of its mode's color.

    The difference of the ranks' distribution function from the uniform one. All chains stay in the
    band with a probability of 99 % or more if they have mixed and their draws are independent, by
    the distribution of Kolmogorov and Smirnov's statistic and Bonferroni's inequality.

    ``arviz_plots.plot_rank`` 0.8 divides the ranks of a chain by the largest of that chain, so that
    distant chains look the same, and its band is for a single chain.

    Args:
        run: from :func:`~bke.inference.fit`, open or not; or draws of another program.
        sites: names of hyperparameters; by default all of them.
        **model: of draws of another program, see :func:`~bke.inference.open_run`.

    Raises:
        InputError: if the draws are in no order, or the run has no such hyperparameter.
    """
    opened = open_run(run, **model)
    _check_chains(opened, "plot_rank")
    components: dict[str, np.ndarray] = {}
    for site in _names(opened, sites):
        components |= site_components(opened.tree, "posterior", site)
    modes = find_modes(opened)
    colors = mode_colors(opened)["color"]
    rows, columns = -(-len(components) // 2), min(2, len(components))
    figure, axes = panels(rows, columns, None, width=5.0 * columns, height=0.8 + 2.2 * rows)
    for ax, (label, values) in zip(axes, components.items(), strict=False):
        chains, draws = values.shape
        ranks, steps = rankdata(values).reshape(values.shape), np.arange(values.size + 1)
        half = math.sqrt(0.5 * math.log(2.0 * chains / 0.01) * (1.0 - 1.0 / chains) / draws)
        ax.axhspan(-half, half, color="0.9", linewidth=0)
        for ranks_of_chain, color in zip(ranks, colors, strict=False):
            below = np.searchsorted(np.sort(ranks_of_chain), steps, side="right") / draws
            x = steps / values.size
            ax.plot(x, below - x, color=color, linewidth=1.0)
        ax.set_title(label)
        ax.set_xlabel("rank among all draws")
        ax.set_ylabel("difference from uniform")
        plain(ax)
    for ax in axes[len(components) :]:
        ax.set_visible(False)
    return _with_legend(figure, modes, [Patch(color="0.9", label="99% band of mixed chains")])


def _check_chains(opened: OpenRun, function: str) -> None:
    if is_independent(opened.tree.attrs):
        raise InputError(
            f"{function} is for chains, and the draws of method={opened.tree.attrs['method']!r} "
            "are in no order"
        )


def _names(opened: OpenRun, sites: str | Sequence[str] | None) -> list[str]:
    known = [str(name) for name in opened.tree["posterior"].data_vars]
    if sites is None:
        return known
    names = [sites] if isinstance(sites, str) else list(sites)
    for name in names:
        check_choice(name, "sites", known)
    return names


def _with_legend(figure: Figure, modes: Modes, more: Sequence[Artist]) -> Figure:
    """Return the figure with the modes' names and ``more`` above it, and leave it out of pyplot."""
    entries = [
        (mode_name(index, mode), mode_color(index), mode.chains)
        for index, mode in enumerate(modes.modes)
        if mode.chains
    ]
    if modes.stuck:
        entries.append((f"stuck: {format_chains(modes.stuck)}", STUCK, modes.stuck))
    handles: list[Artist] = [
        Line2D([], [], color=color, label=f"{label}{' (dark to light)' * (len(chains) > 1)}")
        for label, color, chains in entries
    ]
    handles += more
    figure.legend(
        handles=handles,
        loc="outside upper left",
        ncols=int(np.clip(figure.get_figwidth() // 3.0, 1, len(handles))),
        fontsize=SMALL,
        frameon=False,
    )
    plt.close(figure)
    return figure
