"""Pictures of conditional means, filtered states and shrunk embeddings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .style import BAND_ALPHA, MODES, P_COLOUR, TRUTH, panels

#: Steps that a picture of a series shows, at most.
MOST_STEPS = 300


def plot_conditional(
    x: np.ndarray,
    y: np.ndarray,
    at: np.ndarray,
    mean: np.ndarray,
    deviation: np.ndarray,
    *,
    names: tuple[str, str] = ("x", "y"),
    ax: Axes | None = None,
) -> Figure:
    """Pairs of one column each, the conditional mean, and one standard deviation to each side.

    Args:
        x: (n,), what is conditioned on.
        y: (n,).
        at: (m,).
        mean: E[Y | X] there, (m,).
        deviation: the standard deviation of Y given X there, (m,).
        names: of x and y.
        ax: where to draw; by default a new figure.
    """
    figure, (panel,) = panels(1, 1, ax, width=6.0, height=3.8)
    order = np.argsort(at)
    panel.plot(x, y, ".", color=P_COLOUR, alpha=0.35, markersize=3, label="pairs")
    panel.plot(at[order], mean[order], color=MODES[0], label="conditional mean")
    low, high = mean - deviation, mean + deviation
    panel.fill_between(
        at[order],
        low[order],
        high[order],
        color=MODES[0],
        alpha=BAND_ALPHA,
        linewidth=0,
        label="± 1 standard deviation",
    )
    panel.set_xlabel(names[0])
    panel.set_ylabel(names[1])
    panel.legend(frameon=False, ncols=3, loc="lower left", bbox_to_anchor=(0.0, 1.0), markerscale=2)
    return figure


def plot_states(
    estimates: Mapping[str, np.ndarray],
    *,
    columns: Sequence[str],
    truth: np.ndarray | None = None,
) -> Figure:
    """States over time, a panel per column, at most 300 steps.

    Args:
        estimates: (S, D) by name, such as ``filtered`` and ``smoothed``.
        columns: names of the D columns.
        truth: (S, D), where it is known.
    """
    figure, found = panels(len(columns), 1, None, width=8.0, height=2.2, sharex=True)
    for index, (panel, column) in enumerate(zip(found, columns, strict=True)):
        if truth is not None:
            panel.plot(truth[:MOST_STEPS, index], color=P_COLOUR, linewidth=0.8, label="truth")
        for colour, (name, values) in zip(MODES, estimates.items(), strict=False):
            panel.plot(values[:MOST_STEPS, index], color=colour, linewidth=1.2, label=name)
        panel.set_ylabel(column)
    found[0].legend(frameon=False, ncols=4, loc="lower left", bbox_to_anchor=(0.0, 1.0))
    found[-1].set_xlabel("step")
    return figure


def plot_embeddings(
    at: np.ndarray, values: Mapping[str, np.ndarray], *, name: str = "x", ax: Axes | None = None
) -> Figure:
    """Values of several embeddings along one column.

    Args:
        at: (m,).
        values: (m,) by name of the embedding; the first is drawn in black, ``truth`` thick.
        name: of the column.
        ax: where to draw; by default a new figure.
    """
    figure, (panel,) = panels(1, 1, ax, width=6.0, height=3.8)
    colours = (P_COLOUR, *MODES)
    for index, (label, line) in enumerate(values.items()):
        known = label == "truth"
        panel.plot(
            at,
            line,
            color=TRUTH if known else colours[index % len(colours)],
            linewidth=3.0 if known else 1.3,
            alpha=0.5 if known else 1.0,
            label=label,
        )
    panel.set_xlabel(name)
    panel.set_ylabel("embedding")
    panel.legend(frameon=False)
    return figure
