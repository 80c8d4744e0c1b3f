"""Progress bars on a terminal or in a notebook, through rich, for work that takes a while."""

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

#: More chains than this share one bar.
MOST_BARS = 16
#: Seconds that work takes before it is shown how far it is.
PATIENCE = 2.0


class LateBars(Progress):
    """Bars on standard error that appear once work has taken a while.

    Nothing is written to a file or a log, and nothing for what is done at once.
    """

    def __init__(self, *columns: str | ProgressColumn, shown: bool) -> None:
        check_flag(shown, "progress")
        console = Console(stderr=True)
        # In a notebook without widgets rich would show a warning in place of the bars.
        widgets = console.is_jupyter and importlib.util.find_spec("ipywidgets") is not None
        seen = console.is_terminal or widgets
        super().__init__(*columns, console=console, disable=not (shown and seen))
        self._since = time.monotonic()
        self._begun = self._over = False
        self._beginning = threading.Lock()
        # What compiles first tells nothing for long. A notebook shows what its own thread writes.
        self._timer = threading.Timer(PATIENCE, self._begin)
        self._timer.daemon = True
        self._timed = console.is_terminal and not self.disable

    def __enter__(self) -> LateBars:
        self._since = time.monotonic()
        if self._timed:
            self._timer.start()
        return self

    def update(self, task_id: TaskID, **fields: Any) -> None:
        """Tell how far a task is, as :class:`rich.progress.Progress` does."""
        super().update(task_id, **fields)
        if time.monotonic() - self._since > PATIENCE:
            self._begin()

    def _begin(self) -> None:
        with self._beginning:
            if not (self._begun or self._over):
                self._begun = True
                self.start()

    def stop(self) -> None:
        """Leave the bars as they are, if they have appeared."""
        self._timer.cancel()
        with self._beginning:
            self._over = True
        if self._begun and not self.disable:  # or some versions end a log's line
            super().stop()


class ChainBars:
    """Bars of chains, told of by the sampler's threads."""

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
        """Tell that ``iterations`` more are done, ``divergences`` of them divergent."""
        slot = 0 if self._shared else chain
        self._divergences[slot] += divergences
        self._bars.update(
            self._tasks[slot], advance=iterations, divergences=self._divergences[slot]
        )


@contextlib.contextmanager
def progress_bar(what: str, total: int | None, *, shown: bool) -> Iterator[Callable[[int], None]]:
    """Show one bar on standard error; call what it yields with how many more are done.

    ``total`` is ``None`` where nobody knows it.
    """
    with LateBars(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        *([TimeRemainingColumn()] if total is not None else []),
        shown=shown,
    ) as bars:
        task = bars.add_task(what, total=total)
        yield lambda done: bars.update(task, advance=done)


@contextlib.contextmanager
def temperature_bars(repeats: int, *, shown: bool) -> Iterator[Callable[[int, float], None]]:
    """Show one bar per repeat on standard error; call what it yields with its temperature."""
    with LateBars(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("temperature {task.completed:.3g}"),
        TimeElapsedColumn(),
        shown=shown,
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
def chain_progress(chains: int, iterations: int, *, shown: bool) -> Iterator[ChainBars]:
    """Show bars for ``chains`` chains of ``iterations`` each, on standard error."""
    with LateBars(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[divergences]} divergent"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        shown=shown,
    ) as bars:
        yield ChainBars(bars, chains, iterations)
