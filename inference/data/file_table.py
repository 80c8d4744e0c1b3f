"""A table as a file has it, before its cells are numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .checks import default_names
from .unicode import normalize_text


@dataclasses.dataclass(frozen=True)
class FileTable:
    """A file before its cells become numbers: ``columns`` are numeric arrays or lists of cells."""

    path: Path
    columns: list[Any]
    header: list[str] | None = None
    lines: Sequence[int] | None = None  # line of the file for each row; None: count rows instead
    parse: Callable[[Any], float] = float  # NaN for a missing cell, ValueError for a text

    @property
    def names(self) -> list[str]:
        """The names of the columns: the header, or ``x``, or ``x0``, ``x1``, ..."""
        return list(map(normalize_text, self.header or default_names(len(self.columns))))

    def place(self, row: int, column: int) -> str:
        """Tell where a cell is, as a reader of the file counts: from 1."""
        where = f"row {row + 1}" if self.lines is None else f"line {self.lines[row]}"
        if self.header:
            return f"{where}, column {self.header[column]!r}"
        return f"{where}, column {column + 1} (the first is 1)"
