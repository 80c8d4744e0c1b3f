"""The posterior witness with its bands, per mode and over all chains (BKE Figure 5)."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias, Unpack

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import CenteredNorm
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import ArrayLike

from ..core.errors import InputError, check_flag
from ..data.checks import as_sample, column_names, pluralize
from ..data.new_rows import column_order, known_names
from ..diagnostics.modes import (
    Mode,
    figure5_names,
    find_modes,
    format_chains,
    format_probability,
    format_values,
)
from ..sampling.foreign import ModelArguments
from ..sampling.open_run import Run, open_run
from ..sampling.samplers import is_independent
from ..witness.bands import CredibleBand, credible_band, weighted_by_chain, within_range
from .density import scatter
from .style import (
    BAND_ALPHA,
    DIVERGING,
    OVERALL,
    P_COLOR,
    Q_COLOR,
    SMALL,
    STUCK,
    central,
    mode_color,
    panels,
    plain,
    rug,
    short_location,
)

#: Proportion of every panel's band at the rows that is within the axis, and the factor by which the
#: axis is larger. In gaps between rows bands are as wide as the prior.
BAND_PROPORTION = 0.9
HEADROOM = 1.4
#: Sides of a mesh, and the order of the points on it.
Mesh: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray]

#: Quantile of the absolute mean in the central region at which the colors are clipped.
MEAN_PROPORTION = 0.99
#: Most points that are labeled, and most columns for a label by location.
MOST_NAMED, MOST_COLUMNS = 40, 4


def plot_witness(
    witness: xr.DataTree,
    level: float = 0.8,
    P: ArrayLike | None = None,
    Q: ArrayLike | None = None,
    *,
    run: Run | None = None,
    names: tuple[str, str] = ("P", "Q"),
    as_figure5: bool = False,
    axes: Axes | Sequence[Axes] | None = None,
    **model: Unpack[ModelArguments],
) -> Figure:
    """Plot the mean and band of the witness in one panel per mode, and over all modes.

    The last panel weights modes as the witness does, by posterior mass or by number of chains (BKE
    Figure 5 C); its title says which. Stuck chains are left out. One column is drawn as lines, two
    as maps of the mean, more as points with intervals, sorted by mean. Bands are pointwise and
    exclude zero somewhere by chance, so nothing is marked there; use :func:`~bke.inference.compare`
    for the regions of difference. Points beyond the range of the data are left out, if there are
    others. Axes are shared, and chosen from the bands of all modes, so that they do not depend on
    weights. Lines have the axis of the bands at the rows: in gaps between rows a band is as wide as
    the prior, and leaves the axis.

    Args:
        witness: result of :func:`~bke.inference.sample_witness`, or the witness of a test.
        level: posterior probability of the band at each point.
        P: first sample, for a rug or a scatter plot over the witness; for a dependence witness the
            pairs, without ``Q``.
        Q: second sample.
        run: from :func:`~bke.inference.fit`, open or not, or draws of another program; names the
            modes by their location.
        names: names of the samples.
        as_figure5: title the panels as those of BKE Figure 5, ``A: short mode``, ``B: long mode``,
            ``C: as published (by chain)``, which is added, and ``C: by posterior mass``.
        axes: one per panel; by default a new figure.
        **model: of draws of another program, see :func:`~bke.inference.open_run`.

    Raises:
        InputError: for a wrong level, samples of other columns, or a wrong number of ``axes``.
    """
    check_flag(as_figure5, "as_figure5")
    a_witness = isinstance(witness, xr.DataTree) and "witness" in witness.data_vars
    if not a_witness or "at" not in witness.coords:
        raise InputError("witness must be what sample_witness or sample_test_witness returned")
    witness = within_range(witness)
    group = witness.to_dataset()
    columns = [str(name) for name in group["column"].values]
    at = group["at"].values
    samples = Samples(_sample(P, "P", columns), _sample(Q, "Q", columns), names)
    sizes = list(witness.attrs.get("sizes", ()))
    lengths = [len(sample) for sample in samples.arrays]
    if len(lengths) == 2 and lengths != sizes and lengths[::-1] == sizes:
        raise InputError("P and Q have changed places since the witness was drawn")
    opened = None if run is None else open_run(run, **model)
    panel_views = views(witness, level, opened, names, as_figure5=as_figure5)
    count, dimension = len(panel_views), len(columns)
    rows, across = (count, 1) if dimension == 1 else (1, count)
    size = {1: (7.5, 0.6 + 2.1 * count), 2: (1.0 + 3.7 * count, 4.0)}
    width, height = size.get(dimension, (1.0 + 3.4 * count, 4.6))
    figure, panel_axes = panels(
        rows, across, axes, width=width, height=height, sharex=True, sharey=dimension < 3
    )
    draw = {1: draw_lines, 2: draw_maps}.get(dimension, draw_points)
    draw(panel_axes, panel_views, at, samples, columns, mode_bands(witness, level))
    return figure


def _sample(values: ArrayLike | None, name: str, columns: Sequence[str]) -> np.ndarray | None:
    if values is None:
        return None
    sample = as_sample(values, name)
    known = known_names(columns) if len(columns) > 1 else None
    order = column_order(column_names(values), known, name)
    sample = sample if order is None else sample[:, order]
    if sample.shape[1] != len(columns):
        raise InputError(f"{name} has {sample.shape[1]} columns, but the witness {len(columns)}")
    return sample


class View(NamedTuple):
    """Contents of one panel."""

    title: str
    detail: str  # chains of the panel, if any
    color: str
    band: CredibleBand
    quantity: str

    def heading(self, between: str) -> str:
        """Return the title and the detail, separated by ``between``."""
        return f"{self.title}{between}({self.detail})" if self.detail else self.title


class Samples(NamedTuple):
    """The two samples, each (n, D), or ``None``."""

    P: np.ndarray | None
    Q: np.ndarray | None
    names: tuple[str, str]

    @property
    def arrays(self) -> list[np.ndarray]:
        """The samples that are not ``None``."""
        return [sample for sample in (self.P, self.Q) if sample is not None]


def views(
    witness: xr.DataTree,
    level: float,
    run: Run | None = None,
    names: tuple[str, str] = ("P", "Q"),
    *,
    as_figure5: bool = False,
) -> list[View]:
    """Return the panels: modes with draws, then all modes if there are several.

    A witness of a test has one panel. With ``as_figure5`` the titles are those of BKE Figure 5, and
    one more panel gives chains equal weights.
    """
    labels = witness.to_dataset()["mode"].values
    modes = [int(index) for index in np.unique(labels) if index >= 0]
    chains = np.arange(len(labels))
    stuck = chains[(labels < 0).all(axis=1)]
    every = credible_band(witness, level)
    quantity = str(witness.attrs.get("label", f"witness {names[0]} - {names[1]}"))
    if "title" in witness.attrs:  # witness of a test, which has no chains
        return [View(str(witness.attrs["title"]), "", mode_color(0), every, quantity)]
    left_out = f"{len(stuck)} of {len(chains)} stuck and left out"
    has_chains = not is_independent(witness.attrs)
    if len(modes) == 1:
        detail = f"one mode, {left_out}" if len(stuck) else "one mode"
        title = "all chains" if has_chains else "all draws"
        return [View(title, detail, mode_color(modes[0]), every, quantity)]
    run_modes = None if run is None else find_modes(run)
    if run_modes is not None and run_modes.of_draws.shape != labels.shape:
        raise InputError(
            f"the witness is of {len(labels)} chains x {labels.shape[1]} draws, and run has "
            f"{' x '.join(map(str, run_modes.of_draws.shape))}: give the run that it was drawn of"
        )
    locations = () if run_modes is None else run_modes.modes
    mode_views, letters = [], figure5_names(modes)
    for index in modes:
        location = short_location(locations[index]) if index < len(locations) else ""
        members = format_chains(chains[(labels == index).any(axis=1)]) if has_chains else ""
        title = f"mode {index + 1}{f': {location}' if location else ''}"
        if as_figure5:
            title = f"{letters[index]}{f', {location}' if location else ''}"
        color, band = mode_color(index), credible_band(witness, level, index)
        if index < len(locations):
            title += _standing(locations[index])
        mode_views.append(View(title, members, color, band, quantity))
    detail = left_out if 0 < len(stuck) < len(chains) else f"{len(chains)} chains"
    by_mass = witness.attrs.get("weights") == "posterior"
    title = f"all modes, weighted by {'posterior mass' if by_mass else 'chain count'}"
    if as_figure5:
        letter = string.ascii_uppercase[len(modes)]
        moving = labels[~(labels < 0).all(axis=1)]
        counts = [int((moving == index).any(axis=1).sum()) for index in modes]
        parts = [
            f"{pluralize(n, 'chain')} in {letters[k][0]}"
            for n, k in zip(counts, modes, strict=True)
        ]
        published = View(
            f"{letter}: as published (by chain): {', '.join(parts)}",
            left_out if len(stuck) else "",
            OVERALL,
            credible_band(weighted_by_chain(witness), level),
            quantity,
        )
        if not by_mass:
            return [*mode_views, published]
        mode_views += [published] * has_chains
        title, detail = f"{letter}: by posterior mass", ""
        masses = [mode.mass for mode in locations]
        if modes[-1] < len(masses) and None not in masses:
            parts = [f"{letters[k][0]} {format_probability(masses[k] or 0.0)}" for k in modes]
            title += f": {', '.join(parts)}"
    return [*mode_views, View(title, detail if has_chains else "", OVERALL, every, quantity)]


def mode_bands(witness: xr.DataTree, level: float) -> list[CredibleBand]:
    """Return the band of each mode, from which axes are chosen, or of all draws if in no mode.

    A band over all modes is within these at every point, however modes are weighted.
    """
    labels = np.unique(witness.to_dataset()["mode"].values)
    return [credible_band(witness, level, int(mode)) for mode in labels if mode >= 0] or [
        credible_band(witness, level)
    ]


def _standing(mode: Mode) -> str:
    """Describe a mode's mass if it is known, else its height."""
    if mode.mass is not None:
        return f", mass {format_probability(mode.mass)}"
    quantity = "log density" if mode.interval is None else "log mass"
    return f", {quantity} lower by {-mode.height:.0f}" if mode.height < 0 else ""


