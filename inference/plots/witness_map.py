"""The witness over a plane: its mean as a heat map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import CenteredNorm

from ..witness.bands import CredibleBand
from .density import scatter
from .style import DIVERGING, P_COLOUR, SMALL, STUCK, central, plain
from .views import Samples, View

#: Sides of a mesh, and the order of the points on it.
Mesh: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray]

#: The colours hold this part of the mean where the data are; the rest is clipped.
SHOWN = 0.99


def draw_maps(
    axes: Sequence[Axes],
    views: Sequence[View],
    at: np.ndarray,
    samples: Samples,
    columns: Sequence[str],
    bands: Sequence[CredibleBand],
) -> None:
    """One panel per view, side by side; the ``bands`` of the modes set the one colour scale."""
    inside = np.logical_and.reduce(
        [central(at[:, d], [sample[:, d] for sample in samples.given]) for d in range(2)]
    )
    inside = inside if inside.any() else np.ones(len(at), dtype=bool)
    largest = max(float(np.quantile(np.abs(band.mean[inside]), SHOWN)) for band in bands)
    norm = CenteredNorm(0.0, largest or 1.0)
    mesh = as_mesh(at)
    image: ScalarMappable | None = None
    for ax, view in zip(axes, views, strict=True):
        image = _squares(ax, view, at, norm) if mesh is None else _map(ax, view, mesh, norm)
        if samples.P is not None and samples.Q is not None:
            scatter(ax, samples.P, samples.Q, samples.names)
        elif samples.P is not None:
            ax.plot(*samples.P.T, ".", color=P_COLOUR, markersize=3, alpha=0.6)
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
    bar.set_label(_told(views[-1], inside), size=SMALL)
    bar.ax.tick_params(labelsize=SMALL)


def _told(view: View, inside: np.ndarray) -> str:
    """What the colours are, and how wide the band about them is where the data are."""
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
    """Sides of the mesh that the (m, 2) points fill, and their order on it; ``None`` if none."""
    x, y = np.unique(at[:, 0]), np.unique(at[:, 1])
    order = np.lexsort((at[:, 1], at[:, 0]))
    filled = len(at) == len(x) * len(y) and min(len(x), len(y)) > 1
    if not filled or not np.array_equal(at[order, 0], np.repeat(x, len(y))):
        return None
    return (x, y, order) if np.array_equal(at[order, 1], np.tile(y, len(x))) else None
