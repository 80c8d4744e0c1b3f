"""Pool two tables: columns of one name together, each of one type; all problems are reported."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..core.errors import InputError, check_choice
from ..data.checks import pluralize
from ..data.copies import duplicate_rows_note, shared_rows_note
from ..io.columns import (
    MAX_PROBLEMS,
    ReadOptions,
    column_array,
    no_column,
    typed_columns,
    unused_notes,
)
from ..io.formats import PLAIN, as_floats, matches, normalize_words, strip_zeros
from ..io.tables import Table
from ..io.types import (
    IDENTIFIER,
    Column,
    TypedColumn,
    as_identifier,
    value_text,
)
from ..permutation.serial import serial_note
from .counted import NOT_COUNTED, Counted, counted_rows

#: Ratio of the mean rows per cluster of both tables from which a note warns.
CLUSTER_SIZE_RATIO = 2.0
#: What is done with numbers that look like sentinels of missing values.
SENTINEL_CHOICES = ("warn", "missing", "keep")


class Pooled(NamedTuple):
    """Columns of both tables.

    Attributes:
        columns: columns that are compared.
        rows: number of rows of the first table, which come first in every column.
        left_out: other columns, and reasons.
        notes: notes on how columns were read.
        role_columns: columns with a role, which are not compared, by name.
        names: names of the tables, where a column divides one.
        counted: weight of each row.
        independent: there are no clusters.
    """

    columns: tuple[Column, ...]
    rows: int
    left_out: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    role_columns: dict[str, Column]
    names: tuple[str, str] | None
    counted: Counted = NOT_COUNTED
    independent: bool = True

    @property
    def sizes(self) -> tuple[int, int]:
        """Number of rows of each table, as often as they count."""
        counts = self.counted.counts
        if counts is None:
            return self.rows, len(self.columns[0].values) - self.rows
        return int(counts[: self.rows].sum()), int(counts[self.rows :].sum())

    @property
    def weights(self) -> np.ndarray:
        """Weight of each row, (N,)."""
        return self.counted.of(len(self.columns[0].values))

    @property
    def weights_by_table(self) -> np.ndarray:
        """Weight of each row, (N,), by the weights of its table alone."""
        return self.counted.of_each(len(self.columns[0].values), self.rows)


class Roles(NamedTuple):
    """Columns with a role in the test, which are not compared.

    Attributes:
        clusters: rows of equal values depend on each other.
        strata: rows are exchangeable within equal values alone.
        freq_weights: number of equal rows that each row stands for.
        weights: weight of each row.
    """

    clusters: str | None = None
    strata: str | None = None
    freq_weights: str | None = None
    weights: str | None = None

    def checked(self) -> Roles:
        """Refuse what is no name of a column."""
        for role, name in self._asdict().items():
            if name is not None and not isinstance(name, str):
                raise InputError(
                    f"{role} must be the name of a column, got {type(name).__name__}: put its "
                    "values into a column of both tables"
                )
        if self.freq_weights is not None and self.weights is not None:
            raise InputError("give freq_weights or weights, not both")
        return self

    def sentences(self) -> tuple[str, ...]:
        """Describe the columns that have a role."""
        texts = {
            "rows of one {!r} are kept together, so that effects have no intervals": self.clusters,
            "labels are exchanged within {!r}": self.strata,
            "rows count as often as {!r} says": self.freq_weights,
            "rows are weighted by {!r}, so that the level is approximate": self.weights,
        }
        return tuple(text.format(name) for text, name in texts.items() if name is not None)

    def column_types(self) -> dict[str, str]:
        """Return the type of each column that has a role."""
        groups = dict.fromkeys((self.clusters, self.strata), "category")
        numbers = dict.fromkeys((self.freq_weights, self.weights), "number")
        return {name: type_ for name, type_ in {**groups, **numbers}.items() if name is not None}


def pooled(
    tables: Sequence[Table],
    by: str | None,
    exclude: Sequence[str],
    options: ReadOptions,
    roles: Roles,
) -> Pooled:
    """Pool the columns of two tables, or of one that a column divides.

    Args:
        tables: two tables, or one with ``by``.
        by: the column that divides one table.
        exclude: columns that are left out.
        options: options for reading the others.
        roles: columns with a role, which are not compared.

    Raises:
        InputError: one sentence with the problems of all columns.
    """
    if (len(tables) == 1) != (by is not None):
        raise InputError("give two tables, or one and by, the column that divides it")
    role_types = roles.column_types()
    used = {*exclude, *options.column_types, *role_types, *([by] if by else [])}
    _check_names(tables, used, set(exclude))
    check_choice(options.sentinels, "sentinels", SENTINEL_CHOICES)
    notes = [*read_notes(tables), *unused_notes(tables, options.na_values, options.formats)]
    names = None
    if by is not None:
        tables, names, without = _in_two(tables[0], by, options.na_values)
        notes += without
    chosen = [name for name in tables[0].data.column_names if name not in exclude]
    all_types = {**options.column_types, **role_types}
    columns = typed_columns(tables, chosen, options._replace(column_types=all_types))
    rows, how_often = tables[0].data.num_rows, NOT_COUNTED
    if roles.freq_weights is not None or roles.weights is not None:
        counts, weights = (
            columns[name].column if name else None for name in (roles.freq_weights, roles.weights)
        )
        how_often = counted_rows(counts, weights, rows)
        columns, rows, how_often = _with_positive_counts(columns, rows, how_often)
        notes += how_often.notes(len(next(iter(columns.values())).column.values), rows)
    notes += _cluster_notes(columns, roles.clusters, rows)
    notes += _dependence_notes(columns, rows, roles.clusters)
    notes += _repeated_identifiers(columns, {*role_types, *options.column_types}, roles.clusters)
    notes += _copies_notes(columns, rows, tables)
    notes += _serial_notes(columns, rows, roles)
    left_out, compared = [(name, "excluded") for name in exclude], []
    notes += [note for name in chosen for note in columns[name].notes]
    for name in chosen:
        if name in role_types:
            continue
        column, sentinel_notes = _without_sentinels(columns[name], options.sentinels)
        notes += sentinel_notes
        if options.identifiers and column.kind == "identifier":
            column = column._replace(kind="text")
        if reason := _uninformative(column):
            left_out.append((name, reason))
        else:
            compared.append(column)
    if not compared:
        reasons = ", ".join(f"{name!r} ({reason})" for name, reason in left_out) or "there is none"
        why = " ".join(note for name in chosen for note in columns[name].notes)
        raise InputError(f"no column can be compared: {reasons}{'. ' * bool(why)}{why}")
    notes += [_date_note(column) for column in compared if column.kind == "datetime"]
    notes += [
        f"{name!r} is left out: {reason}." for name, reason in left_out if reason != "excluded"
    ]
    return Pooled(
        tuple(compared),
        rows,
        tuple(left_out),
        tuple(notes),
        {name: columns[name].column for name in role_types},
        names,
        how_often,
        not roles.clusters,
    )


def _with_positive_counts(
    columns: dict[str, TypedColumn], rows: int, counted: Counted
) -> tuple[dict[str, TypedColumn], int, Counted]:
    """Return columns without rows that count for nothing, and the rows left of the first table."""
    positive = counted.of(len(next(iter(columns.values())).column.values)) > 0.0

    def restrict(column: Column) -> Column:
        values, levels = column.values[positive], column.levels
        if levels:
            used, index = np.unique(values, return_inverse=True, equal_nan=True)
            used = used[~np.isnan(used)].astype(int)
            values = np.where(np.isnan(values), np.nan, index)
            levels = tuple(levels[level] for level in used)
        return column._replace(values=values, levels=levels)

    restricted = {
        name: typed._replace(column=restrict(typed.column)) for name, typed in columns.items()
    }
    left = Counted(
        None if counted.counts is None else counted.counts[positive],
        None if counted.weights is None else counted.weights[positive],
        None if counted.given is None else restrict(counted.given),
    )
    return restricted, int(positive[:rows].sum()), left


def read_notes(tables: Sequence[Table]) -> list[str]:
    """Return the notes on how tables were read."""
    return [note for table in tables for note in table.notes]


def _cluster_notes(
    columns: Mapping[str, TypedColumn], clusters: str | None, rows: int
) -> list[str]:
    """Write a note where clusters have far more rows in one table than in the other."""
    if clusters is None:
        return []
    sizes, values = [], columns[clusters].column.values
    for part in (values[:rows], values[rows:]):
        known = part[~np.isnan(part)]
        sizes.append(len(known) / max(len(np.unique(known)), 1))
    if max(sizes) <= CLUSTER_SIZE_RATIO * min(sizes):
        return []
    return [
        f"Clusters of the first table have {sizes[0]:.3g} rows each on average, and of the second "
        f"{sizes[1]:.3g}: where these are so different p-values may be too small or too large."
    ]


def _dependence_notes(
    columns: Mapping[str, TypedColumn], rows: int, clusters: str | None, least_levels: int = 10
) -> list[str]:
    """Note columns that repeat, within whose values a column of numbers hardly varies.

    Args:
        columns: columns by name.
        rows: rows of the first table.
        clusters: the column of clusters; then there are no notes.
        least_levels: distinct values of such a column at least; not tuned, and neither are a
            hundredth of the variance and two rows for each value.
    """
    if clusters is not None:
        return []
    # Ranks of distinct values, by which an outlier does not make all others small.
    numbers = {
        name: np.unique(typed.column.values, return_inverse=True)[1].astype(float)
        for name, typed in columns.items()
        if typed.column.kind in ("number", "integer") and not np.isnan(typed.column.values).any()
    }
    numbers = {name: ranks for name, ranks in numbers.items() if ranks.max() >= least_levels}
    notes = []
    for name, typed in columns.items():
        if typed.column.kind not in ("category", "integer"):
            continue
        # A value in both tables is two.
        values = 2.0 * typed.column.values
        values[rows:] += 1.0
        _, level, counts = np.unique(values, return_inverse=True, return_counts=True)
        if len(counts) < least_levels or len(level) < 2 * len(counts):
            continue
        for other, values in numbers.items():
            if other == name:
                continue
            means = np.bincount(level, values) / counts
            if np.var(values) > 0.0 and np.var(values - means[level]) < 0.01 * np.var(values):
                notes.append(
                    f"Rows with one value of {name!r} have nearly one {other!r}. If such rows "
                    f"depend on each other, p-values are too small: keep them together with "
                    f"--clusters {name} (clusters={name!r})."
                )
                break
    return notes


def _copies_notes(
    columns: Mapping[str, TypedColumn], rows: int, tables: Sequence[Table]
) -> list[str]:
    """Note tables whose rows are copies of others."""
    if not columns:
        return []
    values = np.column_stack([typed.column.values for typed in columns.values()])
    values = np.nan_to_num(values, nan=-1.7e308)
    parts, names = (values[:rows], values[rows:]), (tables[0].source, tables[-1].source)
    notes = [
        note
        for part, name in zip(parts, names, strict=True)
        for note in duplicate_rows_note(part, name)
    ]
    notes += shared_rows_note(*parts, names)
    return [f"{note[0].upper()}{note[1:]}." for note in notes]


def _date_note(column: Column, day: float = 86_400.0) -> str:
    """Write what of a column of dates, or of times of a day, is not compared."""
    if np.nanmin(column.values) >= 0.0 and np.nanmax(column.values) < day:
        return (
            f"Of {column.name!r} the hours are compared, and not the minutes: convert it to "
            "seconds to compare these."
        )
    return (
        f"Of {column.name!r} weekdays and hours are compared, and not when the dates are: convert "
        "it to days to compare that."
    )


def _serial_notes(columns: Mapping[str, TypedColumn], rows: int, roles: Roles) -> list[str]:
    """Note rows that seem to depend on their predecessors, unless roles say how rows depend."""
    if any(roles):
        return []
    numeric = {
        name: typed.column.values
        for name, typed in columns.items()
        if typed.column.kind in ("number", "integer", "boolean")
    }
    if not numeric:
        return []
    values = np.column_stack(list(numeric.values()))
    notes = serial_note([values[:rows], values[rows:]], list(numeric))
    return [
        f"{note[0].upper()}{note[1:]}: keep the rows of a day, or of another block, together with "
        "--clusters (clusters=)."
        for note in notes
    ]


def _repeated_identifiers(
    columns: dict[str, TypedColumn],
    excluded: set[str],
    clusters: str | None,
    least_repeats: float = 1.5,
    least_values: int = 10,
) -> list[str]:
    """Take columns that are named as identifiers and repeat for such; write notes on them.

    Args:
        columns: columns by name, replaced in place.
        excluded: names of columns whose type or role the user has set.
        clusters: the column of clusters; then there are no notes.
        least_repeats: rows for each value on average; not tuned.
        least_values: distinct values; not tuned.
    """
    notes = []
    for name, typed in columns.items():
        column = typed.column
        is_named = name not in excluded and IDENTIFIER.search(name) is not None
        if not is_named or column.kind not in ("integer", "category"):
            continue
        known = column.values[~np.isnan(column.values)]
        count = len(np.unique(known))
        if count < least_values or len(known) < least_repeats * count:
            continue
        columns[name] = typed._replace(column=as_identifier(column))
        repeats = f"{len(known) / count:.3g} times on average"
        notes.append(
            f"Rows repeat {name!r}, {repeats}. If rows of one value depend on each other, p-values "
            f"are too small: keep them together with --clusters {name} (clusters={name!r})."
        )
    return [] if clusters else notes


def _without_sentinels(typed: TypedColumn, choice: str) -> tuple[Column, list[str]]:
    """Return a column without sentinels of missing values, if the user asks for it, and notes."""
    column, notes = typed.column, []
    for sentinel in () if choice == "keep" else typed.sentinels:
        rows, text = column.values == sentinel, value_text(column, sentinel)
        if choice == "missing":
            column = column._replace(values=np.where(rows, np.nan, column.values))
            advice = "read as missing."
        else:
            advice = (
                f"if it stands for a missing value, say so with --na-value={text} "
                "(na_values=) or --sentinels missing."
            )
        notes.append(
            f"{column.name!r} is {text} in {rows.mean():.1%} of the rows, far from all "
            f"others: {advice}"
        )
    return column, notes


def _check_names(tables: Sequence[Table], used: set[str], exclude: set[str]) -> None:
    """Refuse columns that only one table has, and options about columns that do not exist."""
    names = [set(table.data.column_names) for table in tables]
    if unknown := sorted(used - set.union(*names)):
        raise no_column(unknown[0], tables[0])
    if len(tables) == 2 and (differing := sorted((names[0] ^ names[1]) - exclude)):
        lacks = [f"{name!r} is only in {tables[name in names[1]].source}" for name in differing]
        raise InputError(
            f"the tables have different columns: {', '.join(lacks[:MAX_PROBLEMS])}; exclude "
            f"{'it' if len(differing) == 1 else 'them'} to compare the others"
        )


def divided(
    table: Table, by: str, na_values: Sequence[str | float]
) -> tuple[dict[str, Table], list[str]]:
    """Return the rows of every value of a column as a table, and notes.

    Numbers come in ascending order, and words in alphabetical order.
    """
    if by not in table.data.column_names:
        raise no_column(by, table)
    words = group_names(column_array([table], by, na_values).array, by)
    data = table.data.drop_columns([by])
    parts = {
        word: Table(data.filter(pc.equal(words, word)), f"{by} {word}")
        for word in sorted(pc.unique(words).drop_null().to_pylist(), key=_numeric_order)
    }
    notes = []
    if words.null_count:
        notes.append(f"{pluralize(words.null_count, 'row')} without a value of {by!r} left out.")
    return parts, notes


def group_names(array: pa.Array, by: str) -> pa.Array:
    """Return the names of groups, values as text: durations in seconds, and -0.0 as 0.

    Raises:
        InputError: the values are not numbers, text, dates or booleans.
    """
    try:
        if pa.types.is_duration(array.type):
            seconds = pc.cast(as_floats(array), pa.string())
            return pc.binary_join_element_wise(seconds, "s", " ")
        names = pc.cast(array, pa.string())
    except pa.ArrowNotImplementedError:
        raise InputError(
            f"column {by!r} holds values of type {array.type}, which cannot name groups: give "
            "numbers, text or dates"
        ) from None
    distinct = pc.unique(names).drop_null()
    if pa.types.is_string(array.type):
        plain = matches(distinct, PLAIN.pattern).all()
        names = strip_zeros(names) if plain else normalize_words(names)  # 1 and 1.0 are one
    zero = pa.types.is_floating(array.type)
    return pc.replace_substring_regex(names, "^-0$", "0") if zero else names


def _numeric_order(word: str) -> tuple[float, str]:
    """Return the key that sorts numbers and durations before words."""
    try:
        return float(word.removesuffix(" s")), word
    except ValueError:
        return math.inf, word


def in_brackets(notes: Sequence[str]) -> str:
    """Return the notes of :func:`divided` for use within a sentence."""
    return "".join(f" ({note.removesuffix('.')})" for note in notes)


def _in_two(
    table: Table, by: str, na_values: Sequence[str | float]
) -> tuple[list[Table], tuple[str, str], list[str]]:
    """Return the rows of both values of a column as two tables, the values, and notes."""
    parts, notes = divided(table, by, na_values)
    if len(parts) != 2:
        raise InputError(
            f"column {by!r} has {pluralize(len(parts), 'value')}{in_brackets(notes)}, and two are "
            "needed to compare the rows of the one with those of the other"
        )
    first, second = parts
    return list(parts.values()), (f"{by} {first}", f"{by} {second}"), notes


def _uninformative(column: Column) -> str:
    """Return why a column cannot differ between tables, or nothing."""
    known = column.values[~np.isnan(column.values)]
    if not len(known):
        return "it has no values"
    if len(known) == len(column.values) and (known == known[0]).all():
        return "it has one value in all rows"
    if column.kind == "identifier":
        return "its cells are identifiers"
    return ""
