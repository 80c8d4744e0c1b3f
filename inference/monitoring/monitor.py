"""Monitor of a stream of rows: an anytime-valid test against a reference sample."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import os
from collections.abc import Mapping, Sequence, Sized
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from scipy.optimize import brentq

from ..core.errors import InputError
from ..core.machine import computing
from ..core.names import printable_lines
from ..core.notebook import ReprMixin
from ..data.checks import check_alpha, check_count, pluralize
from ..io.columns import as_values
from ..io.tables import Table, as_table, column_name
from .row_reader import RowReader, array_reader, table_reader
from .saved_state import Parts, read_monitor, write_monitor
from .sequential_test import MAX_RECENT, Change, ChangePoint, SequentialTest
from .stream_checks import ArrivalLog, SerialCorrelation, copied_rows_note, distinct_rows

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..comparison.comparison import Comparison
    from ..tables.result import TableComparison


class Monitor(ReprMixin):
    """Monitor a stream: has it changed, when, and in which columns?

    Each row of the stream is ranked among the rows of the reference and of the stream so far by
    some dozens of scores: columns, indicators of levels, missing values, products of pairs,
    directions, distances, kernels at landmarks, and witness functions that are learned from the
    stream. The ranks of exchangeable rows are independent and uniform for any size of the
    reference, so bets on them are martingales. The wealth of a score is multiplied by a weight; the
    weights sum to 1. If the rows of the stream have the distribution of the reference, the
    probability that the largest weighted wealth ever reaches 1 / alpha is at most alpha, at any
    stopping time (conformal test martingales, Vovk, Gammerman and Shafer 2005, chapter 8; Ville's
    inequality).

    This does not hold for serially correlated rows, such as the temperature of every minute. A note
    reports serial correlation.

    Attributes:
        state: the current state, a :class:`~bke.inference.MonitorState`.
    """

    def __init__(
        self,
        reference: Any,
        *,
        alpha: float = 0.05,
        columns: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
        column_types: Mapping[str, str] | None = None,
        na_values: Sequence[str | float] = (),
        formats: Sequence[str] = (),
        key: str | None = None,
        time: str | None = None,
        encoding: str | None = None,
        seed: int = 0,
    ) -> None:
        """Start a monitor.

        Args:
            reference: at least 20 rows without a change. Either an array (n, D) or (n,), with NaN
                for missing values, or a table of mixed columns: a data frame, a dictionary of
                columns, or the path of a file, as for :func:`~bke.inference.compare_tables`.
            alpha: bound on the probability of ever raising an alarm if nothing changes.
            columns: names of the columns of an array.
            exclude: columns of a table that are not monitored.
            column_types: types of columns, instead of the inferred ones.
            na_values: cells that stand for a missing value, such as -999.
            formats: names of formats of numbers in text, if cells match several.
            key: column that identifies rows. A row of the stream is dropped if its key is among the
                last 100,000.
            time: column of times, in which the change point is reported. Rows that are older than a
                row before them are counted, and used in the order of arrival.
            encoding: encoding of a text file, by default UTF-8.
            seed: seed of the choice of training rows and of the random numbers that break ties.

        Raises:
            InputError: if the reference or an argument is invalid.
        """
        check_alpha(alpha)
        check_count(seed, "seed", 0, 2**63 - 1)
        key, time = map(column_name, (key, time))
        self._arrivals = ArrivalLog(key, time)
        if _is_table(reference):
            if columns is not None:
                raise InputError(
                    "columns are names for an array, and the reference is a table: drop columns of "
                    "a table with exclude"
                )
            self._reader, values = table_reader(
                as_table(reference, "reference", encoding),
                [*as_values(exclude), *self._arrivals.columns],
                column_types,
                na_values,
                formats,
            )
        else:
            names = ("exclude", "column_types", "na_values", "formats", "key", "time")
            options = (exclude, column_types, na_values, formats, key, time)
            if invalid := list(itertools.compress(names, options)):
                raise InputError(
                    f"{invalid[0]} is an option of tables, and the reference is an array"
                )
            self._reader, values = array_reader(reference, columns)
        self._test, self._serial = start_test(self._reader, values, alpha, seed)
        self._notes = small_reference_note([len(values)])

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the monitored columns."""
        return self._reader.columns.names

    @property
    def all_columns(self) -> tuple[str, ...]:
        """Names of all columns of the reference, in its order."""
        return self._reader.all_columns

    @property
    def required_columns(self) -> tuple[str, ...]:
        """Names of the columns that rows of a table must have."""
        return (*self.columns, *self._arrivals.columns)

    @property
    def numeric_columns(self) -> tuple[str, ...]:
        """Names of the monitored columns of numbers."""
        types = zip(self.columns, self._reader.types, strict=True)
        return tuple(name for name, type_ in types if type_ in ("number", "integer"))

    def update(self, rows: Any, *, reference_rows: Any = None) -> MonitorState:
        """Test the next rows of the stream, in their order.

        The result does not depend on how a stream is divided into updates.

        Args:
            rows: rows in the format of the reference: an array (n, D), or a table with columns in
                any order. A dictionary of cells is one row. There may be no rows.
            reference_rows: rows of a second stream, which are added to the reference. This compares
                two streams. If nothing changes, the rows of both streams must be independent draws
                from one distribution.

        Returns:
            The state after the update.

        Raises:
            InputError: if rows cannot be read. The state is unchanged then.
        """
        arrivals = dataclasses.replace(self._arrivals)
        values, notes = self._read(rows, arrivals)
        reference = values[:0]
        if reference_rows is not None:
            reference, reference_notes = self._read(reference_rows, None)
            notes = notes + reference_notes
        max_checked = 5000
        if self._test.num_rows < max_checked:
            notes = notes + copied_rows_note(values[:max_checked], self._distinct_training_rows)
        alarm_before = self._test.alarm
        # Setting the number of threads takes longer than a small update.
        is_small = len(values) + len(reference) <= 64
        with contextlib.nullcontext() if is_small else computing():
            self._test.add_reference(reference)
            if len(values) and alarm_before is None:
                self._serial = self._serial.update(self._test.scores.normal_scores(values))
            self._test.update(values)
        alarm = self._test.alarm
        if alarm_before is None and alarm is not None:
            times = arrivals.times_of(alarm.change_point[:3], self._test.num_rows)
            self._test.alarm = alarm._replace(change_point_time=times)
        self._arrivals = dataclasses.replace(arrivals, times=arrivals.times[-MAX_RECENT:])
        if arrivals.num_invalid_times:
            notes = [
                *notes,
                f"Some rows have no valid time in {arrivals.time!r}: they are not counted as late.",
            ]
        max_notes = 12
        self._notes = tuple(dict.fromkeys([*self._notes, *notes]))[:max_notes]
        return self.state

    @property
    def state(self) -> MonitorState:
        """The current state."""
        test, arrivals, alarm = self._test, self._arrivals, self._test.alarm
        serial_note = self._serial.note(self._reader.columns.numbers)
        return MonitorState(
            rows=test.num_rows,
            alpha=test.alpha,
            max_wealth=test.max_wealth,
            alarm=alarm is not None,
            alarm_row=alarm and alarm.row,
            change_point=alarm and alarm.change_point,
            changes=alarm.changes if alarm else (),
            change_point_time=alarm and alarm.change_point_time,
            repeated=arrivals.num_repeated,
            late=arrivals.num_late,
            notes=(*self._reader.notes, *self._notes, *([serial_note] if serial_note else [])),
        )

    @property
    def alarm(self) -> bool:
        """True if an alarm was raised."""
        return self._test.alarm is not None

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the data and on the validity of the test."""
        return self.state.notes

    @property
    def summary_line(self) -> str:
        """Summary of the state in one line."""
        return self.state.summary_line

    def to_dataframe(self) -> pd.DataFrame:
        """Return the changes, see :meth:`~bke.inference.MonitorState.to_dataframe`."""
        return self.state.to_dataframe()

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain data for JSON."""
        return self.state.to_dict()

    def difference(self, **options: Any) -> Comparison | TableComparison:
        """Compare the reference with the rows after the change point, with regions and plots.

        At most the last 4096 rows of the stream are used. They are selected after the change was
        detected, so the p-values measure the size of the difference relative to chance. The
        probability of a false alarm is controlled by the monitor only.

        Args:
            options: options of :func:`~bke.inference.compare`, or of
                :func:`~bke.inference.compare_tables` if there are other columns than numbers, or
                missing values.

        Raises:
            InputError: if there was no alarm, or fewer than two rows follow the change point.
        """
        from ..comparison.compare import compare
        from ..tables.compare_tables import compare_tables

        test, reader = self._test, self._reader
        if test.alarm is None:
            raise InputError("there was no alarm: the rows after a change are unknown")
        first_row = test.num_rows - len(test.recent_rows) + 1
        after = test.recent_rows[max(test.alarm.change_point.row - first_row, 0) :]
        if len(after) < 2:
            raise InputError("fewer than two rows follow the change point: pass more rows first")
        before = np.concatenate([test.training_rows, test.calibration_rows])
        options = {"names": ("reference", "stream"), **options}
        note = (
            "the rows of the stream are those after the estimated change point: the p-value "
            "measures the size of the difference, not the probability of a false alarm"
        )
        has_missing = np.isnan(before).any() or np.isnan(after).any()
        if reader.columns.is_number.all() and not has_missing:
            comparison = compare(before, after, columns=reader.columns.names, **options)
            return dataclasses.replace(comparison, notes=(*comparison.notes, note))
        types = {
            name: "number" if type_ == "text" else type_
            for name, type_ in zip(reader.columns.names, reader.types, strict=True)
        }
        tables = compare_tables(
            _as_table(before, reader), _as_table(after, reader), column_types=types, **options
        )
        return dataclasses.replace(tables, notes=(*tables.notes, note))

    def plot(self, *, ax: Axes | None = None) -> Figure:
        """Plot the wealth by rows, the alarm and the interval of the change point."""
        from ..plots.monitoring import plot_monitor

        return plot_monitor(self, ax=ax)

    @property
    def history(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows (h,) and the wealth (h,) after each, thinned to at most 2048 rows."""
        return self._test.history.rows, self._test.history.wealth

    def to_file(self, path: str | os.PathLike[str]) -> None:
        """Save the monitor. If writing fails, an existing file is unchanged.

        The file is as confidential as the data: it has up to 3000 rows of the reference and 4096 of
        the stream. Its size is bounded.
        """
        write_monitor((self._reader, self._test, self._arrivals, self._serial, self._notes), path)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Monitor:
        """Read a monitor that :meth:`to_file` saved.

        Raises:
            InputError: if the file is not a saved monitor, or is damaged.
        """
        return cls._from_parts(read_monitor(path))

    def has_same_reference(self, other: Monitor) -> bool:
        """Return whether another monitor has the same columns and the same reference."""
        return self.columns == other.columns and all(
            np.array_equal(getattr(self._test, name), getattr(other._test, name), equal_nan=True)
            for name in ("training_rows", "calibration_rows")
        )

    @property
    def settings(self) -> dict[str, Any]:
        """Arguments of the constructor, without the reference and the options of reading it."""
        return {
            "alpha": self._test.alpha,
            "key": self._arrivals.key,
            "time": self._arrivals.time,
            "seed": self._test.seed,
        }

    @classmethod
    def _from_parts(cls, parts: Parts) -> Monitor:
        result = cls.__new__(cls)
        result._reader, result._test, result._arrivals, result._serial, result._notes = parts
        return result

    @functools.cached_property
    def _distinct_training_rows(self) -> frozenset[bytes]:
        return distinct_rows(self._test.training_rows)

    def _read(self, rows: Any, arrivals: ArrivalLog | None) -> tuple[np.ndarray, list[str]]:
        """Convert rows to values (n, C) without repeated rows, and return notes."""
        is_table = self._reader.is_table
        if is_table and isinstance(rows, Mapping):
            rows = {
                name: [value]
                if isinstance(value, (str, bytes)) or not hasattr(value, "__len__")
                else value
                for name, value in rows.items()
            }
        elif is_table and getattr(rows, "ndim", 2) == 1 and hasattr(rows, "items"):
            rows = {str(label): [cell] for label, cell in rows.items()}  # one row of pandas
        is_path = is_table and isinstance(rows, str)
        if isinstance(rows, Sized) and len(rows) == 0 and not is_path:
            return np.empty((0, len(self.columns))), []
        if is_table and not isinstance(rows, Table):
            rows = as_table(rows, "rows")
        values, notes = self._reader.values(rows)
        if is_table and arrivals is not None:
            values = values[arrivals.add(rows)]
        return values, notes

    def __str__(self) -> str:
        return str(self.state)

    def __repr__(self) -> str:
        return f"<Monitor of {pluralize(len(self.columns), 'column')}, {self.summary_line}>"


def start_test(
    reader: RowReader, values: np.ndarray, alpha: float, seed: int, name: str = "the reference"
) -> tuple[SequentialTest, SerialCorrelation]:
    """Start a test with values (n, C) of a reference, which has a name in messages."""
    min_rows = 20
    if len(values) < min_rows:
        raise InputError(
            f"{name} has {pluralize(len(values), 'row')}, and at least {min_rows} are needed"
        )
    with computing():
        test = SequentialTest.initialize(reader.columns, values, alpha, seed)
    return test, SerialCorrelation.initialize(len(reader.columns.numbers))


def small_reference_note(sizes: Sequence[int]) -> tuple[str, ...]:
    """Return a note on small references, from the numbers of rows of the references."""
    small = [size for size in sizes if size < 50]
    if not small:
        return ()
    streams = "" if len(sizes) == 1 else f" of {len(small)} of {len(sizes)} streams"
    rows = str(small[0]) if min(small) == max(small) else f"{min(small)} to {max(small)}"
    return (
        f"The reference{streams} has {rows} rows: a change of a column by less than a standard "
        "deviation is rarely detected; use at least 100 rows.",
    )


def _as_table(values: np.ndarray, reader: RowReader) -> pa.Table:
    """Convert values (n, C) to a table, with the levels of categories as text."""
    result, columns = {}, reader.columns
    for name, levels, column in zip(columns.names, columns.levels, values.T, strict=True):
        missing = np.isnan(column)
        if levels:
            words = np.append(np.array(levels, dtype=object), "(new)")
            indices = np.where(missing, -1, np.minimum(column, len(levels))).astype(int)
            result[name] = pa.array(words[indices], pa.string(), mask=missing)
        else:
            result[name] = pa.array(column, pa.float64(), mask=missing)
    return pa.table(result)


def _is_table(data: Any) -> bool:
    if getattr(data, "ndim", 2) == 1:  # a single column
        return False
    return isinstance(data, (str, os.PathLike, dict, Table)) or any(
        hasattr(data, name) for name in ("__dataframe__", "__arrow_c_stream__")
    )


@dataclasses.dataclass(frozen=True)
class MonitorState(ReprMixin):
    """State of a monitor after some rows of a stream.

    Attributes:
        rows: number of rows so far.
        alpha: bound on the probability of ever raising an alarm if nothing changes.
        max_wealth: largest wealth of the bets so far over rows and scores, times the weight of the
            score. An alarm is raised when it reaches 1 / alpha.
        alarm: ``True`` if an alarm was raised.
        alarm_row: row of the alarm, counted from 1, or ``None``.
        change_point: estimate of the change point, from the rows up to the alarm, or ``None``.
        changes: changes of the scores of largest wealth at the alarm, without a test of each.
        change_point_time: times of the row, the lower and the upper end of ``change_point``, or
            ``None`` if times are unknown.
        repeated: number of rows that were dropped because their key is known.
        late: number of rows that are older than a row before them.
        notes: notes on the data and on the validity of the test.
    """

    rows: int
    alpha: float
    max_wealth: float
    alarm: bool
    alarm_row: int | None = None
    change_point: ChangePoint | None = None
    changes: tuple[Change, ...] = ()
    change_point_time: tuple[str, str, str] | None = None
    repeated: int = 0
    late: int = 0
    notes: tuple[str, ...] = ()

    @property
    def pvalue(self) -> float:
        """Anytime-valid p-value 1 / ``max_wealth``.

        If nothing changes, the probability that it is ever at most p is at most p.
        """
        return min(1.0, 1.0 / self.max_wealth)

    @property
    def e_value(self) -> float:
        """E-value for :func:`e_bh`: at any stopping time its expectation is at most 1.

        The expectation of the running maximum ``max_wealth`` = x is unbounded. It is calibrated to
        (x - 1 - log x) / log(x)^2 (Vovk and Wang 2021, at the p-value 1 / x).
        """
        return calibrate_wealth(float(np.log(self.max_wealth)))

    def to_dataframe(self) -> pd.DataFrame:
        """Return one row for each change, in the order of ``changes``.

        Columns: its ``description``; ``columns``, their names joined by commas; and its ``wealth``.
        """
        import pandas as pd

        rows = [
            (change.description, ", ".join(change.columns), change.wealth)
            for change in self.changes
        ]
        return pd.DataFrame(rows, columns=["description", "columns", "wealth"])

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        point = self.change_point
        return {
            "rows": self.rows,
            "alpha": self.alpha,
            "max_wealth": self.max_wealth,
            "pvalue": self.pvalue,
            "e_value": self.e_value,
            "alarm": self.alarm,
            "alarm_row": self.alarm_row,
            "change_point": point and dict(zip(("row", "low", "high", "cut"), point, strict=True)),
            "change_point_time": self.change_point_time,
            "changes": [
                {
                    "description": change.description,
                    "columns": change.columns,
                    "wealth": change.wealth,
                }
                for change in self.changes
            ],
            "repeated": self.repeated,
            "late": self.late,
            "notes": list(self.notes),
        }

    @property
    def summary_line(self) -> str:
        """Summary in one line."""
        rows = pluralize(self.rows, "row")
        if self.rows == 0:
            return f"{rows}: no result yet"
        if not self.alarm:
            return (
                f"{rows}: no change (largest wealth {self.max_wealth:.3g}, alarm at "
                f"{1.0 / self.alpha:g})"
            )
        changes = ", ".join(map(str, self.changes[:2])) or "rows differ"
        return (
            f"{rows}: CHANGE at {self.change_point_text}: {changes} "
            f"(alarm since row {self.alarm_row})"
        )

    @property
    def change_point_text(self) -> str:
        """Change point as text, with its time if known."""
        if self.change_point_time is None:
            return str(self.change_point)
        time, low, high = self.change_point_time
        is_censored = self.change_point is not None and self.change_point.censored
        interval = "" if low == high else f" (90 % interval {low} to {high})"
        return f"{'or before ' if is_censored else ''}{time}{interval}, {self.change_point}"

    def __str__(self) -> str:
        lines = [self.summary_line]
        if self.alarm:
            lines.append(
                f"Largest wealth of the bets so far: {self.max_wealth:.3g}. If nothing changed, "
                f"the probability of an alarm at any row would be at most {self.alpha:g}."
            )
            lines += [f"  {x} (wealth {x.wealth:.3g} at the alarm)" for x in self.changes]
        if self.repeated:
            lines.append(f"{pluralize(self.repeated, 'repeated row')} dropped.")
        if self.late:
            lines.append(f"{pluralize(self.late, 'late row')} used in the order of arrival.")
        return printable_lines("\n".join([*lines, *self.notes]))


def calibrate_wealth(log_wealth: float) -> float:
    """Compute the e-value of a running maximum of wealth, from its logarithm."""
    if log_wealth <= 1e-6:
        return 0.5
    return float((np.expm1(log_wealth) - log_wealth) / log_wealth**2)


def wealth_of_e_value(e_value: float) -> float:
    """Compute the running maximum of wealth with this e-value; 1 for e-values of at most 0.5."""
    if e_value <= 0.5:
        return 1.0
    upper = 2.0 * np.log(e_value) + 9.0
    return float(np.exp(brentq(lambda log: calibrate_wealth(log) - e_value, 0.0, upper)))