def draw_lines(
    axes: Sequence[Axes],
    views: Sequence[View],
    at: np.ndarray,
    samples: Samples,
    columns: Sequence[str],
    bands: Sequence[CredibleBand],
) -> None:
    """Draw one panel per view, in a column; the ``bands`` of the modes set the height."""
    order = np.argsort(at[:, 0], kind="stable")
    points = at[order, 0]
    rows = np.concatenate([np.ravel(sample) for sample in samples.arrays] or [points])
    rows = rows[(rows >= points[0]) & (rows <= points[-1])]
    rows = rows if len(rows) else points
    limit = shared_limit([np.interp(rows, points, _extent(band)[order]) for band in bands])
    for ax, view in zip(axes, views, strict=True):
        mean, lower, upper = (
            values[order] for values in (view.band.mean, view.band.lower, view.band.upper)
        )
        ax.axhline(0.0, color="0.4", linewidth=0.8)
        ax.fill_between(points, lower, upper, color=view.color, alpha=BAND_ALPHA, linewidth=0)
        ax.plot(points, mean, color=view.color, linewidth=1.5)
        if samples.P is not None:
            rug(ax, samples.P[:, 0], P_COLOR)
        if samples.Q is not None:
            rug(ax, samples.Q[:, 0], Q_COLOR, top=True)
        ax.set_ylim(-limit, limit)
        ax.set_xlim(points[0], points[-1])
        ax.set_title(view.heading(" "), fontsize="medium", loc="left")
        ax.set_ylabel(view.quantity)
        plain(ax)
    axes[-1].set_xlabel(columns[0])
    _legend(axes[-1], views, samples)


