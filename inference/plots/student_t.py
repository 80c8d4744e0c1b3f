"""Pictures of kernel Student-t densities in one and two columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..core.errors import InputError
from ..student_t.learning import LearnedStudentT
from ..student_t.sampling import student_t_predictive
from .style import BAND_ALPHA, MODES, P_COLOUR, SMALL, panels, rug

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

#: Points of a line, and along each side of a map.
LINE, SIDE = 600, 120
#: Probability that the band of a posterior covers.
LEVEL = 0.8
#: Share of the rows at each end of a column that may be out of the picture.
SHOWN = 0.01


def plot_student_t(
    of: LearnedStudentT | xr.DataTree,
    *,
    draws: ArrayLike | None = None,
    names: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Figure:
    """The density on its box, with the rows; of a posterior, its mean and an 80 % band.

    Args:
        of: what :func:`~bke.inference.learn_student_t` or
            :func:`~bke.inference.student_t_posterior` returned, of one or two columns.
        draws: points to show as well, (m, D), such as those of ``sample_student_t``.
        names: of the columns.
        ax: where to draw; by default a new figure.

    Raises:
        InputError: for another number of columns.
    """
    rows = _rows(of)
    D = rows.shape[1]
    if D > 2:
        raise InputError(f"the picture is of one or two columns, and there are {D}")
    low, high = _box(of, rows)
    headings = list(names or (["x"] if D == 1 else ["x1", "x2"]))
    figure, (panel,) = panels(1, 1, ax, width=6.0, height=3.8 if D == 1 else 4.6)
    low, high = _view(rows, low, high)
    hidden = int(np.sum(np.any((rows < low) | (rows > high), axis=1)))
    if hidden:
        panel.set_title(f"{hidden} of {len(rows)} rows outside", loc="right", fontsize=SMALL)
    panel.set_xlim(low[0], high[0])
    sides = [np.linspace(low[d], high[d], LINE if D == 1 else SIDE) for d in range(D)]
    at = np.stack([one.ravel() for one in np.meshgrid(*sides, indexing="ij")], axis=1)
    many = _densities(of, at)
    mean = many.mean(axis=0)
    if D == 1:
        if len(many) > 1:
            band = np.quantile(many, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
            panel.fill_between(
                at[:, 0], *band, color=MODES[0], alpha=BAND_ALPHA, linewidth=0,
                label=f"{LEVEL:.0%} over the posterior",
            )  # fmt: skip
        panel.plot(at[:, 0], mean, color=MODES[0], label="predictive density")
        rug(panel, rows[:, 0], P_COLOUR, label="rows")
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
    """The part of the box that all but a few rows far away need."""
    start, end = np.quantile(rows, [SHOWN, 1.0 - SHOWN], axis=0)
    width = np.where(end > start, end - start, np.inf)
    return np.maximum(low, start - width), np.minimum(high, end + width)


def _rows(of: LearnedStudentT | xr.DataTree) -> np.ndarray:
    """(N, D)."""
    if isinstance(of, xr.DataTree):
        return np.asarray(of["observed_data"]["X"])
    return np.asarray(of.density.rows.data)


def _densities(of: LearnedStudentT | xr.DataTree, at: np.ndarray) -> np.ndarray:
    """Densities (draws, m) at every draw of the hyperparameters, of which there may be one."""
    if isinstance(of, xr.DataTree):
        return student_t_predictive(of, at)
    return np.exp(of.log_density(at))[None]


def _box(of: LearnedStudentT | xr.DataTree, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What is shown: the box, or around the rows where there is none."""
    if isinstance(of, xr.DataTree):
        low, high = (np.atleast_1d(of.attrs[name]).astype(float) for name in ("low", "high"))
    else:
        assert of.normalizer is not None  # of one or two columns
        low, high = of.normalizer.low, of.normalizer.high
    width = rows.max(axis=0) - rows.min(axis=0)
    low = np.where(np.isfinite(low), low, rows.min(axis=0) - 0.5 * width)
    high = np.where(np.isfinite(high), high, rows.max(axis=0) + 0.5 * width)
    return low, high
