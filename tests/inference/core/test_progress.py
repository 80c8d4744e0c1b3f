"""Progress: on terminals and in notebooks alone, and of what takes a while."""

import io

import pytest
from bke.inference.core import progress
from bke.inference.core.progress import chain_progress, progress_bar, temperature_bars
from rich.console import Console


@pytest.fixture
def terminal(monkeypatch):
    """What is written to a terminal."""
    stream = io.StringIO()
    monkeypatch.setattr(
        progress, "Console", lambda stderr: Console(file=stream, force_terminal=True, width=100)
    )
    return stream


def bar():
    with progress_bar("summing", 10, show=True) as advance:
        yield
        advance(4)
        yield


def temperatures():
    with temperature_bars(2, show=True) as advance:
        yield
        advance(1, 0.5)
        yield


def chains():
    with chain_progress(2, 10, show=True) as bars:
        yield
        bars.advance(1, 3, 1)
        yield


WORKS = {"summing": bar, "repeat 1": temperatures, "chain 1": chains}


@pytest.mark.parametrize("what", WORKS)
def test_bars_appear_after_a_while(what, terminal, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    for seconds, seen in ((1.0, False), (3.0, True)):
        clock[0] = 0.0
        work = WORKS[what]()
        next(work)
        clock[0] = seconds
        next(work)
        assert list(work) == []
        assert (what in terminal.getvalue()) == seen
        assert bool(terminal.getvalue()) == seen


@pytest.mark.parametrize("what", WORKS)
def test_bars_appear_where_nothing_is_told(what, terminal, monkeypatch):
    """As while the first program is compiled; and not after work that was done at once."""
    times = []
    monkeypatch.setattr(
        progress.threading, "Timer", lambda after, begin: times.append(begin) or Fired(begin)
    )
    work = WORKS[what]()
    next(work)
    assert what in terminal.getvalue()
    work.close()
    seen = terminal.getvalue()
    times[0]()
    assert terminal.getvalue() == seen


class Fired:
    """A timer whose time is over at once."""

    daemon = False

    def __init__(self, begin):
        self.start = begin

    def cancel(self):
        """Too late."""


@pytest.mark.parametrize("widgets", [True, False])
def test_a_notebook_without_widgets_shows_nothing(widgets, monkeypatch):
    asked = []
    monkeypatch.setattr(progress, "Console", lambda stderr: Console(force_jupyter=True))
    monkeypatch.setattr(
        progress.importlib.util, "find_spec", lambda name: asked.append(name) or widgets or None
    )
    with progress_bar("summing", 10, show=True) as advance:
        assert advance.__closure__ is not None
        bars = [cell.cell_contents for cell in advance.__closure__]
    assert [bar.disable for bar in bars if isinstance(bar, progress.LateBars)] == [not widgets]
    assert asked == ["ipywidgets"]


def test_nothing_is_written_to_a_log(capfd, monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    for work in WORKS.values():
        assert len(list(work())) == 2
    with progress_bar("summing", None, show=False) as advance:
        advance(3)
    assert capfd.readouterr() == ("", "")
