"""Plot the wealth of a monitor by rows, with its alarm and change point."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .style import BAND_ALPHA, MODES, P_COLOR, P_MORE, SMALL, STUCK, panels, plain

#: Characters of a line of the title; smallest wealth that is drawn.
TITLE, LEAST = 78, 1e-3


class MonitorHistory(Protocol):
    """Attributes of a :class:`~bke.inference.Monitor` that are plotted."""

    @property
    def state(self) -> Any:
        """The current state."""

    @property
    def history(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows (h,) and the wealth (h,) after each."""


class MonitorsHistory(Protocol):
    """Attributes of :class:`~bke.inference.Monitors` that are plotted."""

    @property
    def monitors(self) -> Mapping[str, MonitorHistory]:
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


def plot_monitor(monitor: MonitorHistory, *, ax: Axes | None = None) -> Figure:
    """Plot the wealth of a monitor by rows, its alarm, and the interval of the change point.

    Args:
        monitor: a :class:`~bke.inference.Monitor` with rows.
        ax: where to draw; by default a new figure.
    """
    figure, panel = _panel(ax)
    state = monitor.state
    limit = 1.0 / state.alpha
    _wealth(panel, monitor, color=P_COLOR)
    _limit(panel, limit, f"alarm at {limit:g}")
    if state.alarm:
        row, low, high, _ = state.change_point
        panel.axvspan(low - 0.5, high + 0.5, color=P_MORE, alpha=BAND_ALPHA, linewidth=0)
        panel.axvline(row, color=P_MORE, linewidth=1.2)
        panel.plot([state.alarm_row], [limit], "o", color=MODES[1], zorder=5)
    return _finished(figure, panel, state.summary_line)


def plot_monitors(monitors: MonitorsHistory, *, ax: Axes | None = None) -> Figure:
    """Plot the wealth of many streams by rows, with colors for streams that have changed.

    Args:
        monitors: :class:`~bke.inference.Monitors` with rows.
        ax: where to draw; by default a new figure.
    """
    figure, panel = _panel(ax)
    changed = monitors.changed
    for name, monitor in monitors.monitors.items():
        if name not in changed:
            _wealth(panel, monitor, color=STUCK, alpha=0.4)
    for at, name in enumerate(changed):
        has_color = at < len(MODES)
        color = MODES[at] if has_color else P_COLOR
        _wealth(panel, monitors.monitors[name], color=color, label=name if has_color else None)
    _limit(panel, monitors.wealth_threshold, f"changed at {monitors.wealth_threshold:.3g}")
    if changed:
        panel.legend(fontsize=SMALL, frameon=False, loc="upper left")
    return _finished(figure, panel, monitors.summary_line)


def _limit(ax: Axes, limit: float, label: str) -> None:
    ax.axhline(limit, color=STUCK, linestyle="--", linewidth=1.0)
    ax.annotate(
        label,
        (1.0, limit),
        xycoords=("axes fraction", "data"),
        xytext=(-4, 3),
        textcoords="offset points",
        ha="right",
        fontsize=SMALL,
        color=STUCK,
    )


def _panel(ax: Axes | None) -> tuple[Figure, Axes]:
    figure, (panel,) = panels(1, 1, ax, width=7.4, height=3.2)
    panel.set_yscale("log")
    return figure, panel


def _wealth(ax: Axes, monitor: MonitorHistory, **options: Any) -> None:
    rows, wealth = monitor.history
    ax.plot(rows, np.maximum(wealth, LEAST), linewidth=1.0, **options)


def _finished(figure: Figure, ax: Axes, title: str) -> Figure:
    ax.set_xlabel("row")
    ax.set_ylabel("wealth at each row")
    ax.set_title(textwrap.fill(title, TITLE), fontsize="medium", loc="left")
    plain(ax)
    return figure
