"""What both hypothesis tests print, draw and write in the end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .terminal import Terminal

if TYPE_CHECKING:
    from bke.inference import TestResult
    from matplotlib.figure import Figure

FILES = ("comparison.png", "test.png", "witness.png", "test.json")
#: In words.
PICTURES = "comparison.png, or of one test test.png and witness.png, and test.json"


def finish_test(
    result: TestResult,
    witness: Callable[[], Figure],
    told: dict[str, Any],
    notes: list[str],
    out: Path | None,
    terminal: Terminal,
) -> None:
    """Print, draw, write.

    Args:
        result: of the test.
        witness: draws the picture of where the samples differ, or the dependence is.
        told: of the command and its input, for the summary.
        notes: for the summary, printed before.
        out: folder of the files, if any.
        terminal: where it is printed.
    """
    from ..report.tests import result_summary
    from . import steps

    terminal.say(str(result))
    files, missing = steps.draw_pictures(
        out, lambda: [("test", result.plot), ("witness", witness)], terminal
    )
    steps.finish(
        {**told, **result_summary(result)},
        files,
        steps.summary_in(out, FILES[-1]),
        [*notes, *result.notes, *missing],
        terminal,
    )
