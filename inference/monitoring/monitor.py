"""Watch a stream of rows against a reference sample, with evidence that is valid at every row."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from collections.abc import Mapping, Sequence, Sized
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.errors import InputError
from ..core.machine import computing
from ..core.notebook import Shown
from ..data.checks import check_alpha, check_count, normalize_text, pluralize
from ..io.tables import Table, as_table
from .arrivals import Arrivals
from .copies import LOOKED_AT, copied, known_rows
from .row_reader import RowReader, array_reader, table_reader
from .saved import Parts, read_monitor, write_monitor
from .serial import Serial
from .state import Change, MonitorState
from .watch import Watch

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..comparison.comparison import Comparison
    from ..tables.result import TableComparison

#: Rows that a reference needs, and with which it is no longer small; notes that are kept; rows of
#: an update that are few.
LEAST, ENOUGH, NOTES, FEW = 20, 50, 12, 64


class Monitor(Shown):
    """Watch a stream: has it changed, since when, and where?

    Rows of the stream are ranked, one by one, among those of the reference and of the stream so far
    by some dozens of scores: columns, levels and holes, products of pairs, directions, distances,
    places, and witnesses of kernels that are learned on the way. Ranks of rows that are
    exchangeable are independent and uniform, however few rows the reference has, so that bets on
    them make martingales. Evidence is the largest capital that such bets have won, each times its
    score's share of 1. If the rows of the stream are drawn as those of the reference, the chance
    that it ever reaches 1 / alpha is at most alpha, however long and however often one looks
    (conformal test martingales, Vovk, Gammerman and Shafer 2005, chapter 8; Ville's inequality).

    That does not hold of rows that follow one another, as the temperature of every minute: a note
    tells where neighbours go together.

    Attributes:
        state: what is known so far, a :class:`~bke.inference.MonitorState`.
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
        """Begin to watch.

        Args:
            reference: rows as they should be, at least 20: an array (n, D) or (n,), where NaN is a
                missing value; or for mixed columns a data frame, a dictionary of columns, or the
                path of a file, as :func:`~bke.inference.compare_tables` takes them.
            alpha: the chance of ever raising an alarm where nothing changes.
            columns: names of the columns of an array.
            exclude: columns that are not watched.
            column_types: types of columns, in place of those that are inferred from their cells.
            na_values: cells that stand for a missing value, such as -999.
            formats: names of formats of numbers in text, where cells fit several.
            key: a column that tells rows apart: a row of the stream whose key is among the last
                100,000 is left out.
            time: a column of when rows came about, in which a change is told; rows that are older
                than one before them are counted, and taken in the order of arrival.
            encoding: of a text file, by default UTF-8.
            seed: of the rows by which scores are chosen, and of what breaks ties.

        Raises:
            InputError: for a reference or arguments that make no sense.
        """
        check_alpha(alpha)
        check_count(seed, "seed", 0, 2**63 - 1)
        key, time = map(normalize_text, (key, time))
        self._arrivals = Arrivals(key, time)
        if _is_table(reference):
            if columns is not None:
                raise InputError(
                    "columns are names for an array, and the reference is a table: leave columns "
                    "of a table out with exclude"
                )
            table = as_table(reference, "reference", encoding)
            apart = [name for name in (key, time) if name is not None]
            self._reader, values = table_reader(
                table,
                [*exclude, *apart],
                dict(column_types or {}),
                na_values,
                formats,
            )
        else:
            given = {
                "exclude": exclude,
                "column_types": column_types,
                "na_values": na_values,
                "formats": formats,
            }
            given |= {"key": key, "time": time}
            if odd := [name for name, value in given.items() if value]:
                raise InputError(f"{odd[0]} is about tables, and the reference is an array")
            self._reader, values = array_reader(reference, columns)
        self._watch, self._serial = begun(self._reader, values, alpha, seed)
        self._notes = small([len(values)])

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are watched."""
        return self._reader.columns.names

    @property
    def given(self) -> tuple[str, ...]:
        """All columns of the reference, in its order."""
        return self._reader.all_columns

    @property
    def needed(self) -> tuple[str, ...]:
        """The columns that rows of a table must have."""
        apart = (self._arrivals.key, self._arrivals.time)
        return (*self.columns, *(name for name in apart if name is not None))

    @property
    def numeric(self) -> tuple[str, ...]:
        """Those of ``columns`` that hold numbers."""
        kinds = zip(self.columns, self._reader.types, strict=True)
        return tuple(name for name, kind in kinds if kind in ("number", "integer"))

    def update(self, rows: Any, *, beside: Any = None) -> MonitorState:
        """Watch the next rows of the stream, in their order.

        However a stream is cut into updates, what is found is the same.

        Args:
            rows: as the reference: (n, D), or a table with its columns in any order; a dictionary
                of one row's cells is one row. No rows are fine.
            beside: rows of a second stream that are as the reference's, and are added to it: two
                streams are compared as they come. Both must be drawn independently from one
                distribution that does not change where none is to be found.

        Returns:
            What is known now.

        Raises:
            InputError: rows that cannot be read; nothing of them has been taken then.
        """
        arrivals = dataclasses.replace(self._arrivals)
        values, notes = self._values(rows, arrivals)
        more, told = self._values(beside, None) if beside is not None else (values[:0], [])
        if self._watch.rows < LOOKED_AT:
            told += copied(values[:LOOKED_AT], self._known)
        # Setting threads takes longer than few rows do.
        few = len(values) + len(more) <= FEW
        with contextlib.nullcontext() if few else computing():
            self._watch.count(more)
            if len(values) and self._watch.alarm is None:
                self._serial = self._serial.after(self._watch.scores.normal(values))
            before = self._watch.alarm
            self._watch.see(values)
        alarm = self._watch.alarm
        if before is None and alarm is not None:
            rows_of = (alarm.since.row, alarm.since.low, alarm.since.high)
            times = arrivals.times_of(rows_of, self._watch.rows)
            self._watch.alarm = alarm._replace(times=times)
        self._arrivals = arrivals.trimmed()
        if arrivals.unread:
            told.append(
                f"{arrivals.time!r} of some rows is no time: they are not told late or early."
            )
        self._notes = tuple(dict.fromkeys([*self._notes, *notes, *told]))[:NOTES]
        return self.state

    @property
    def state(self) -> MonitorState:
        """What is known so far."""
        watch, arrivals = self._watch, self._arrivals
        columns = self._reader.columns
        numbers = [name for name, one in zip(columns.names, columns.numbers, strict=True) if one]
        serial = self._serial.note(numbers)
        alarm = watch.alarm
        found = MonitorState(
            rows=watch.rows,
            alpha=watch.alpha,
            evidence=watch.evidence,
            alarm=alarm is not None,
            repeated=arrivals.repeated,
            late=arrivals.late,
            notes=(*self._reader.notes, *self._notes, *([serial] if serial else [])),
        )
        if alarm is None:
            return found
        where = tuple(Change(*one) for one in alarm.what)
        return dataclasses.replace(
            found,
            row=alarm.row,
            since=alarm.since,
            since_time=alarm.times,
            where=where,
        )

    @functools.cached_property
    def _known(self) -> frozenset[bytes]:
        return known_rows(self._watch.apart)

    @property
    def alarm(self) -> bool:
        """Whether there was an alarm."""
        return self._watch.alarm is not None

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know."""
        return self.state.notes

    @property
    def line(self) -> str:
        """What is known so far, in one line."""
        return self.state.line

    def to_dataframe(self) -> pd.DataFrame:
        """What has changed so far, see :meth:`~bke.inference.MonitorState.to_dataframe`."""
        return self.state.to_dataframe()

    def to_dict(self) -> dict[str, Any]:
        """What is known so far as plain data, for JSON."""
        return self.state.to_dict()

    def difference(self, **options: Any) -> Comparison | TableComparison:
        """Compare the reference with the rows since the change, with places and pictures.

        The rows are those that are kept, the last 4096 at most. They were chosen by what they are,
        so that the p-values of this comparison say how large a difference is against chance, not
        how rarely there would be an alarm; that is what the monitor's evidence says.

        Args:
            options: of :func:`~bke.inference.compare`, or of
                :func:`~bke.inference.compare_tables` where columns are not all numbers or have
                holes.

        Raises:
            InputError: there was no alarm, or fewer than two rows are there since the change.
        """
        from .contrast import contrast

        return contrast(self._watch, self._reader, options)

    def plot(self, *, ax: Axes | None = None) -> Figure:
        """Draw the evidence by rows, the alarm, and since when."""
        from ..plots.monitoring import plot_monitor

        return plot_monitor(self, ax=ax)

    @property
    def history(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows (h,) and the evidence (h,) after each, thinned to at most 2048."""
        return self._watch.history.rows, self._watch.history.evidence

    def to_file(self, path: str | os.PathLike[str]) -> None:
        """Write all of the state, whole or not at all, so that a monitor goes on from it.

        The file is as confidential as the data: up to 3000 rows of the reference and 4096 of the
        stream are in it. Its size does not grow with the stream.
        """
        parts = (self._reader, self._watch, self._arrivals, self._serial, self._notes)
        write_monitor(Parts(*parts), path)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Monitor:
        """Go on from what :meth:`to_file` wrote.

        Raises:
            InputError: the file is no monitor's, or is damaged.
        """
        return cls._of(*read_monitor(path))

    def begun_as(self, other: Monitor) -> bool:
        """Whether another monitor was begun with the same reference, read in the same way."""
        mine, its = self._watch, other._watch
        alike = self._reader.columns.names == other._reader.columns.names
        return alike and all(
            np.array_equal(one, two, equal_nan=True)
            for one, two in ((mine.apart, its.apart), (mine.ranked, its.ranked))
        )

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments that it was begun with, but for the reference and how that is read."""
        watch, arrivals = self._watch, self._arrivals
        return {
            "alpha": watch.alpha,
            "key": arrivals.key,
            "time": arrivals.time,
            "seed": watch.seed,
        }

    @classmethod
    def _of(
        cls,
        reader: RowReader,
        watch: Watch,
        arrivals: Arrivals,
        serial: Serial,
        notes: tuple[str, ...],
    ) -> Monitor:
        """Put a monitor together from its parts."""
        found = cls.__new__(cls)
        found._reader, found._watch, found._arrivals = reader, watch, arrivals
        found._serial, found._notes = serial, notes
        return found

    def _values(self, rows: Any, arrivals: Arrivals | None) -> tuple[np.ndarray, list[str]]:
        """Values (n, C) of rows, those that have come twice left out, and what was odd."""
        if not self._reader.is_table:
            if isinstance(rows, Sized) and len(rows) == 0:
                return np.empty((0, len(self.columns))), []
            return self._reader.values(rows)
        if isinstance(rows, Mapping):
            rows = {name: cells if _is_column(cells) else [cells] for name, cells in rows.items()}
        if getattr(rows, "ndim", 2) == 1 and hasattr(rows, "items"):  # one row of pandas
            rows = {str(label): [cell] for label, cell in rows.items()}
        if not isinstance(rows, Table):
            if isinstance(rows, Sized) and not isinstance(rows, str) and len(rows) == 0:
                return np.empty((0, len(self.columns))), []
            rows = as_table(rows, "rows")
        if arrivals is not None:
            rows = arrivals.taken(rows)
        return self._reader.values(rows)

    def __str__(self) -> str:
        return str(self.state)

    def __repr__(self) -> str:
        return f"<Monitor of {pluralize(len(self.columns), 'column')}, {self.state.line}>"


def begun(
    reader: RowReader, values: np.ndarray, alpha: float, seed: int, name: str = "the reference"
) -> tuple[Watch, Serial]:
    """Begin to watch with values (n, C) of a reference, of which messages speak by ``name``."""
    if len(values) < LEAST:
        raise InputError(
            f"{name} has {pluralize(len(values), 'row')}, and at least {LEAST} are needed"
        )
    with computing():
        watch = Watch.of(reader.columns, values, alpha, seed)
    return watch, Serial.of(int(reader.columns.numbers.sum()))


def small(sizes: Sequence[int]) -> tuple[str, ...]:
    """A note on references of so many rows each, some of which hardly tell a change."""
    few = [size for size in sizes if size < ENOUGH]
    if not few:
        return ()
    of = "" if len(sizes) == 1 else f" of {len(few)} of {len(sizes)} streams"
    rows = str(few[0]) if min(few) == max(few) else f"{min(few)} to {max(few)}"
    return (
        f"The reference{of} has {rows} rows: with so few hardly any change smaller than a standard "
        "deviation of a column raises an alarm; 100 or more are better.",
    )


def _is_table(given: Any) -> bool:
    frames = ("__dataframe__", "__arrow_c_stream__")
    if getattr(given, "ndim", 2) == 1:  # a single column
        return False
    return isinstance(given, (str, os.PathLike, dict, Table)) or any(
        hasattr(given, name) for name in frames
    )


def _is_column(cells: Any) -> bool:
    return not isinstance(cells, (str, bytes)) and hasattr(cells, "__len__")
