"""Where each chain has been: traceplot and rank plot, coloured by mode (BKE Figure 4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from scipy.stats import rankdata

from ..core.errors import InputError
from ..diagnostics.modes import Modes, find_modes, format_chains
from ..sampling.foreign import ModelArguments
from ..sampling.method import is_independent
from ..sampling.open_run import Run, open_run
from .names import mode_name, site_components
from .style import SHADE, SMALL, STUCK, figure_of, log_scale, mode_colour, panels, plain

#: Draws that a bar of the rank plot holds on average, at least.
DRAWS_PER_BAR = 10
MOST_BARS = 20
#: Width of one legend entry, inches.
LEGEND_COLUMN = 2.3


def plot_trace(
    run: Run,
    site: str | None = None,
    *,
    axes: Axes | Sequence[Axes] | None = None,
    **model: Unpack[ModelArguments],
) -> Figure:
    """Traceplot, one panel per scalar hyperparameter; chains are coloured by mode, stuck ones grey.

    The warmup is shaded where the run has it. The axis is logarithmic where the draws span more
    than a factor of 10.

    Args:
        run: from :func:`~bke.inference.fit`, open or not; or draws of another program.
        site: one hyperparameter; by default all of them.
        axes: one per panel; by default a new figure, one panel below the other.
        **model: of draws of another program, see :func:`~bke.inference.open_run`.

    Raises:
        InputError: if the run has no chains or no such site, or ``axes`` are not as many as the
            panels.
    """
    opened = open_run(run, **model)
    run, modes = opened.tree, find_modes(opened)
    if is_independent(run.attrs):
        raise InputError(
            f"plot_trace is for chains, and the draws of method={run.attrs['method']!r} are in no "
            "order"
        )
    has_warmup = "warmup_posterior" in run.children
    before = site_components(run, "warmup_posterior", site) if has_warmup else {}
    after = site_components(run, "posterior", site)
    count = len(after)
    figure, places = panels(count, 1, axes, width=9.0, height=1.0 + 2.2 * count, sharex=True)
    for ax, (label, values) in zip(places, after.items(), strict=True):
        _trace(ax, before.get(label, values[:, :0]), values, modes)
        ax.set_ylabel(label)
    places[-1].set_xlabel("iteration")
    _legend(places[0], modes)
    return figure


def _trace(ax: Axes, before: np.ndarray, after: np.ndarray, modes: Modes) -> None:
    warmup = before.shape[1]
    everything = np.concatenate([before, after], axis=1)
    ax.axvspan(0, warmup, color=SHADE, zorder=0)
    ax.text(
        0.01,
        0.97,
        "warmup",
        fontsize=SMALL,
        color="0.35",
        va="top",
        transform=ax.transAxes,
        bbox={"color": SHADE, "pad": 1.0},
        zorder=4,
    )
    for chain, values in enumerate(everything):
        # Warmup takes the colour that the chain has right after it.
        labels = np.concatenate([modes.of_draws[chain, :1].repeat(warmup), modes.of_draws[chain]])
        if chain in modes.stuck:
            labels = np.full_like(labels, -1)
        changes = np.flatnonzero(np.diff(labels)) + 1
        for start, stop in zip([0, *changes], [*changes, len(labels)], strict=True):
            # One more point joins a piece to the next one.
            piece = slice(start, min(stop + 1, len(labels)))
            ax.plot(
                np.arange(1, len(labels) + 1)[piece],
                values[piece],
                color=mode_colour(int(labels[start])),
                linewidth=0.8,
                alpha=0.85,
            )
    ax.margins(y=0.12)
    log_scale(ax, "y", everything)
    ax.set_xlim(0, everything.shape[1])
    plain(ax)


def _legend(ax: Axes, modes: Modes) -> None:
    entries = [
        (mode_name(index, mode), mode_colour(index))
        for index, mode in enumerate(modes.modes)
        if mode.chains
    ]
    if modes.stuck:
        entries.append((f"stuck: {format_chains(modes.stuck)}", STUCK))
    width = ax.get_window_extent().width / figure_of(ax).dpi
    ax.legend(
        handles=[Line2D([], [], color=colour, label=label) for label, colour in entries],
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=int(np.clip(width // LEGEND_COLUMN, 1, len(entries))),
        fontsize=SMALL,
        frameon=False,
    )


def plot_rank(
    run: Run,
    site: str | None = None,
    *,
    axes: Axes | Sequence[Axes] | None = None,
    **model: Unpack[ModelArguments],
) -> Figure:
    """Rank plot: how often each chain's draws have which rank among all draws.

    Chains that explore the same distribution have level bars, near the dotted line. The first
    column ranks all chains together; where there are several modes or stuck chains, a column for
    every mode with at least two chains ranks these among themselves.

    Args:
        run: from :func:`~bke.inference.fit`, open or not; or draws of another program.
        site: one hyperparameter; by default all of them.
        axes: one per panel, row by row; by default a new figure.
        **model: of draws of another program, see :func:`~bke.inference.open_run`.

    Raises:
        InputError: if the run has no such site, or ``axes`` are not as many as the panels.
    """
    opened = open_run(run, **model)
    run, modes = opened.tree, find_modes(opened)
    components = site_components(run, "posterior", site)
    chains = len(modes.of_chains)
    groups = {"all chains": list(range(chains))}
    if len(modes.modes) > 1 or modes.stuck:
        several = [(k, mode) for k, mode in enumerate(modes.modes) if len(mode.chains) > 1]
        groups |= {f"within mode {k + 1}": list(mode.chains) for k, mode in several}
    rows, columns = len(components), len(groups)
    figure, places = panels(
        rows,
        columns,
        axes,
        width=1.5 + 2.9 * columns,
        height=rows * (1.2 + 0.24 * chains),
        sharex=True,
    )
    remaining = iter(places)
    for row, (label, values) in enumerate(components.items()):
        for title, members in groups.items():
            ax = next(remaining)
            _ranks(ax, values[members], members, modes)
            if row == 0:
                ax.set_title(title, fontsize="medium")
            if row == rows - 1:
                ax.set_xlabel("fractional rank")
            if title == "all chains":
                ax.set_ylabel(f"{label}\nchain" if rows > 1 else "chain")
    return figure


def _ranks(ax: Axes, values: np.ndarray, members: Sequence[int], modes: Modes) -> None:
    """One row of bars per chain; the tallest bar of the panel fills its row."""
    ranks = (rankdata(values).reshape(values.shape) - 0.5) / values.size
    bars = int(np.clip(values.shape[1] // DRAWS_PER_BAR, 4, MOST_BARS))
    edges = np.linspace(0.0, 1.0, bars + 1)
    shares = np.stack([np.histogram(row, edges)[0] for row in ranks]) / values.shape[1]
    unit = 0.9 / shares.max()
    for row, (chain, share) in enumerate(zip(members, shares, strict=True)):
        colour = mode_colour(-1 if chain in modes.stuck else int(modes.of_chains[chain]))
        base = len(members) - 1 - row
        ax.bar(edges[:-1], share * unit, 1 / bars, base, align="edge", color=colour, alpha=0.8)
        ax.axhline(base, color="0.3", linewidth=0.5)
        ax.axhline(base + unit / bars, color="0.3", linewidth=0.8, linestyle=":")
    ax.set_yticks(
        [len(members) - 0.7 - row for row in range(len(members))], list(map(str, members))
    )
    ax.tick_params(axis="y", length=0)
    ax.set_xlim(0, 1)
    ax.set_ylim(0, len(members))
    plain(ax)
