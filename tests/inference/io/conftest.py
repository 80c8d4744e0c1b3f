"""Workbooks, row by row."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def workbook(tmp_path: Path) -> Callable[..., Path]:
    """Write a workbook whose first sheet has these rows, which pandas would not write."""
    openpyxl = pytest.importorskip("openpyxl")

    def write(
        rows: Sequence[Sequence[Any]],
        sheets: Sequence[str] = (),
        change: Callable[[Any], None] = lambda book: None,
    ) -> Path:
        book = openpyxl.Workbook()
        for row in rows:
            book.active.append(row)
        for name in sheets:
            book.create_sheet(name).append(["v"])
        change(book)
        book.save(tmp_path / "a.xlsx")
        return tmp_path / "a.xlsx"

    return write
