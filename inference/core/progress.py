"""Progress bars of rich on a terminal or in a notebook, for long computations."""

from __future__ import annotations

import contextlib
import importlib.util
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from .errors import check_flag

#: Most bars; more chains have a common bar.
MOST_BARS = 16
#: Seconds before bars appear.
PATIENCE = 2.0


class LateBars(Progress):
    """Bars on standard error that appear after :data:`PATIENCE` seconds.

    Nothing is written if standard error is a file.
    """

    def __init__(self, *columns: str | ProgressColumn, show: bool) -> None:
        check_flag(show, "progress")
        console = Console(stderr=True)
        # In a notebook without widgets rich would show a warning in place of the bars.
        widgets = console.is_jupyter and importlib.util.find_spec("ipywidgets") is not None
        can_display = console.is_terminal or widgets
        super().__init__(*columns, console=console, disable=not (show and can_display))
        self._start_time = time.monotonic()
        self._started = self._stopped = False
        self._start_lock = threading.Lock()
        # No task is updated while programs are compiled. Notebooks only show output of their
        # thread.
        self._timer = threading.Timer(PATIENCE, self._start_once)
        self._timer.daemon = True
        self._timed = console.is_terminal and not self.disable

    def __enter__(self) -> LateBars:
        self._start_time = time.monotonic()
        if self._timed:
            self._timer.start()
        return self

    def update(self, task_id: TaskID, **fields: Any) -> None:
        """Update the progress of a task, see :class:`rich.progress.Progress`."""
        super().update(task_id, **fields)
        if time.monotonic() - self._start_time > PATIENCE:
            self._start_once()

    def _start_once(self) -> None:
        with self._start_lock:
            if not (self._started or self._stopped):
                self._started = True
                self.start()

    def stop(self) -> None:
        """Stop updates of the bars, if they have appeared."""
        self._timer.cancel()
        with self._start_lock:
            self._stopped = True
        if self._started and not self.disable:  # otherwise some versions write a line feed
            super().stop()


class ChainBars:
    """Progress bars of chains, updated by the threads of a sampler."""

    def __init__(self, bars: LateBars, chains: int, iterations: int) -> None:
        self._bars = bars
        self._shared = chains > MOST_BARS
        count = 1 if self._shared else chains
        total = iterations * chains if self._shared else iterations
        self._tasks = [
            bars.add_task(
                "chains" if self._shared else f"chain {chain}", total=total, divergences=0
            )
            for chain in range(count)
        ]
        self._divergences = [0] * count

    def advance(self, chain: int, iterations: int, divergences: int) -> None:
        """Advance a chain by ``iterations``, of which ``divergences`` were divergent."""
        slot = 0 if self._shared else chain
        self._divergences[slot] += divergences
        self._bars.update(
            self._tasks[slot], advance=iterations, divergences=self._divergences[slot]
        )


@contextlib.contextmanager
def progress_bar(label: str, total: int | None, *, show: bool) -> Iterator[Callable[[int], None]]:
    """Show a bar on standard error, and yield a function that advances it by a number.

    ``total`` is ``None`` if it is unknown.
    """
    with LateBars(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        *([TimeRemainingColumn()] if total is not None else []),
        show=show,
    ) as bars:
        task = bars.add_task(label, total=total)
        yield lambda done: bars.update(task, advance=done)


@contextlib.contextmanager
def temperature_bars(repeats: int, *, show: bool) -> Iterator[Callable[[int, float], None]]:
    """Show a bar per repeat on standard error, and yield a function that sets its temperature."""
    with LateBars(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("temperature {task.completed:.3g}"),
        TimeElapsedColumn(),
        show=show,
    ) as bars:
        tasks = [
            bars.add_task(f"repeat {repeat}", total=1.0)
            for repeat in range(min(repeats, MOST_BARS))
        ]

        def advance(repeat: int, temperature: float) -> None:
            if repeat < len(tasks):
                bars.update(tasks[repeat], completed=temperature)

        yield advance


@contextlib.contextmanager
def chain_progress(chains: int, iterations: int, *, show: bool) -> Iterator[ChainBars]:
    """Show bars for ``chains`` chains of ``iterations`` each, on standard error."""
    with LateBars(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[divergences]} divergent"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        show=show,
    ) as bars:
        yield ChainBars(bars, chains, iterations)
