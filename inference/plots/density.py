"""Plots of two samples (BKE Figure 3) and of learned densities."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from ..core.errors import InputError
from ..data.checks import as_pair, check_column_names, default_names
from ..data.units import rounding_unit
from ..student_t.learning import LearnedStudentT
from ..student_t.sampling import student_t_predictive
from .style import BAND_ALPHA, MODES, P_COLOR, Q_COLOR, SMALL, panels, plain, rug

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

MOST_BINS = 60
#: A lattice this much finer than the bins does not show.
FINE_LATTICE = 20
#: Points of a line, and along each side of a map.
LINE, SIDE = 600, 120
#: Probability that the band of a posterior covers.
LEVEL = 0.8
#: Proportion of the rows at each end of a column that may be outside of the plot.
TAIL = 0.01


def plot_densities(
    at: ArrayLike,
    p: ArrayLike,
    q: ArrayLike,
    *,
    column: str = "x",
    names: tuple[str, str] = ("P", "Q"),
    ax: Axes | None = None,
) -> Figure:
    """Plot two densities of one column (BKE Figure 3).

    Args:
        at: points, shape (m,) or (m, 1).
        p: density of P at them, shape (m,).
        q: density of Q.
        column: name of the axis.
        names: names of the two distributions.
        ax: axes of the plot; by default those of a new figure.

    Raises:
        InputError: if the three have different lengths.
    """
    points, first, second = (np.asarray(values, dtype=float) for values in (at, p, q))
    points = points[:, 0] if points.ndim == 2 and points.shape[1] == 1 else points
    if points.ndim != 1 or not first.shape == second.shape == points.shape:
        raise InputError(
            "at, p and q must have one length, got shapes "
            f"{points.shape}, {first.shape} and {second.shape}"
        )
    figure, (panel,) = panels(1, 1, ax, width=6.0, height=3.4)
    panel.plot(points, first, color=P_COLOR, label=names[0])
    panel.plot(points, second, color=Q_COLOR, linestyle="--", label=names[1])
    panel.set_ylim(bottom=0.0)
    panel.set_xlim(points.min(), points.max())
    _finish(panel, column, "density")
    return figure


def plot_samples(
    P: ArrayLike,
    Q: ArrayLike,
    *,
    columns: Sequence[str] | None = None,
    names: tuple[str, str] = ("P", "Q"),
    densities: Callable[[np.ndarray], tuple[ArrayLike, ArrayLike]] | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Plot two samples: histograms over one column, a scatter plot over two.

    Args:
        P: first sample, shape (n, 1), (n,) or (n, 2).
        Q: second sample, with the same columns.
        columns: names of the columns.
        names: names of the two samples.
        densities: function of points (m,) of one column that returns the true densities of P and
            Q, each (m,), drawn as lines over the histograms (BKE Figure 3).
        ax: axes of the plot; by default those of a new figure.

    Raises:
        InputError: if there are more than two columns, or ``columns`` has another number of names.
    """
    first, second = as_pair(P, Q)
    dimension = first.shape[1]
    if dimension > 2:
        raise InputError(
            f"plot_samples shows one or two columns, and P has {dimension}: choose two of them"
        )
    axis_names = check_column_names(columns, default_names(dimension))
    side = 3.4 if dimension == 1 else 5.0
    figure, (panel,) = panels(1, 1, ax, width=6.0, height=side)
    if dimension == 1:
        _histograms(panel, first[:, 0], second[:, 0], names, densities)
        _finish(panel, axis_names[0], "density")
    else:
        scatter(panel, first, second, names)
        _finish(panel, *axis_names)
    return figure


def _histograms(
    ax: Axes,
    p: np.ndarray,
    q: np.ndarray,
    names: tuple[str, str],
    densities: Callable[[np.ndarray], tuple[ArrayLike, ArrayLike]] | None,
) -> None:
    pooled = np.concatenate([p, q])
    edges = bin_edges(pooled, len(pooled))
    line = np.linspace(pooled.min(), pooled.max(), 500)
    truth = (None, None) if densities is None else densities(line)
    for values, color, name, dashes, density in (
        (p, P_COLOR, names[0], "-", truth[0]),
        (q, Q_COLOR, names[1], "--", truth[1]),
    ):
        heights = np.histogram(values, edges, density=True)[0]
        label = f"{name} ({len(values)} rows)"
        if density is None:
            ax.stairs(heights, edges, color=color, linestyle=dashes, linewidth=1.4, label=label)
        else:
            ax.stairs(heights, edges, color=color, alpha=0.25, fill=True, label=label)
            ax.plot(line, density, color=color, linestyle=dashes, label=f"density of {name}")
    rug(ax, p, P_COLOR)
    rug(ax, q, Q_COLOR, top=True)
    ax.margins(y=0.1)
    ax.set_ylim(bottom=0.0)


def bin_edges(pooled: np.ndarray, rows: int) -> np.ndarray:
    """Return the edges of equal bins; integers have one bin each up to :data:`MOST_BINS`.

    For other rounded values each bin holds the same number of possible values.

    Args:
        pooled: (m,), every different value at least once.
        rows: number of rows of both samples.
    """
    bins = min(MOST_BINS, math.ceil(math.sqrt(rows)))  # finer than usual: mixtures show
    low, high = pooled.min(), pooled.max()
    width = (high - low) / bins
    unit = rounding_unit(pooled)
    if unit is None or unit * FINE_LATTICE < width:
        return np.histogram_bin_edges(pooled, bins)
    is_integer = float(unit).is_integer() and high - low < MOST_BINS * unit
    width = unit if is_integer else unit * math.ceil(width / unit)
    return low - 0.5 * unit + width * np.arange(math.floor((high - low) / width) + 2)


