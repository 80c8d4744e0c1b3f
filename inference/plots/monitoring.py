"""Plot the wealth of a monitor by rows, with its alarm and change point."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .style import BAND_ALPHA, MODES, P_COLOUR, P_MORE, SMALL, STUCK, panels, plain

#: Characters of a line of the title; smallest wealth that is drawn.
TITLE, LEAST = 78, 1e-3


class Watched(Protocol):
    """What is read of a :class:`~bke.inference.Monitor`."""

    @property
    def state(self) -> Any:
        """The current state."""

    @property
    def history(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows (h,) and the wealth (h,) after each."""


class ManyWatched(Protocol):
    """What is read of :class:`~bke.inference.Monitors`."""

    @property
    def monitors(self) -> Mapping[str, Watched]:
        """The monitor of every stream."""

    @property
    def changed(self) -> tuple[str, ...]:
        """Streams that have changed."""

    @property
    def wealth_threshold(self) -> float:
        """Wealth from which a stream is reported as changed."""

    @property
    def summary_line(self) -> str:
        """Summary in one line."""


def plot_monitor(monitor: Watched, *, ax: Axes | None = None) -> Figure:
    """Plot the wealth of a monitor by rows, its alarm, and the interval of the change point.

    Args:
        monitor: a :class:`~bke.inference.Monitor` that has seen rows.
        ax: where to draw; by default a new figure.
    """
    figure, place = _panel(ax)
    state = monitor.state
    limit = 1.0 / state.alpha
    _course(place, monitor, color=P_COLOUR)
    _limit(place, limit, f"alarm at {limit:g}")
    if state.alarm:
        row, low, high, _ = state.change_point
        place.axvspan(low - 0.5, high + 0.5, color=P_MORE, alpha=BAND_ALPHA, linewidth=0)
        place.axvline(row, color=P_MORE, linewidth=1.2)
        place.plot([state.alarm_row], [limit], "o", color=MODES[1], zorder=5)
    return _finished(figure, place, state.summary_line)


def plot_monitors(monitors: ManyWatched, *, ax: Axes | None = None) -> Figure:
    """Plot the wealth of many streams by rows, with colors for streams that have changed.

    Args:
        monitors: :class:`~bke.inference.Monitors` that have seen rows.
        ax: where to draw; by default a new figure.
    """
    figure, place = _panel(ax)
    changed = monitors.changed
    for name, monitor in monitors.monitors.items():
        if name not in changed:
            _course(place, monitor, color=STUCK, alpha=0.4)
    for at, name in enumerate(changed):
        named = at < len(MODES)
        colour = MODES[at] if named else P_COLOUR
        _course(place, monitors.monitors[name], color=colour, label=name if named else None)
    _limit(place, monitors.wealth_threshold, f"changed at {monitors.wealth_threshold:.3g}")
    if changed:
        place.legend(fontsize=SMALL, frameon=False, loc="upper left")
    return _finished(figure, place, monitors.summary_line)


def _limit(place: Axes, limit: float, told: str) -> None:
    place.axhline(limit, color=STUCK, linestyle="--", linewidth=1.0)
    place.annotate(
        told,
        (1.0, limit),
        xycoords=("axes fraction", "data"),
        xytext=(-4, 3),
        textcoords="offset points",
        ha="right",
        fontsize=SMALL,
        color=STUCK,
    )


def _panel(ax: Axes | None) -> tuple[Figure, Axes]:
    figure, (place,) = panels(1, 1, ax, width=7.4, height=3.2)
    place.set_yscale("log")
    return figure, place


def _course(place: Axes, monitor: Watched, **how: Any) -> None:
    rows, wealth = monitor.history
    place.plot(rows, np.maximum(wealth, LEAST), linewidth=1.0, **how)


def _finished(figure: Figure, place: Axes, title: str) -> Figure:
    place.set_xlabel("row")
    place.set_ylabel("wealth at each row")
    place.set_title(textwrap.fill(title, TITLE), fontsize="medium", loc="left")
    plain(place)
    return figure
