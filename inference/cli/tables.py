"""Tables that a command writes as CSV, or prints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .terminal import Terminal

if TYPE_CHECKING:
    import numpy as np

#: Rows of a table that are printed where there is no folder.
MOST_PRINTED = 20


def write_table(
    folder: Path | None, name: str, header: list[str], table: np.ndarray, terminal: Terminal
) -> dict[str, Path]:
    """The table as CSV in ``folder``, or printed."""
    import pandas as pd

    from ..core.atomic import atomic_path

    frame = pd.DataFrame(table, columns=header)
    if folder is None:
        terminal.say(frame.head(MOST_PRINTED).to_string(index=False))
        if len(frame) > MOST_PRINTED:
            terminal.say(f"and {len(frame) - MOST_PRINTED} more rows, which --out writes")
        return {}
    path = folder / name
    with atomic_path(path) as temporary:
        frame.to_csv(temporary, index=False)
    return {"table": path}
