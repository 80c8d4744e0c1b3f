"""Plot of a comparison of two samples: the samples, regions of difference and the witness."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import CenteredNorm, ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from ..comparison.comparison import Comparison
from ..comparison.witness import Bands
from .density import bin_edges, scatter
from .names import short_names
from .regions import (
    LABEL,
    MAX_MARKED,
    REGION_ALPHA,
    legend_handles,
    mark,
    outline,
    select_parts,
    shade,
)
from .style import (
    BAND_ALPHA,
    DIVERGING,
    OVERALL,
    P_MORE,
    Q_MORE,
    SMALL,
    STUCK,
    log_scale,
    panels,
    plain,
    rug,
)

LINE_POINTS, MESH_SIDE = 300, 60
#: Rows of a scatter plot; characters of a line of the title.
MOST_ROWS, TITLE = 4000, 90
#: Points from the panel to its title, over a legend of one line and of two.
ABOVE_ONE, ABOVE_TWO = 22, 34


def plot_comparison(found: Comparison, *, axes: Axes | Sequence[Axes] | None = None) -> Figure:
    """Plot both samples with the regions of difference, and the witness with its bands.

    Axes of one and of two columns end where the rows do, as beyond them a witness is extrapolated.
    One column: histograms over the posterior of the witness. Two: the rows beside a map of the
    witness. More: each region with the columns that it uses and its ratio.

    Args:
        found: from :func:`~bke.inference.compare`.
        axes: one per panel, two of one or two columns and one of more; by default a new figure.

    Raises:
        InputError: for a wrong number of ``axes``.
    """
    draw = {1: _line, 2: _plane}.get(len(found.columns), _list)
    figure, first = draw(dataclasses.replace(found, names=short_names(found.names)), axes)
    title = textwrap.fill(str(found).splitlines()[0], TITLE)
    # Above the legends of both panels, which reach into each other's columns.
    high = len(found.columns) == 2 and bool(found.regions)
    first.set_title(title, fontsize=SMALL + 1, loc="left", pad=ABOVE_TWO if high else ABOVE_ONE)
    return figure


def _line(found: Comparison, axes: Axes | Sequence[Axes] | None) -> tuple[Figure, Axes]:
    points = found.pooled.points[:, 0] * found.pooled.scale[0]
    at = np.linspace(points.min(), points.max(), LINE_POINTS)
    figure, (above, below) = panels(2, 1, axes, width=7.5, height=5.2, sharex=True)
    _histograms(found, above, points)
    bands, signs = found.witness(at), found.region_sign(at)
    # The witness has another bandwidth than a region.
    handles = shade(above, signs, at, found.names)
    for ax in (above, below):
        plain(ax)
    _witness(found, below, at, bands, handles)
    below.set_xlim(at[0], at[-1])
    below.set_xlabel(found.columns[0])
    return figure, above


def _histograms(found: Comparison, ax: Axes, points: np.ndarray) -> None:
    edges, names = bin_edges(points, int(found.pooled.n_rows)), found.names
    for name, size, weights, colour, dashes in zip(
        names, found.sizes, found.pooled.weights.T, (P_MORE, Q_MORE), ("-", "--"), strict=True
    ):
        heights = np.histogram(points, edges, weights=weights, density=True)[0]
        label = f"{name} ({size} rows)"
        ax.stairs(heights, edges, color=colour, linestyle=dashes, linewidth=1.4, label=label)
    ax.set_ylim(bottom=0.0)
    ax.set_ylabel("density")
    ax.legend(
        fontsize=SMALL, frameon=False, loc="lower left",
        bbox_to_anchor=(0, 1), ncols=2,
    )  # fmt: skip


def _witness(
    found: Comparison, ax: Axes, at: np.ndarray, bands: Bands, regions: Sequence[Patch]
) -> None:
    kind = "" if bands.posterior else " of sampling errors"
    ax.fill_between(
        at, bands.wide_lower, bands.wide_upper, color=OVERALL, alpha=0.4 * BAND_ALPHA, linewidth=0,
        label=f"simultaneous band{kind}, {bands.wide_level:.0%}",
    )  # fmt: skip
    ax.fill_between(
        at, bands.lower, bands.upper, color=OVERALL, alpha=BAND_ALPHA, linewidth=0,
        label=f"pointwise band{kind}, {bands.level:.0%}",
    )  # fmt: skip
    ax.plot(at, bands.mean, color=OVERALL, linewidth=1.5)
    ax.axhline(0.0, color="0.4", linewidth=0.8)
    of_p, of_q = found.pooled.weights.T > 0.0
    points = found.pooled.points[:, 0] * found.pooled.scale[0]
    rug(ax, points[of_p], P_MORE)
    rug(ax, points[of_q], Q_MORE, top=True)
    ax.set_ylabel(f"witness, lengthscale {found.lengthscale[0]:.2g}")
    handles = [*regions, *mark(ax, found.regions), *ax.get_legend_handles_labels()[0]]
    ax.legend(
        handles=handles, fontsize=SMALL, frameon=False, loc="upper left",
        bbox_to_anchor=(0, -0.2), ncols=2,
    )  # fmt: skip


def _plane(found: Comparison, axes: Axes | Sequence[Axes] | None) -> tuple[Figure, Axes]:
    points = found.pooled.points * found.pooled.scale
    low, high = points.min(axis=0), points.max(axis=0)
    x, y = (np.linspace(a, b, MESH_SIDE) for a, b in zip(low, high, strict=True))
    at = np.stack([one.ravel() for one in np.meshgrid(x, y)], axis=1)
    figure, (left, right) = panels(1, 2, axes, width=10.0, height=5.0, sharex=True, sharey=True)
    bands = found.witness(at)
    signs = select_parts(found.regions, found.region_sign(at).reshape(MESH_SIDE, MESH_SIDE), x, y)
    shades = ListedColormap([Q_MORE, "white", P_MORE])
    left.pcolormesh(x, y, signs, cmap=shades, vmin=-1, vmax=1, alpha=REGION_ALPHA, zorder=0)
    scatter(left, *_some_rows(found, points), found.names)
    rows = left.get_legend_handles_labels()[0]
    regions = legend_handles(signs, found.names)
    left.legend(
        handles=[*rows, *regions], fontsize=SMALL, frameon=False, ncols=2,
        loc="lower left", bbox_to_anchor=(0, 1),
    )  # fmt: skip
    mean = bands.mean.reshape(MESH_SIDE, MESH_SIDE)
    norm = CenteredNorm(0.0, float(np.abs(mean).max()) or 1.0)
    image = right.pcolormesh(x, y, mean, norm=norm, cmap=DIVERGING, shading="nearest")
    outline(left, signs, x, y)
    marked = mark(right, found.regions)
    right.set_xlim(x[0], x[-1])
    right.set_ylim(y[0], y[-1])
    if marked:
        right.legend(
            handles=marked, fontsize=SMALL, frameon=False, loc="lower left",
            bbox_to_anchor=(0, 1),
        )  # fmt: skip
    bar = figure.colorbar(image, ax=right)
    kind = "posterior mean" if bands.posterior else "of the samples"
    label = f"witness ({kind}), positive for a higher density in {found.names[0]}"
    bar.set_label(textwrap.fill(label, LABEL), size=SMALL)
    bar.ax.tick_params(labelsize=SMALL)
    left.set_ylabel(found.columns[1])
    for ax in (left, right):
        ax.set_xlabel(found.columns[0])
        plain(ax)
    return figure, left


def _some_rows(found: Comparison, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of both samples, (m, D) and (n, D), of many a part."""
    step = max(1, -(-int(found.pooled.n_rows) // MOST_ROWS))
    if found.pooled.permutation_type == "signs":
        P, Q = (points[one > 0.0] for one in found.pooled.weights.T)
        return P[::step], Q[::step]
    first = found.pooled.first_counts
    P = np.repeat(points, first, axis=0)[::step]
    return P, np.repeat(points, found.pooled.counts - first, axis=0)[::step]


def _list(found: Comparison, axes: Axes | Sequence[Axes] | None) -> tuple[Figure, Axes]:
    regions = found.regions[: 3 * MAX_MARKED]
    figure, (ax,) = panels(1, 1, axes, width=8.0, height=1.6 + 0.32 * max(len(regions), 2))
    ax.axvline(1.0, color="0.4", linewidth=0.8)
    finite = [end for region in regions for end in (*region.ratio_interval, region.ratio)]
    finite = [end for end in finite if 0.0 < end < np.inf]
    low, high = (min(finite, default=0.5) / 1.3, max(finite, default=2.0) * 1.3)
    for row, region in enumerate(regions):
        colour = P_MORE if region.sign > 0 else Q_MORE
        ends = np.clip(region.ratio_interval, low, high)
        ax.hlines(row, *ends, color=colour, linewidth=2.0)
        ax.plot(np.clip(region.ratio, low, high), row, "o", color=colour, markersize=5)
    names = [", ".join(f"{found.columns[c]} {region.center[c]:.3g}" for c in region.columns[:3])
             + (", ..." if len(region.columns) > 3 else "") for region in regions]  # fmt: skip
    ax.set_yticks(range(len(regions)), names)
    ax.set_ylim(max(len(regions), 1) - 0.5, -0.5)
    log_scale(ax, "x", np.array([low, high]), wider_than=1.0)
    ax.set_xlim(low, high)
    P, Q = found.names
    label = f"density of {P} over that of {Q}, with simultaneous intervals"
    ax.set_xlabel(textwrap.fill(label, LABEL))
    if not regions:
        ax.text(
            0.5, 0.5, "no regions of difference", transform=ax.transAxes, ha="center", color=STUCK
        )
    handles = [
        Patch(color=colour, label=f"higher density in {name}")
        for colour, name in zip((P_MORE, Q_MORE), found.names, strict=True)
    ]
    ax.legend(
        handles=handles, fontsize=SMALL, frameon=False, loc="lower left", bbox_to_anchor=(0, 1),
        ncols=2,
    )  # fmt: skip
    plain(ax)
    return figure, ax