def scatter(
    ax: Axes,
    P: np.ndarray,
    Q: np.ndarray,
    names: tuple[str, str] = ("P", "Q"),
    colors: tuple[str, str] = (P_COLOR, Q_COLOR),
) -> None:
    """Draw points of P as dots and of Q as crosses."""
    size = float(np.clip(3000 / (len(P) + len(Q)), 4, 25))
    ax.scatter(
        P[:, 0],
        P[:, 1],
        s=size,
        color=colors[0],
        linewidths=0,
        alpha=0.7,
        label=f"{names[0]} ({len(P)} rows)",
    )
    ax.scatter(
        Q[:, 0], Q[:, 1], s=1.4 * size, color=colors[1], marker="x", linewidths=0.9, alpha=0.9,
        label=f"{names[1]} ({len(Q)} rows)",
    )  # fmt: skip


def _finish(ax: Axes, horizontal: str, vertical: str) -> None:
    ax.set_xlabel(horizontal)
    ax.set_ylabel(vertical)
    ax.legend(fontsize=SMALL, frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    plain(ax)


def plot_student_t(
    of: LearnedStudentT | xr.DataTree,
    *,
    draws: ArrayLike | None = None,
    names: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Plot the density on its box with the rows; for a posterior, its mean and an 80 % band.

    Args:
        of: result of :func:`~bke.inference.learn_student_t` or
            :func:`~bke.inference.student_t_posterior`, with one or two columns.
        draws: more points to plot, (m, D), such as those of ``sample_student_t``.
        names: names of the columns.
        ax: axes of the plot; by default those of a new figure.

    Raises:
        InputError: for another number of columns.
    """
    rows = _rows(of)
    D = rows.shape[1]
    if D > 2:
        raise InputError(f"plot_student_t shows one or two columns, and there are {D}")
    low, high = _box(of, rows)
    headings = list(names or (["x"] if D == 1 else ["x1", "x2"]))
    figure, (panel,) = panels(1, 1, ax, width=6.0, height=3.8 if D == 1 else 4.6)
    low, high = _view(rows, low, high)
    hidden = int(np.sum(np.any((rows < low) | (rows > high), axis=1)))
    if hidden:
        panel.set_title(f"{hidden} of {len(rows)} rows outside", loc="right", fontsize=SMALL)
    panel.set_xlim(low[0], high[0])
    sides = [np.linspace(low[d], high[d], LINE if D == 1 else SIDE) for d in range(D)]
    at = np.stack([grid.ravel() for grid in np.meshgrid(*sides, indexing="ij")], axis=1)
    densities = _densities(of, at)
    mean = densities.mean(axis=0)
    if D == 1:
        if len(densities) > 1:
            band = np.quantile(densities, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
            panel.fill_between(
                at[:, 0], *band, color=MODES[0], alpha=BAND_ALPHA, linewidth=0,
                label=f"{LEVEL:.0%} over the posterior",
            )  # fmt: skip
        panel.plot(at[:, 0], mean, color=MODES[0], label="predictive density")
        rug(panel, rows[:, 0], P_COLOR, label="rows")
        if draws is not None:
            drawn = np.asarray(draws).ravel()
            panel.hist(drawn, bins="auto", density=True, color=MODES[1], alpha=0.35, label="draws")
        panel.set_xlabel(headings[0])
        panel.set_ylabel("density")
        panel.set_ylim(bottom=0.0)
        panel.legend(frameon=False)
        return figure
    shape = (SIDE, SIDE)
    image = panel.pcolormesh(*sides, mean.reshape(shape).T, cmap="Greys", shading="auto")
    figure.colorbar(image, ax=panel, label="density")
    panel.plot(*rows.T, ".", color=MODES[0], markersize=2, alpha=0.5, label="rows")
    if mean.max() > mean.min():
        panel.contour(*sides, mean.reshape(shape).T, levels=5, colors="black", linewidths=0.5)
    if draws is not None:
        panel.plot(*np.asarray(draws).T, ".", color=MODES[1], markersize=2, label="draws")
    panel.set_ylim(low[1], high[1])
    panel.set_xlabel(headings[0])
    panel.set_ylabel(headings[1])
    panel.legend(frameon=False, ncols=2, loc="lower left", bbox_to_anchor=(0.0, 1.0))
    return figure


def _view(rows: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the part of the box with all rows but a few in the tails."""
    start, end = np.quantile(rows, [TAIL, 1.0 - TAIL], axis=0)
    width = np.where(end > start, end - start, np.inf)
    return np.maximum(low, start - width), np.minimum(high, end + width)


def _rows(of: LearnedStudentT | xr.DataTree) -> np.ndarray:
    """Return the rows, (N, D)."""
    if isinstance(of, xr.DataTree):
        return np.asarray(of["observed_data"]["X"])
    return np.asarray(of.density.rows.data)


def _densities(of: LearnedStudentT | xr.DataTree, at: np.ndarray) -> np.ndarray:
    """Return densities (draws, m) for every draw of the hyperparameters, possibly a single one."""
    if isinstance(of, xr.DataTree):
        return student_t_predictive(of, at)
    return np.exp(of.log_density(at))[None]


def _box(of: LearnedStudentT | xr.DataTree, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the lower and upper limits of the box, or limits around the rows without a box."""
    if isinstance(of, xr.DataTree):
        low, high = (np.atleast_1d(of.attrs[name]).astype(float) for name in ("low", "high"))
    else:
        assert of.normalizer is not None  # with one or two columns
        low, high = of.normalizer.low, of.normalizer.high
    width = rows.max(axis=0) - rows.min(axis=0)
    low = np.where(np.isfinite(low), low, rows.min(axis=0) - 0.5 * width)
    high = np.where(np.isfinite(high), high, rows.max(axis=0) + 0.5 * width)
    return low, high
