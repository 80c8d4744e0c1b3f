"""The witness over a line: mean, band, rugs of the two samples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from ..witness.bands import CredibleBand
from .style import BAND_ALPHA, P_COLOUR, Q_COLOUR, SMALL, central, plain, rug
from .views import Samples, View

#: The axis holds this part of every panel's band in the central region: gaps between data spike.
SHOWN = 0.95
HEADROOM = 1.4


def draw_lines(
    axes: Sequence[Axes],
    views: Sequence[View],
    at: np.ndarray,
    samples: Samples,
    columns: Sequence[str],
    bands: Sequence[CredibleBand],
) -> None:
    """One panel per view, one below the other; the ``bands`` of the modes set the height."""
    order = np.argsort(at[:, 0], kind="stable")
    points = at[order, 0]
    limit = shared_limit(bands, central(at[:, 0], samples.given))
    for ax, view in zip(axes, views, strict=True):
        mean, lower, upper = (
            values[order] for values in (view.band.mean, view.band.lower, view.band.upper)
        )
        ax.axhline(0.0, color="0.4", linewidth=0.8)
        ax.fill_between(points, lower, upper, color=view.colour, alpha=BAND_ALPHA, linewidth=0)
        ax.plot(points, mean, color=view.colour, linewidth=1.5)
        if samples.P is not None:
            rug(ax, samples.P[:, 0], P_COLOUR)
        if samples.Q is not None:
            rug(ax, samples.Q[:, 0], Q_COLOUR, top=True)
        ax.set_ylim(-limit, limit)
        ax.set_xlim(points[0], points[-1])
        ax.set_title(view.heading(" "), fontsize="medium", loc="left")
        ax.set_ylabel(view.quantity)
        plain(ax)
    axes[-1].set_xlabel(columns[0])
    _legend(axes[-1], views, samples)


def shared_limit(bands: Sequence[CredibleBand], inside: np.ndarray) -> float:
    """Half the height of a symmetric axis that fits the bands in the central region."""
    extents = [np.maximum(np.abs(band.lower), np.abs(band.upper))[inside] for band in bands]
    return HEADROOM * max(float(np.quantile(extent, SHOWN)) for extent in extents) or 1.0


def _legend(ax: Axes, views: Sequence[View], samples: Samples) -> None:
    # Grey stands for the colours of several panels.
    colour, alpha = (views[0].colour, BAND_ALPHA) if len(views) == 1 else ("0.4", 2 * BAND_ALPHA)
    label = f"pointwise {views[-1].band.level:.0%} band"
    handles = [Patch(color=colour, alpha=alpha, label=label)]
    if samples.P is not None:
        handles.append(Patch(color=P_COLOUR, label=f"{samples.names[0]} (below)"))
    if samples.Q is not None:
        handles.append(Patch(color=Q_COLOUR, label=f"{samples.names[1]} (above)"))
    ax.legend(
        handles=handles,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.28),
        ncols=len(handles),
        fontsize=SMALL,
        frameon=False,
    )
