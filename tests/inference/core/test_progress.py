"""Progress bars appear only on terminals and in notebooks, and only for long work."""

import io

import pytest
from bke.inference.core import progress
from bke.inference.core.progress import chain_progress, progress_bar, temperature_bars
from rich.console import Console


@pytest.fixture
def terminal(monkeypatch):
    """Return a stream that receives the output to a terminal."""
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


@pytest.mark.parametrize("label", WORKS)
def test_bars_appear_after_a_while(label, terminal, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    for seconds, visible in ((1.0, False), (3.0, True)):
        clock[0] = 0.0
        work = WORKS[label]()
        next(work)
        clock[0] = seconds
        next(work)
        assert list(work) == []
        assert (label in terminal.getvalue()) == visible
        assert bool(terminal.getvalue()) == visible


@pytest.mark.parametrize("label", WORKS)
def test_bars_appear_during_work_without_updates(label, terminal, monkeypatch):
    """Bars appear while the first program is compiled, but not after work that ends at once."""
    times = []
    monkeypatch.setattr(
        progress.threading, "Timer", lambda after, begin: times.append(begin) or Fired(begin)
    )
    work = WORKS[label]()
    next(work)
    assert label in terminal.getvalue()
    work.close()
    output = terminal.getvalue()
    times[0]()
    assert terminal.getvalue() == output


class Fired:
    """A timer whose time is over at once."""

    daemon = False

    def __init__(self, begin):
        self.start = begin

    def cancel(self):
        """Too late."""


@pytest.mark.parametrize("widgets", [True, False])
def test_a_notebook_without_widgets_has_no_bars(widgets, monkeypatch):
    looked_up = []
    monkeypatch.setattr(progress, "Console", lambda stderr: Console(force_jupyter=True))
    monkeypatch.setattr(
        progress.importlib.util, "find_spec", lambda name: looked_up.append(name) or widgets or None
    )
    with progress_bar("summing", 10, show=True) as advance:
        assert advance.__closure__ is not None
        bars = [cell.cell_contents for cell in advance.__closure__]
    assert [bar.disable for bar in bars if isinstance(bar, progress.LateBars)] == [not widgets]
    assert looked_up == ["ipywidgets"]


def test_logs_have_no_bars(capfd, monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    for work in WORKS.values():
        assert len(list(work())) == 2
    with progress_bar("summing", None, show=False) as advance:
        advance(3)
    assert capfd.readouterr() == ("", "")