def _extent(band: CredibleBand) -> np.ndarray:
    return np.maximum(np.abs(band.lower), np.abs(band.upper))


def shared_limit(extents: Sequence[np.ndarray]) -> float:
    """Half the height of a symmetric axis that fits most of each band's ``extents``."""
    return HEADROOM * max(float(np.quantile(extent, BAND_PROPORTION)) for extent in extents) or 1.0


def _legend(ax: Axes, views: Sequence[View], samples: Samples) -> None:
    # Gray stands for the colors of several panels.
    color, alpha = (views[0].color, BAND_ALPHA) if len(views) == 1 else ("0.4", 2 * BAND_ALPHA)
    label = f"pointwise {views[-1].band.level:.0%} band"
    handles = [Patch(color=color, alpha=alpha, label=label)]
    if samples.P is not None:
        handles.append(Patch(color=P_COLOR, label=f"{samples.names[0]} (below)"))
    if samples.Q is not None:
        handles.append(Patch(color=Q_COLOR, label=f"{samples.names[1]} (above)"))
    ax.legend(
        handles=handles,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.28),
        ncols=len(handles),
        fontsize=SMALL,
        frameon=False,
    )


def draw_maps(
    axes: Sequence[Axes],
    views: Sequence[View],
    at: np.ndarray,
    samples: Samples,
    columns: Sequence[str],
    bands: Sequence[CredibleBand],
) -> None:
    """Draw one panel per view, side by side; the ``bands`` of the modes set the color scale."""
    inside = np.logical_and.reduce(
        [central(at[:, d], [sample[:, d] for sample in samples.arrays]) for d in range(2)]
    )
    inside = inside if inside.any() else np.ones(len(at), dtype=bool)
    largest = max(float(np.quantile(np.abs(band.mean[inside]), MEAN_PROPORTION)) for band in bands)
    norm = CenteredNorm(0.0, largest or 1.0)
    mesh = as_mesh(at)
    image: ScalarMappable | None = None
    for ax, view in zip(axes, views, strict=True):
        image = _squares(ax, view, at, norm) if mesh is None else _map(ax, view, mesh, norm)
        if samples.P is not None and samples.Q is not None:
            scatter(ax, samples.P, samples.Q, samples.names)
        elif samples.P is not None:
            ax.plot(*samples.P.T, ".", color=P_COLOR, markersize=3, alpha=0.6)
        ax.set_title(view.heading("\n"), fontsize=SMALL + 1)
        ax.set_xlabel(columns[0])
        if mesh is not None:
            ax.set_xlim(at[:, 0].min(), at[:, 0].max())
            ax.set_ylim(at[:, 1].min(), at[:, 1].max())
        plain(ax)
    axes[0].set_ylabel(columns[1])
    if samples.P is not None and samples.Q is not None:
        axes[0].legend(
            loc="upper left", bbox_to_anchor=(0, -0.17), ncols=2, fontsize=SMALL, frameon=False
        )
    assert image is not None
    bar = axes[-1].figure.colorbar(image, ax=list(axes), extend="both", shrink=0.9)
    bar.set_label(_color_label(views[-1], inside), size=SMALL)
    bar.ax.tick_params(labelsize=SMALL)


