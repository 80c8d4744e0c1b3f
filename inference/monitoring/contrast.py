"""Compare a monitor's reference with the rows since a change."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from ..comparison.compare import compare
from ..comparison.comparison import Comparison
from ..core.errors import InputError
from ..tables.compare_tables import compare_tables
from ..tables.result import TableComparison
from .row_reader import RowReader
from .watch import Watch

Answer = TypeVar("Answer", Comparison, TableComparison)
NAMES = ("reference", "stream")
CHOSEN = (
    "the rows of the stream are those since the change, chosen for what they are: the p-value says "
    "how large the difference is against chance, not how rarely there would be an alarm"
)


def contrast(
    watch: Watch, reader: RowReader, options: Mapping[str, Any]
) -> Comparison | TableComparison:
    """Compare rows as wholes and where; see :meth:`~bke.inference.Monitor.difference`."""
    if watch.alarm is None:
        raise InputError("there was no alarm: nothing tells which rows to compare")
    first = watch.rows - len(watch.recent) + 1
    after = watch.recent[max(watch.alarm.since.row - first, 0) :]
    if len(after) < 2:
        raise InputError("fewer than two rows are there since the change: compare after some more")
    before = np.concatenate([watch.apart, watch.ranked])
    how = {"names": NAMES, **options}
    plain = reader.columns.numbers.all() and not np.isnan(before).any()
    if plain and not np.isnan(after).any():
        return _noted(compare(before, after, columns=reader.columns.names, **how))
    types = {
        name: "integer" if kind == "integer" else "number" if kind in ("number", "text") else kind
        for name, kind in zip(reader.columns.names, reader.types, strict=True)
    }
    tables = (_table(before, reader), _table(after, reader))
    return _noted(compare_tables(*tables, column_types=types, **how))


def _noted(found: Answer) -> Answer:
    return dataclasses.replace(found, notes=(*found.notes, CHOSEN))


def _table(values: np.ndarray, reader: RowReader) -> pa.Table:
    """Values (n, C) as cells."""
    found, columns = {}, reader.columns
    for name, levels, column in zip(columns.names, columns.levels, values.T, strict=True):
        missing = np.isnan(column)
        if levels:
            words = np.append(np.array(levels, dtype=object), "(new)")
            cells = words[np.where(missing, -1, np.minimum(column, len(levels))).astype(int)]
            found[name] = pa.array(cells, pa.string(), mask=missing)
        else:
            found[name] = pa.array(column, pa.float64(), mask=missing)
    return pa.table(found)
