"""Checks of a stream: repeated and late rows, copies of the reference, serial correlation."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..data.checks import pluralize
from ..io.columns import column_array, no_column
from ..io.formats import normalize_strings
from ..io.tables import Table
from ..io.types import ColumnError, infer_type

#: Distance of two rows that are regarded as uncorrelated. Their products are subtracted from those
#: of adjacent rows, to remove the correlation that is due to a change of the mean.
DISTANT_LAG = 50


@dataclasses.dataclass
class ArrivalLog:
    """Keys and times of the rows so far, in bounded memory.

    Attributes:
        key: column that identifies rows, or ``None``. Rows with a known key are dropped.
        time: column of times, or ``None``.
        key_hashes: (k,), hashes of the last keys.
        latest_time: latest time so far.
        times: (t,), times of the last rows as text, including all rows of the current update.
        num_repeated: number of rows that were dropped.
        num_late: number of rows that are older than a row before them.
        num_invalid_times: number of rows without a valid time, since the start or since the monitor
            was read from a file.
    """

    key: str | None
    time: str | None
    key_hashes: np.ndarray = dataclasses.field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    latest_time: float = -np.inf
    times: np.ndarray = dataclasses.field(default_factory=lambda: np.empty(0, dtype=np.str_))
    num_repeated: int = 0
    num_late: int = 0
    num_invalid_times: int = 0

    @property
    def columns(self) -> list[str]:
        """Names of the columns of keys and times."""
        return [name for name in (self.key, self.time) if name is not None]

    def add(self, table: Table) -> np.ndarray:
        """Record the rows of a table, and return which rows (n,) have new keys.

        Raises:
            InputError: if a column is missing.
        """
        is_new = np.ones(table.data.num_rows, dtype=bool)
        if self.key is not None:
            is_new = self._add_keys(_column_text(table, self.key))
            self.num_repeated += int((~is_new).sum())
            table = table._replace(data=table.data.filter(pa.array(is_new)))
        if self.time is not None and table.data.num_rows:
            text = _column_text(table, self.time).to_pylist()
            values = _time_values(table, self.time)
            self.num_invalid_times += int(np.isnan(values).sum())
            latest = np.fmax.accumulate(np.append(self.latest_time, values))
            self.num_late += int(np.sum(values < latest[:-1]))
            self.latest_time = float(latest[-1])
            new_times = np.array([time or "?" for time in text], dtype=np.str_)
            self.times = np.concatenate([self.times, new_times])
        return is_new

    def times_of(self, rows: tuple[int, int, int], last_row: int) -> tuple[str, str, str] | None:
        """Look up the times of three rows; ``None`` if one of them is not stored.

        Args:
            rows: numbers of the rows.
            last_row: number of the last row so far.
        """
        first_row = last_row - len(self.times) + 1
        if self.time is None or min(rows) < first_row:
            return None
        row, low, high = (str(self.times[min(row, last_row) - first_row]) for row in rows)
        return row, low, high

    def _add_keys(self, text: pa.Array, *, max_keys: int = 100_000) -> np.ndarray:
        """Record keys, and return which rows (n,) have a new key or none."""
        # The hashes of a file must be the same in every process.
        digests = (
            hashlib.blake2b((key or "").encode(), digest_size=8).digest()
            for key in text.to_pylist()
        )
        hashes = np.frombuffer(b"".join(digests), dtype="<u8")
        is_missing = np.asarray(text.is_null().to_numpy(zero_copy_only=False), dtype=bool)
        is_first = np.zeros(len(hashes), dtype=bool)
        is_first[np.unique(hashes, return_index=True)[1]] = True
        is_new = is_missing | (is_first & ~np.isin(hashes, self.key_hashes))
        new_hashes = hashes[is_new & ~is_missing]
        self.key_hashes = np.concatenate([self.key_hashes, new_hashes])[-max_keys:]
        return is_new


def _column_text(table: Table, name: str) -> pa.Array:
    if name not in table.data.column_names:
        raise no_column(name, table)
    return normalize_strings(pc.cast(table.data.column(name).combine_chunks(), pa.string()))


def _time_values(table: Table, name: str) -> np.ndarray:
    """Convert a column of times to numbers (n,), NaN for invalid times."""
    with contextlib.suppress(ColumnError):
        column = infer_type(name, column_array([table], name, ()).array, [table]).column
        if column.kind in ("number", "integer", "datetime"):
            return column.values
    return np.full(table.data.num_rows, np.nan)


def distinct_rows(reference: np.ndarray) -> frozenset[bytes]:
    """Return the distinct rows of a reference (m, C), none if over a tenth of them are repeated.

    If many rows are repeated, equal rows of the stream need not be copies.
    """
    distinct = frozenset(row.tobytes() for row in reference)
    return distinct if len(distinct) >= 0.9 * len(reference) else frozenset()


def copied_rows_note(values: np.ndarray, known_rows: frozenset[bytes]) -> list[str]:
    """Return a note if at least 5 rows and a fifth of the rows (n, C) are known rows."""
    count = sum(row.tobytes() in known_rows for row in values)
    if count < max(5, 0.2 * len(values)):
        return []
    return [
        f"At least {pluralize(count, 'row')} of the stream are rows of the reference: the test "
        "assumes new rows, and copies raise false alarms; pass new rows only."
    ]


class SerialCorrelation(NamedTuple):
    """Sums for the correlation of adjacent rows, which exchangeable rows do not have.

    Attributes:
        last_rows: (at most DISTANT_LAG, C), normal scores of the last rows.
        products: (C,), products of adjacent rows minus products of rows at DISTANT_LAG.
        squares: (C,).
        num_rows: number of terms of the sums.
    """

    last_rows: np.ndarray
    products: np.ndarray
    squares: np.ndarray
    num_rows: int = 0

    @classmethod
    def initialize(cls, num_columns: int) -> SerialCorrelation:
        """Start before the first row."""
        return cls(np.empty((0, num_columns)), np.zeros(num_columns), np.zeros(num_columns))

    def update(self, normal: np.ndarray) -> SerialCorrelation:
        """Add rows with normal scores (n, C)."""
        rows = np.concatenate([self.last_rows, normal])
        late, early = rows[DISTANT_LAG:], rows[:-DISTANT_LAG]
        adjacent = rows[DISTANT_LAG - 1 : -1]
        products = np.sum(late * (adjacent - early), axis=0) if len(late) else 0.0
        return SerialCorrelation(
            rows[-DISTANT_LAG:],
            self.products + products,
            self.squares + np.sum(late**2, axis=0),
            self.num_rows + len(late),
        )

    def note(self, names: list[str]) -> str | None:
        """Return a note on the column of the largest correlation, if it is significant.

        Args:
            names: (C,) names of the columns.
        """
        if not self.num_rows or not names:
            return None
        correlation = self.products / np.where(self.squares > 0.0, self.squares, 1.0)
        index = int(np.argmax(np.abs(correlation)))
        # At least 0.1, and five standard errors.
        if abs(correlation[index]) < max(0.1, 5.0 / np.sqrt(self.num_rows)):
            return None
        return (
            f"Rows are serially correlated (lag-1 autocorrelation {correlation[index]:.2f} of "
            f"{names[index]!r}): false alarms are more frequent than alpha; pass every k-th row, "
            "or residuals of a forecast."
        )
