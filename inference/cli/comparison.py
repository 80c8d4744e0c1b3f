"""The comparison of two samples, which every command that has two begins with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .inputs import Pair
from .terminal import Terminal

if TYPE_CHECKING:
    from bke.inference import Comparison

#: Rows of which a comparison takes long enough for a bar.
MANY_ROWS = 20_000


def compared(pair: Pair, terminal: Terminal, **options: Any) -> Comparison:
    """Compare two samples with options of :func:`~bke.inference.compare`, and say what it found."""
    many = len(pair.P) + len(pair.Q) > MANY_ROWS
    with terminal.step("compare", "comparing the samples", spinner=not many):
        from bke.inference import compare

        bar = terminal.progress and many
        shown: dict[str, Any] = {"columns": pair.columns, "names": pair.names, "progress": bar}
        found = compare(pair.P, pair.Q, **shown, **options)
    terminal.say(str(found) if terminal.verbose else f"{found.headline}.")
    return found
