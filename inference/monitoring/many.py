"""Alarms of many streams at a time, of which a known share is false."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.errors import InputError
from ..core.notebook import Shown
from ..data.checks import check_alpha, check_count, check_proportion, normalize_text, pluralize
from ..io.columns import as_values
from ..io.tables import Table, as_table
from ..tables.pooling import split_by
from .arrivals import Arrivals
from .monitor import Monitor, begun, small
from .row_reader import table_reader
from .state import MonitorState, evidence_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Streams that are named in a line.
NAMED = 6


class Monitors(Shown):
    """Watch many streams at a time, each against its own rows of a reference.

    Of the streams in :attr:`changed` a share of at most ``alpha`` has not, on average, at whatever
    row one looks and however the streams hang together (:func:`e_bh`). One stream's own alarm
    controls the chance of a false alarm of that stream alone.

    Attributes:
        alpha: the share.
        each: the :class:`~bke.inference.Monitor` of every stream, by its name.
        notes: what a reader should know.
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
        """Begin to watch.

        Args:
            reference: a table, as of :class:`~bke.inference.Monitor`, with at least 20 rows of each
                stream. Columns are of one kind in all of them.
            by: the column that tells the streams apart.
            alpha: see above; also the level of each monitor's own alarm.
            exclude: columns that are not watched.
            column_types: types of columns, in place of those that are inferred from their cells.
            na_values: cells that stand for a missing value.
            formats: names of formats of numbers in text, where cells fit several.
            key: a column that tells the rows of a stream apart.
            time: a column of when rows came about.
            encoding: of a text file, by default UTF-8.
            seed: as of a monitor.

        Raises:
            InputError: for a reference or arguments that make no sense.
        """
        self.alpha = check_alpha(alpha)
        check_count(seed, "seed", 0, 2**63 - 1)
        self.by = by = normalize_text(by)
        key, time = map(normalize_text, (key, time))
        table = as_table(reference, "reference", encoding)
        na_values = as_values(na_values)
        parts, notes = split_by(table, by, na_values)
        apart = [name for name in (by, key, time) if name is not None]
        reader, _ = table_reader(
            table,
            [*exclude, *apart],
            dict(column_types or {}),
            as_values(na_values),
            as_values(formats),
        )
        self.notes = (*reader.notes, *notes)
        self._na_values, self._given = tuple(na_values), tuple(table.data.column_names)
        self.each: dict[str, Monitor] = {}
        sizes = []
        for name, part in parts.items():
            values, _ = reader.values(part)
            sizes.append(len(values))
            watch, serial = begun(reader, values, alpha, seed, part.source)
            self.each[name] = Monitor._of(
                reader._replace(notes=()), watch, Arrivals(key, time), serial, ()
            )
        self.notes += small(sizes)

    def update(self, rows: Any) -> dict[str, MonitorState]:
        """Watch the next rows of all streams, a table with their names in the column ``by``.

        Returns:
            What is known of each stream of which there were rows.

        Raises:
            InputError: rows that cannot be read.
        """
        table = rows if isinstance(rows, Table) else as_table(rows, "rows")
        parts, without = split_by(table, self.by, self._na_values)
        if without:
            told = f"Rows without a value of {self.by!r} are left out."
            self.notes = tuple(dict.fromkeys([*self.notes, told]))
        unknown = [name for name in parts if name not in self.each]
        if unknown:
            told = f"{self.by} {unknown[0]} is not in the reference: its rows are left out."
            self.notes = tuple(dict.fromkeys([*self.notes, told]))
        return {
            name: self.each[name].update(part) for name, part in parts.items() if name in self.each
        }

    @property
    def changed(self) -> tuple[str, ...]:
        """Streams that have changed, at a false discovery rate of alpha; the surest first."""
        values = np.array([monitor.state.e_value for monitor in self.each.values()])
        names = np.array(list(self.each))
        order = np.argsort(-values, kind="stable")
        return tuple(str(name) for name in names[order[e_bh(values[order], self.alpha)]])

    @property
    def needed_e_value(self) -> float:
        """The e-value from which on a stream is in :attr:`changed`, or would be the first of it."""
        return len(self.each) / (self.alpha * max(1, len(self.changed)))

    @property
    def alarm(self) -> bool:
        """Whether a stream has changed."""
        return bool(self.changed)

    @property
    def limit(self) -> float:
        """The evidence whose e-value is :attr:`needed_e_value`."""
        return evidence_of(self.needed_e_value)

    @property
    def given(self) -> tuple[str, ...]:
        """All columns of the reference, in its order."""
        return self._given

    @property
    def needed(self) -> tuple[str, ...]:
        """The columns that rows must have."""
        return (self.by, *next(iter(self.each.values())).needed)

    @property
    def numeric(self) -> tuple[str, ...]:
        """The columns that hold numbers."""
        return next(iter(self.each.values())).numeric

    def plot(self, *, ax: Axes | None = None) -> Figure:
        """Draw the evidence of all streams by rows, those that have changed in colour."""
        from ..plots.monitoring import plot_monitors

        return plot_monitors(self, ax=ax)

    @property
    def line(self) -> str:
        """One line."""
        changed = self.changed
        rows = sum(monitor.state.rows for monitor in self.each.values())
        told = f"{pluralize(rows, 'row')} of {pluralize(len(self.each), 'stream')}: "
        if not changed:
            return f"{told}none has changed"
        more = len(changed) - NAMED
        names = ", ".join(changed[:NAMED]) + (f" and {more} more" if more > 0 else "")
        return f"{told}{len(changed)} CHANGED (at most {self.alpha:.0%} of them by chance): {names}"

    def to_dataframe(self) -> pd.DataFrame:
        """One row for each stream, in the order of ``each``.

        Columns: ``stream``, its name; ``rows`` seen; ``evidence`` and ``e_value``; ``changed``,
        whether it is among :attr:`changed`; ``alarm``, its own; ``row`` of that, NaN where there is
        none; and ``what`` has changed, in words.
        """
        import pandas as pd

        changed = self.changed
        header = ["stream", "rows", "evidence", "e_value", "changed", "alarm", "row", "what"]
        rows = []
        for name, monitor in self.each.items():
            state = monitor.state
            told = "; ".join(map(str, state.where))
            row = float("nan") if state.row is None else state.row
            seen = (state.rows, state.evidence, state.e_value)
            rows.append((name, *seen, name in changed, state.alarm, row, told))
        return pd.DataFrame(rows, columns=header)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON: the changed streams with all that is known of them."""
        return {
            "by": self.by,
            "alpha": self.alpha,
            "streams": len(self.each),
            "rows": sum(monitor.state.rows for monitor in self.each.values()),
            "changed": {name: self.each[name].state.to_dict() for name in self.changed},
            "needed_e_value": self.needed_e_value,
            "e_values": {name: one.state.e_value for name, one in self.each.items()},
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        lines = [self.line]
        for name in self.changed[:NAMED]:
            state = self.each[name].state
            what = ", ".join(map(str, state.where[:2]))
            when = f" since {state.when}" if state.alarm else ""
            lines.append(f"  {self.by} {name}:{when} {what}".rstrip())
        return "\n".join([*lines, *self.notes])


def e_bh(e_values: Iterable[float], alpha: float = 0.05) -> np.ndarray:
    """Tell which of many null hypotheses to reject, by the e-BH procedure.

    Of the rejected ones a share of at most ``alpha`` is true on average, however the e-values hang
    together (Wang and Ramdas 2022, theorem 2): the k largest are rejected, for the largest k such
    that the k-th is at least K / (alpha k). E-values of monitors
    (:attr:`~bke.inference.MonitorState.e_value`) serve at whatever rows one looks.

    Args:
        e_values: (K,), at least 0.
        alpha: the false discovery rate.

    Returns:
        (K,) of bool.

    Raises:
        InputError: an e-value is negative or no number, or ``alpha`` no share.
    """
    check_proportion(alpha, "alpha")
    values = np.asarray(list(e_values), dtype=float)
    if values.ndim != 1 or not (values >= 0.0).all():
        raise InputError("e_values must be numbers that are at least 0")
    if not len(values):
        return np.zeros(0, dtype=bool)
    ordered = np.sort(values)[::-1]
    enough = ordered * np.arange(1, len(values) + 1) >= len(values) / alpha
    least = ordered[np.flatnonzero(enough)[-1]] if enough.any() else np.inf
    return np.asarray(values >= least)
