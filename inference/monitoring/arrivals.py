"""Rows that come twice or late, told by columns for it."""

from __future__ import annotations

import dataclasses
import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..io.columns import column_array, no_column
from ..io.formats import normalize_strings
from ..io.tables import Table
from ..io.types import ColumnError, infer_type

#: Keys that are remembered, the last ones.
KEYS = 100_000
#: Times that are remembered, of as many rows as values are.
TIMES = 4096


@dataclasses.dataclass
class Arrivals:
    """Keys and times of rows.

    Attributes:
        key: the column that tells rows apart, if any; a row whose key was seen is left out.
        time: the column of when rows came about, if any.
        keys: (k,), hashes of the last keys.
        newest: the newest time so far.
        times: (t,), of the last rows, as text; at least of those of an update.
        repeated: rows that were left out.
        late: rows that are older than one before them.
        unread: rows since the beginning, or since it was read from a file, whose time is none.
    """

    key: str | None
    time: str | None
    keys: np.ndarray = dataclasses.field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    newest: float = -np.inf
    times: np.ndarray = dataclasses.field(default_factory=lambda: np.empty(0, dtype=np.str_))
    repeated: int = 0
    late: int = 0
    unread: int = 0

    def taken(self, table: Table) -> Table:
        """Take note of a table's rows; those of new keys.

        Raises:
            InputError: a column is not there.
        """
        if self.key is not None:
            new = self._new(_words(table, self.key))
            self.repeated += int((~new).sum())
            table = table._replace(data=table.data.filter(pa.array(new)))
        if self.time is not None and table.data.num_rows:
            self._note(table)
        return table

    def times_of(self, rows: tuple[int, int, int], last: int) -> tuple[str, str, str] | None:
        """Look the times of rows up, of which ``last`` is the last that was seen."""
        first = last - len(self.times) + 1
        if self.time is None or min(rows) < first:
            return None
        at, low, high = (str(self.times[min(row, last) - first]) for row in rows)
        return at, low, high

    def trimmed(self) -> Arrivals:
        """Forget all times but those of the last rows."""
        return dataclasses.replace(self, times=self.times[-TIMES:])

    def _new(self, words: pa.Array) -> np.ndarray:
        """Which rows (n,) have a key that was not seen; a row without a key is new."""
        hashes = _hashed(words)
        missing = np.asarray(words.is_null().to_numpy(zero_copy_only=False), dtype=bool)
        first = np.zeros(len(hashes), dtype=bool)
        first[np.unique(hashes, return_index=True)[1]] = True
        new = missing | (first & ~np.isin(hashes, self.keys))
        self.keys = np.concatenate([self.keys, hashes[new & ~missing]])[-KEYS:]
        return new

    def _note(self, table: Table) -> None:
        assert self.time is not None
        words = _words(table, self.time)
        values = _moments(table, self.time)
        self.unread += int(np.isnan(values).sum())
        before = np.fmax.accumulate(np.append(self.newest, values))
        self.late += int(np.sum(values < before[:-1]))
        self.newest = float(before[-1])
        told = np.array([one or "?" for one in words.to_pylist()], dtype=np.str_)
        self.times = np.concatenate([self.times, told])


def _words(table: Table, name: str) -> pa.Array:
    if name not in table.data.column_names:
        raise no_column(name, table)
    return normalize_strings(pc.cast(table.data.column(name).combine_chunks(), pa.string()))


def _hashed(words: pa.Array) -> np.ndarray:
    """Numbers (n,) of 64 bits that tell words apart, the same in every process."""
    found = [
        int.from_bytes(hashlib.blake2b((one or "").encode(), digest_size=8).digest(), "little")
        for one in words.to_pylist()
    ]
    return np.array(found, dtype=np.uint64)


def _moments(table: Table, name: str) -> np.ndarray:
    """Times (n,) as numbers, NaN where they are none."""
    try:
        cells = column_array([table], name, ()).array
        column = infer_type(name, cells, [table]).column
    except ColumnError:
        return np.full(table.data.num_rows, np.nan)
    if column.kind not in ("number", "integer", "datetime"):
        return np.full(table.data.num_rows, np.nan)
    return column.values