def _color_label(view: View, inside: np.ndarray) -> str:
    """Return the quantity of the colors, and the width of its band in the central region."""
    half = 0.5 * (view.band.upper - view.band.lower)[inside]
    return (
        f"{view.quantity}\n(mean; half the pointwise {view.band.level:.0%} band: "
        f"{half.min():.2g} to {half.max():.2g})"
    )


def _map(ax: Axes, view: View, mesh: Mesh, norm: CenteredNorm) -> ScalarMappable:
    x, y, order = mesh
    mean = view.band.mean[order].reshape(len(x), len(y)).T
    return ax.pcolormesh(x, y, mean, norm=norm, cmap=DIVERGING, shading="nearest")


def _squares(ax: Axes, view: View, at: np.ndarray, norm: CenteredNorm) -> ScalarMappable:
    return ax.scatter(
        at[:, 0],
        at[:, 1],
        c=view.band.mean,
        norm=norm,
        cmap=DIVERGING,
        s=60,
        marker="s",
        edgecolors=STUCK,
        linewidths=0.4,
    )


def as_mesh(at: np.ndarray) -> Mesh | None:
    """Return the sides of the mesh of (m, 2) points and their order on it, if they are a mesh."""
    x, y = np.unique(at[:, 0]), np.unique(at[:, 1])
    order = np.lexsort((at[:, 1], at[:, 0]))
    filled = len(at) == len(x) * len(y) and min(len(x), len(y)) > 1
    if not filled or not np.array_equal(at[order, 0], np.repeat(x, len(y))):
        return None
    return (x, y, order) if np.array_equal(at[order, 1], np.tile(y, len(x))) else None


def draw_points(
    axes: Sequence[Axes],
    views: Sequence[View],
    at: np.ndarray,
    samples: Samples,
    columns: Sequence[str],
    bands: Sequence[CredibleBand],
) -> None:
    """Draw one panel per view, side by side; the ``bands`` of the modes set the width."""
    limit = shared_limit([_extent(band) for band in bands])
    position = np.arange(len(at))
    for ax, view in zip(axes, views, strict=True):
        order = np.argsort(view.band.mean, kind="stable")
        ax.hlines(
            position, view.band.lower[order], view.band.upper[order], colors=view.color,
            linewidths=0.8, alpha=0.6,
        )  # fmt: skip
        ax.plot(view.band.mean[order], position, ".", color=view.color, markersize=4)
        ax.axvline(0.0, color="0.4", linewidth=0.8)
        ax.set_xlim(-limit, limit)
        ax.set_ylim(-0.7, len(at) - 0.3)
        title = f"{view.heading(chr(10))}:\npointwise {view.band.level:.0%} intervals"
        ax.set_title(title, fontsize=SMALL + 1)
        ax.set_xlabel(view.quantity)
        plain(ax)
        if len(at) <= MOST_NAMED:
            ax.set_yticks(position, [_name(row, at[row]) for row in order])
            ax.tick_params(axis="y", labelleft=True)
    short = len(columns) <= MOST_COLUMNS
    names = f"({', '.join(columns)})" if short else f"({columns[0]}, ..., {columns[-1]})"
    label = "points" if short or len(at) > MOST_NAMED else "points by their number, from 0"
    axes[0].set_ylabel(f"{label} {names}, sorted by mean")


def _name(row: int, point: np.ndarray) -> str:
    return format_values(point) if len(point) <= MOST_COLUMNS else str(row)
