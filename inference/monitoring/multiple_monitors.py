"""Monitors of many streams, with control of the false discovery rate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.errors import InputError
from ..core.names import join_names, printable_lines
from ..core.notebook import ReprMixin
from ..data.checks import check_alpha, check_count, check_proportion, pluralize
from ..io.columns import as_values
from ..io.tables import Table, as_table, column_name
from ..tables.pooling import split_by
from .monitor import Monitor, MonitorState, small_reference_note, start_test, wealth_of_e_value
from .row_reader import table_reader
from .stream_checks import ArrivalLog

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Largest number of streams that are listed in a summary.
MAX_LISTED = 6


class Monitors(ReprMixin):
    """Monitor many streams, each against its rows of a reference.

    At any row, the expected proportion of streams without a change among those of :attr:`changed`
    is at most ``alpha``, whatever the dependence between the streams (:func:`e_bh`). The alarm of a
    single monitor controls the probability of a false alarm of that stream only.

    Attributes:
        alpha: false discovery rate.
        by: column with the names of the streams.
        monitors: the :class:`~bke.inference.Monitor` of each stream, by its name.
        notes: notes on the data.
    """

    def __init__(
        self,
        reference: Any,
        by: str,
        *,
        alpha: float = 0.05,
        exclude: Sequence[str] = (),
        column_types: Mapping[str, str] | None = None,
        na_values: Sequence[str | float] = (),
        formats: Sequence[str] = (),
        key: str | None = None,
        time: str | None = None,
        encoding: str | None = None,
        seed: int = 0,
    ) -> None:
        """Start the monitors.

        Args:
            reference: a table, as for :class:`~bke.inference.Monitor`, with at least 20 rows of
                each stream. A column has the same type in all streams.
            by: column with the names of the streams.
            alpha: false discovery rate; also the level of the alarm of each monitor.
            exclude: columns that are not monitored.
            column_types: types of columns, instead of the inferred ones.
            na_values: cells that stand for a missing value.
            formats: names of formats of numbers in text, if cells match several.
            key: column that identifies the rows of a stream.
            time: column of times.
            encoding: encoding of a text file, by default UTF-8.
            seed: seed of each monitor.

        Raises:
            InputError: if the reference or an argument is invalid.
        """
        self.alpha = check_alpha(alpha)
        check_count(seed, "seed", 0, 2**63 - 1)
        self.by = by = column_name(by)
        key, time = map(column_name, (key, time))
        table = as_table(reference, "reference", encoding)
        self._na_values = as_values(na_values)
        parts, notes = split_by(table, by, self._na_values)
        reader, _ = table_reader(
            table,
            [*as_values(exclude), by, *ArrivalLog(key, time).columns],
            column_types,
            self._na_values,
            formats,
        )
        self.monitors: dict[str, Monitor] = {}
        sizes = []
        for name, part in parts.items():
            values, _ = reader.values(part)
            sizes.append(len(values))
            test, serial = start_test(reader, values, alpha, seed, part.source)
            self.monitors[name] = Monitor._from_parts(
                (reader._replace(notes=()), test, ArrivalLog(key, time), serial, ())
            )
        self.notes: tuple[str, ...] = (*reader.notes, *notes, *small_reference_note(sizes))

    def update(self, rows: Any) -> dict[str, MonitorState]:
        """Test the next rows of all streams, a table with their names in the column ``by``.

        Returns:
            The state of each stream that has rows in the table.

        Raises:
            InputError: if rows cannot be read.
        """
        table = rows if isinstance(rows, Table) else as_table(rows, "rows")
        self._first._reader.values(table)  # refused rows change no stream
        parts, has_unnamed_rows = split_by(table, self.by, self._na_values)
        notes = []
        if has_unnamed_rows:
            notes.append(f"Rows without a value of {self.by!r} are dropped.")
        if unknown := [name for name in parts if name not in self.monitors]:
            notes.append(f"{self.by} {unknown[0]} is not in the reference: its rows are dropped.")
        self.notes = tuple(dict.fromkeys([*self.notes, *notes]))
        return {
            name: self.monitors[name].update(part)
            for name, part in parts.items()
            if name in self.monitors
        }

    @property
    def changed(self) -> tuple[str, ...]:
        """Names of the streams with a change, in decreasing order of their e-values."""
        e_values = np.array([monitor.state.e_value for monitor in self.monitors.values()])
        names = list(self.monitors)
        rejected = np.flatnonzero(e_bh(e_values, self.alpha))
        return tuple(names[index] for index in sorted(rejected, key=lambda i: -e_values[i]))

    @property
    def e_value_threshold(self) -> float:
        """Smallest e-value of a stream in :attr:`changed`, or of the first such stream."""
        return len(self.monitors) / (self.alpha * max(1, len(self.changed)))

    @property
    def wealth_threshold(self) -> float:
        """Wealth whose e-value is :attr:`e_value_threshold`."""
        return wealth_of_e_value(self.e_value_threshold)

    @property
    def alarm(self) -> bool:
        """True if a stream has changed."""
        return bool(self.changed)

    @property
    def all_columns(self) -> tuple[str, ...]:
        """Names of all columns of the reference, in its order."""
        return self._first.all_columns

    @property
    def required_columns(self) -> tuple[str, ...]:
        """Names of the columns that rows must have."""
        return (self.by, *self._first.required_columns)

    @property
    def numeric_columns(self) -> tuple[str, ...]:
        """Names of the monitored columns of numbers."""
        return self._first.numeric_columns

    @property
    def _first(self) -> Monitor:
        return next(iter(self.monitors.values()))

    @property
    def _num_rows(self) -> int:
        return sum(monitor.state.rows for monitor in self.monitors.values())

    def plot(self, *, ax: Axes | None = None) -> Figure:
        """Plot the wealth of all streams by rows, with colors for streams that have changed."""
        from ..plots.monitoring import plot_monitors

        return plot_monitors(self, ax=ax)

    @property
    def summary_line(self) -> str:
        """Summary in one line."""
        changed, streams = self.changed, pluralize(len(self.monitors), "stream")
        text = f"{pluralize(self._num_rows, 'row')} of {streams}: "
        if not changed:
            return f"{text}no change"
        names = join_names(changed, MAX_LISTED)
        rate = f"false discovery rate at most {self.alpha:.0%}"
        return f"{text}CHANGE in {pluralize(len(changed), 'stream')} ({rate}): {names}"

    def to_dataframe(self) -> pd.DataFrame:
        """Return one row for each stream, in the order of ``monitors``.

        Columns: ``stream``, its name; number of ``rows``; ``max_wealth``, its largest wealth;
        ``e_value``; ``changed``, whether it is in :attr:`changed`; ``alarm``, whether its monitor
        raised an alarm; ``alarm_row``, or NaN; and ``changes``, their descriptions.
        """
        import pandas as pd

        changed = self.changed
        header = [
            "stream",
            "rows",
            "max_wealth",
            "e_value",
            "changed",
            "alarm",
            "alarm_row",
            "changes",
        ]
        rows = []
        for name, monitor in self.monitors.items():
            state = monitor.state
            alarm_row = float("nan") if state.alarm_row is None else state.alarm_row
            changes = "; ".join(map(str, state.changes))
            values = (state.rows, state.max_wealth, state.e_value)
            rows.append((name, *values, name in changed, state.alarm, alarm_row, changes))
        return pd.DataFrame(rows, columns=header)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, with the states of the streams that have changed."""
        return {
            "by": self.by,
            "alpha": self.alpha,
            "streams": len(self.monitors),
            "rows": self._num_rows,
            "changed": {name: self.monitors[name].to_dict() for name in self.changed},
            "e_value_threshold": self.e_value_threshold,
            "e_values": {name: monitor.state.e_value for name, monitor in self.monitors.items()},
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        lines = [self.summary_line]
        for name in self.changed[:MAX_LISTED]:
            state = self.monitors[name].state
            time = f" change at {state.change_point_text};" if state.alarm else ""
            changes = ", ".join(map(str, state.changes[:2]))
            lines.append(f"  {self.by} {name}:{time} {changes}".rstrip("; "))
        return printable_lines("\n".join([*lines, *self.notes]))


def e_bh(e_values: Iterable[float], alpha: float = 0.05) -> np.ndarray:
    """Reject null hypotheses by the e-BH procedure.

    The k largest e-values are rejected, for the largest k such that the k-th is at least
    K / (alpha k). The expected proportion of true hypotheses among the rejected ones is at most
    ``alpha``, whatever the dependence between the e-values (Wang and Ramdas 2022, theorem 2).
    E-values of monitors (:attr:`~bke.inference.MonitorState.e_value`) are valid at any row.

    Args:
        e_values: (K,), at least 0.
        alpha: false discovery rate.

    Returns:
        (K,) of bool, true for rejected hypotheses.

    Raises:
        InputError: if an e-value is negative or NaN, or ``alpha`` is not a proportion.
    """
    check_proportion(alpha, "alpha")
    values = np.asarray(list(e_values), dtype=float)
    if values.ndim != 1 or not (values >= 0.0).all():
        raise InputError("e_values must be numbers of at least 0")
    ordered = np.sort(values)[::-1]
    is_rejected = ordered * np.arange(1, len(values) + 1) >= len(values) / alpha
    smallest = ordered[np.flatnonzero(is_rejected)[-1]] if is_rejected.any() else np.inf
    return np.asarray(values >= smallest)
