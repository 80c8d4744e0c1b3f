"""Pool two tables: read columns of equal name together, and check columns with a role."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..core.errors import InputError, check_choice, check_flag
from ..data.checks import pluralize
from ..data.row_notes import duplicate_rows_note, serial_note, shared_rows_note
from ..io.columns import (
    MAX_PROBLEMS,
    ReadOptions,
    column_array,
    no_column,
    typed_columns,
    unused_notes,
)
from ..io.formats import as_floats, normalize_words, other_spellings
from ..io.tables import Table
from ..io.types import (
    IDENTIFIER,
    Column,
    TypedColumn,
    as_identifier,
    note_on_equal_numbers,
    type_option,
    value_text,
)

#: Why a column of identifiers is left out.
IDENTIFIERS = "its cells are identifiers"
#: Words of a row that is the sum of others.
TOTAL = re.compile(
    r"\W*((grand|sub)[ -]?)?"
    r"(totals?|sum|summe|gesamt(summe)?|insgesamt|somme|totale|totaal|suma)\W*$",
    re.IGNORECASE,
)


class RowWeights(NamedTuple):
    """Number of rows that each row of the pooled tables stands for.

    Attributes:
        counts: (N,) integer frequency weights, or ``None``.
        weights: (N,) weights, scaled to add up to the effective sample size (Kish 1965), or
            ``None``.
        column: the weights, scaled to a mean of 1 over the positive weights of each table; part
            of the hash of a row.
    """

    counts: np.ndarray | None = None
    weights: np.ndarray | None = None
    column: Column | None = None

    def pooled(self, n_rows: int) -> np.ndarray:
        """Return the weight of each of ``n_rows`` rows, (N,); 1 by default."""
        values = self.weights if self.counts is None else self.counts
        return np.ones(n_rows) if values is None else np.asarray(values, dtype=float)

    def by_table(self, n_rows: int, n_first: int) -> np.ndarray:
        """Return the weight of each row, (N,), scaled to the effective size of its table."""
        values = self.pooled(n_rows)
        if self.weights is None:
            return values
        return np.concatenate(
            [scale_to_effective_size(table) for table in (values[:n_first], values[n_first:])]
        )

    def notes(self, n_rows: int, n_first: int, max_ratio: float = 1.25) -> list[str]:
        """Write a note if the variation of weights differs between the tables.

        Args:
            n_rows: number of rows of both tables.
            n_first: number of rows of the first table.
            max_ratio: ratio of the effective sizes per row above which there is a note.
        """
        if self.weights is None:
            return []
        values = self.by_table(n_rows, n_first)
        first, second = float(values[:n_first].mean()), float(values[n_first:].mean())
        if max(first, second) <= max_ratio * min(first, second):
            return []
        return [
            f"The effective sample size of 100 rows is {100 * first:.0f} in the first table and "
            f"{100 * second:.0f} in the second: if weights vary more in one table, p-values may be "
            "far too small or too large."
        ]


#: Weights of rows that all count once.
UNWEIGHTED = RowWeights()


class PooledTables(NamedTuple):
    """Columns of both tables.

    Attributes:
        columns: columns that are compared.
        n_first: number of rows of the first table, which come first in every column.
        left_out: other columns, and reasons.
        notes: notes on how columns were read.
        role_columns: columns with a role, which are not compared, by name.
        names: names of the tables, if a column divides one table.
        row_weights: weight of each row.
        independent: there are no clusters.
    """

    columns: tuple[Column, ...]
    n_first: int
    left_out: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    role_columns: dict[str, Column]
    names: tuple[str, str] | None
    row_weights: RowWeights = UNWEIGHTED
    independent: bool = True

    @property
    def sizes(self) -> tuple[int, int]:
        """Number of rows of each table, including frequency weights."""
        counts = self.row_weights.counts
        if counts is None:
            return self.n_first, len(self.columns[0].values) - self.n_first
        return int(counts[: self.n_first].sum()), int(counts[self.n_first :].sum())

    @property
    def weights(self) -> np.ndarray:
        """Weight of each row, (N,)."""
        return self.row_weights.pooled(len(self.columns[0].values))

    @property
    def weights_by_table(self) -> np.ndarray:
        """Weight of each row, (N,), scaled to the effective size of its table."""
        return self.row_weights.by_table(len(self.columns[0].values), self.n_first)


class Roles(NamedTuple):
    """Names of columns with a role in the test, which are not compared.

    Attributes:
        clusters: rows with equal values depend on each other.
        strata: rows are exchangeable only among rows with equal values.
        freq_weights: number of equal rows that each row stands for.
        weights: weight of each row.
    """

    clusters: str | None = None
    strata: str | None = None
    freq_weights: str | None = None
    weights: str | None = None

    def checked(self) -> Roles:
        """Return the roles, or refuse values that are not names of columns."""
        for role, name in self._asdict().items():
            if name is not None and not isinstance(name, str):
                raise InputError(
                    f"{role} must be the name of a column, got {type(name).__name__}: put its "
                    "values into a column of both tables"
                )
        if self.freq_weights is not None and self.weights is not None:
            raise InputError("give freq_weights or weights, not both")
        return self

    def sentences(self, columns: Mapping[str, Column]) -> tuple[str, ...]:
        """Describe the columns that have a role, given these columns by name."""
        n_clusters = 0 if self.clusters is None else len(np.unique(columns[self.clusters].values))
        texts = {
            f"clusters are the {n_clusters} values of {{!r}}, and effects have no intervals, which "
            "assume independent rows": self.clusters,
            "labels are permuted within the values of {!r}": self.strata,
            "frequency weights are in {!r}": self.freq_weights,
            "weights are in {!r}, so that the level is approximate": self.weights,
        }
        return tuple(text.format(name) for text, name in texts.items() if name is not None)

    def column_types(self) -> dict[str, str]:
        """Return the type of each column that has a role."""
        groups = dict.fromkeys((self.clusters, self.strata), "category")
        numbers = dict.fromkeys((self.freq_weights, self.weights), "number")
        return {name: type_ for name, type_ in {**groups, **numbers}.items() if name is not None}


def pool_tables(
    tables: Sequence[Table],
    by: str | None,
    exclude: Sequence[str],
    options: ReadOptions,
    roles: Roles,
) -> PooledTables:
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
    exclude = [name for name in exclude if name not in role_types]  # these are not compared
    used = {*exclude, *options.column_types, *role_types, *([by] if by else [])}
    _check_names(tables, used, set(exclude))
    check_choice(options.sentinels, "sentinels", ("warn", "missing", "keep"))
    check_flag(options.identifiers, "identifiers")
    notes = [*read_notes(tables), *unused_notes(tables, options.na_values, options.formats)]
    names = None
    if by is not None:
        groups, group_notes = split_by(tables[0], by, options.na_values)
        if len(groups) != 2:
            raise InputError(
                f"column {by!r} has {pluralize(len(groups), 'value')}"
                f"{in_parentheses(group_notes)}, and two are needed to compare the rows of the one "
                f"with those of the other{': for more use compare_groups' * (len(groups) > 2)}"
            )
        tables = list(groups.values())
        names = (tables[0].source, tables[1].source)
        notes += group_notes
    chosen = [name for name in tables[0].data.column_names if name not in exclude]
    columns = typed_columns(tables, chosen, options._replace(role_types=role_types))
    n_first, row_weights = tables[0].data.num_rows, UNWEIGHTED
    if roles.freq_weights is not None or roles.weights is not None:
        counts, weights = (
            columns[name].column if name else None for name in (roles.freq_weights, roles.weights)
        )
        row_weights = read_row_weights(counts, weights, n_first)
        columns, n_first, row_weights = _positive_rows(columns, n_first, row_weights)
        notes += row_weights.notes(len(next(iter(columns.values())).column.values), n_first)
    notes += [
        *_check_spellings(columns, roles, n_first),
        *_cluster_notes(columns, roles.clusters, n_first),
        *_strata_notes(columns, roles.strata, n_first),
        *_dependence_notes(columns, n_first, roles.clusters),
    ]
    notes += _repeated_identifiers(
        columns, {*role_types, *options.column_types}, roles.clusters, n_first
    )
    notes += _total_notes(columns, n_first, tables)
    notes += _copies_notes(columns, n_first, tables)
    notes += _serial_notes(columns, n_first, roles)
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
            notes += _shared_identifiers(column, n_first, roles.clusters)
        else:
            compared.append(column)
    if not compared:
        raise _nothing_to_compare(left_out, [note for x in chosen for note in columns[x].notes])
    notes += [_date_note(column) for column in compared if column.kind == "datetime"]
    notes += [
        f"{name!r} is left out: {reason}." for name, reason in left_out if reason != "excluded"
    ]
    return PooledTables(
        tuple(compared),
        n_first,
        tuple(left_out),
        tuple(notes),
        {name: columns[name].column for name in role_types},
        names,
        row_weights,
        not roles.clusters,
    )


def read_row_weights(
    counts: Column | None, weights: Column | None, n_first: int, max_rows: int = 50_000_000
) -> RowWeights:
    """Check the column of frequency weights or of weights.

    Weights are scaled to a mean of 1 over the positive weights of each table, and equal weights
    are ignored.

    Args:
        counts: whole numbers, or ``None``.
        weights: weights, or ``None``; not both.
        n_first: number of rows of the first table.
        max_rows: largest sum of counts.

    Raises:
        InputError: values are missing, negative or, in a table, all 0; or counts are not whole
            numbers.
    """
    column = weights if counts is None else counts
    if column is None:
        return UNWEIGHTED
    values = column.values
    if column.kind == "boolean" and not values.any():  # true in every row is encoded as 0 too
        raise InputError(f"column {column.name!r} has one truth value in all rows: leave it out")
    tables = ((values[:n_first], "first"), (values[n_first:], "second"))
    for invalid, description in (
        (np.isnan(values), "no number"),
        (values < 0.0, "a negative number"),
    ):
        if invalid.any():
            index = int(np.flatnonzero(invalid)[0])
            table, row = ("first", index) if index < n_first else ("second", index - n_first)
            raise InputError(
                f"column {column.name!r} has {description} in row {row + 1} of the {table} table"
            )
    for part, table in tables:
        if not part.sum():
            raise InputError(f"column {column.name!r} is 0 in all rows of the {table} table")
    if counts is not None:
        if (fractions := values[values != np.floor(values)]).size:
            raise InputError(
                f"column {column.name!r} holds {fractions[0]:g}, and counts must be whole numbers: "
                "for other numbers use weights"
            )
        if values.sum() > max_rows:
            raise InputError(
                f"column {column.name!r} counts {values.sum():.3g} rows, and at most {max_rows:,} "
                "can be permuted"
            )
        return RowWeights(counts=values.astype(np.int64))
    positive = values > 0.0
    scaled = np.concatenate(
        [part * (np.count_nonzero(part) / math.fsum(part)) for part, _ in tables]
    )
    if np.ptp(scaled[positive]) <= 1e-9:  # equal up to rounding
        return UNWEIGHTED if positive.all() else RowWeights(counts=positive.astype(np.int64))
    return RowWeights(
        weights=scale_to_effective_size(scaled),
        column=column._replace(values=np.round(scaled, 9)),
    )


def scale_to_effective_size(weights: np.ndarray) -> np.ndarray:
    """Scale weights to add up to their effective sample size (Kish 1965)."""
    return np.asarray(weights * (math.fsum(weights) / math.fsum(np.square(weights))))


def _positive_rows(
    columns: dict[str, TypedColumn], n_first: int, row_weights: RowWeights
) -> tuple[dict[str, TypedColumn], int, RowWeights]:
    """Drop rows of weight 0.

    Returns:
        The columns, the number of rows of the first table, and the weights.
    """
    positive = row_weights.pooled(len(next(iter(columns.values())).column.values)) > 0.0

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
    counts, weights, column = row_weights
    remaining = RowWeights(
        None if counts is None else counts[positive],
        None if weights is None else weights[positive],
        None if column is None else restrict(column),
    )
    return restricted, int(positive[:n_first].sum()), remaining


def read_notes(tables: Sequence[Table]) -> list[str]:
    """Return the notes on how tables were read, equal ones of several tables as one note."""
    sources: dict[str, list[str]] = {}
    for table in tables:
        for note in table.notes:
            text = note.removeprefix(f"{table.source}: ")
            named = sources.setdefault(text, [])
            if text != note and table.source not in named:
                named.append(table.source)
    return [f"{' and '.join(named)}: {text}" if named else text for text, named in sources.items()]


def _check_spellings(
    columns: Mapping[str, TypedColumn], roles: Roles, n_first: int, max_proportion: float = 0.05
) -> list[str]:
    """Refuse clusters or strata that are written in another way in each table.

    A few pairs may be different values, such as random codes that differ in capital letters.

    Args:
        columns: columns by name.
        roles: columns with a role.
        n_first: number of rows of the first table.
        max_proportion: proportion of such pairs, among the values that one table alone has, up to
            which there is a note; not tuned.

    Raises:
        InputError: there are more pairs.
    """
    notes = []
    for role, name in (("clusters", roles.clusters), ("strata", roles.strata)):
        if name is None:
            continue
        column, texts = columns[name].column, []
        for part in np.split(column.values, [n_first]):
            levels = np.unique(part[~np.isnan(part)]).astype(int)
            texts.append([column.levels[level] for level in levels])
        if not (pairs := other_spellings(*texts)):
            continue
        num_unmatched = min(len({*texts[0]} - {*texts[1]}), len({*texts[1]} - {*texts[0]}))
        fault = (
            f"{pluralize(len(pairs), 'value')} of {name!r} may differ in spelling alone, such as "
            f"{pairs[0][0]!r} in the first and {pairs[0][1]!r} in the second"
        )
        if len(pairs) > max_proportion * num_unmatched:
            raise InputError(f"{fault}: write equal {role} in one spelling")
        notes.append(f"{fault} table: if they are equal, write them in one spelling.")
    return notes


def _cluster_notes(
    columns: Mapping[str, TypedColumn], clusters: str | None, n_first: int, max_ratio: float = 2.0
) -> list[str]:
    """Write a note if the mean number of rows per cluster differs by more than ``max_ratio``.

    Raises:
        InputError: rows have no cluster.
    """
    if clusters is None:
        return []
    values = columns[clusters].column.values
    if n_missing := int(np.isnan(values).sum()):
        raise InputError(
            f"column {clusters!r} of the clusters is missing in {pluralize(n_missing, 'row')}: "
            "give each row a cluster, such as its own, or leave rows without one out"
        )
    sizes = [
        len(part) / max(len(np.unique(part)), 1) for part in (values[:n_first], values[n_first:])
    ]
    if max(sizes) <= max_ratio * min(sizes):
        return []
    return [
        f"Clusters of the first table have {sizes[0]:.3g} rows on average, and of the second "
        f"{sizes[1]:.3g}: with such different sizes p-values may be too small or too large."
    ]


def _dependence_notes(
    columns: Mapping[str, TypedColumn], n_first: int, clusters: str | None, min_levels: int = 10
) -> list[str]:
    """Write notes on columns whose values determine a column of numbers almost completely.

    Args:
        columns: columns by name.
        n_first: number of rows of the first table.
        clusters: the column of clusters; then there are no notes.
        min_levels: smallest number of distinct values of such a column; not tuned. Two rows per
            value and a hundredth of the variance are not tuned either.
    """
    if clusters is not None:
        return []
    # Ranks of distinct values, by which an outlier does not make all others small.
    numbers = {
        name: np.unique(typed.column.values, return_inverse=True)[1].astype(float)
        for name, typed in columns.items()
        if typed.column.kind in ("number", "integer") and not np.isnan(typed.column.values).any()
    }
    numbers = {name: ranks for name, ranks in numbers.items() if ranks.max() >= min_levels}
    notes = []
    for name, typed in columns.items():
        if typed.column.kind not in ("category", "integer"):
            continue
        # A value in both tables counts as two levels.
        values = 2.0 * typed.column.values
        values[n_first:] += 1.0
        _, level, counts = np.unique(values, return_inverse=True, return_counts=True)
        if len(counts) < min_levels or len(level) < 2 * len(counts):
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


def _total_notes(
    columns: Mapping[str, TypedColumn], n_first: int, tables: Sequence[Table], min_rows: int = 5
) -> list[str]:
    """Write notes on rows that are totals by a word and by a number, the sum of all other rows.

    Args:
        columns: columns by name.
        n_first: number of rows of the first table.
        tables: the tables.
        min_rows: smallest number of rows of a table with a note; not tuned.
    """
    notes = []
    words = [typed.column for typed in columns.values() if typed.column.levels]
    numbers = [
        typed.column for typed in columns.values() if typed.column.kind in ("number", "integer")
    ]
    for column in words:
        levels = [index for index, level in enumerate(column.levels) if TOTAL.match(level)]
        for table, rows in zip(tables, (slice(n_first), slice(n_first, None)), strict=True):
            total_rows = np.flatnonzero(np.isin(column.values[rows], levels))
            if len(total_rows) != 1 or len(column.values[rows]) < min_rows:
                continue
            row = int(total_rows[0])
            for number in numbers:
                values = number.values[rows]
                total = values[row]
                rest = math.fsum(values[~np.isnan(values)]) - total
                if total and math.isclose(rest, total, rel_tol=1e-9):
                    word, where = column.levels[int(column.values[rows][row])], table.location(row)
                    notes.append(
                        f"{where[0].upper()}{where[1:]} has {word!r} in {column.name!r}, and "
                        f"in {number.name!r} the sum of the other rows: leave it out if it is a "
                        "total."
                    )
                    break
    return notes


def _copies_notes(
    columns: Mapping[str, TypedColumn], n_first: int, tables: Sequence[Table]
) -> list[str]:
    """Write notes on rows that are copies of other rows."""
    if not columns:
        return []
    values = np.column_stack([typed.column.values for typed in columns.values()])
    values = np.nan_to_num(values, nan=-1.7e308)
    parts, names = (values[:n_first], values[n_first:]), (tables[0].source, tables[-1].source)
    notes = [
        note
        for part, name in zip(parts, names, strict=True)
        for note in duplicate_rows_note(part, name)
    ]
    notes += shared_rows_note(*parts, names)
    return [f"{note[0].upper()}{note[1:]}." for note in notes]


def same_rows_note(
    columns: Sequence[Column], n_first: int, names: tuple[str, str]
) -> tuple[str, ...]:
    """Write a note if both tables have the same rows, in any order."""
    for column in columns:  # most tables differ in the first one
        first, second = map(np.sort, np.split(column.values, [n_first]))
        if not np.array_equal(first, second, equal_nan=True):
            return ()
    values = np.stack([column.values for column in columns], axis=1)
    first, second = (part[np.lexsort(part.T)] for part in (values[:n_first], values[n_first:]))
    same = np.array_equal(first, second, equal_nan=True)
    return (f"{names[0]} and {names[1]} have the same rows.",) if same else ()


def _strata_notes(
    columns: Mapping[str, TypedColumn], strata: str | None, n_first: int
) -> list[str]:
    """Write a note on rows whose stratum is in one table only."""
    if strata is None:
        return []
    # Rows without a value are a stratum.
    first, second = np.split(np.nan_to_num(columns[strata].column.values, nan=-1.0), [n_first])
    num_unmatched = int((~np.isin(first, second)).sum() + (~np.isin(second, first)).sum())
    if not num_unmatched:
        return []
    return [
        f"Rows whose value of {strata!r} only one table has: {num_unmatched}. The test does not "
        "compare them, but effects include them."
    ]


def _date_note(column: Column, day: float = 86_400.0) -> str:
    """Write a note on the part of dates, or of times of a day, that is not compared."""
    if np.nanmin(column.values) >= 0.0 and np.nanmax(column.values) < day:
        return (
            f"The hours of {column.name!r} are compared, and not the minutes: to compare these, "
            "convert the column to seconds."
        )
    return (
        f"Weekdays and hours of {column.name!r} are compared, and not the dates themselves: to "
        "compare these, convert the column to days since a fixed date, as with "
        "(pandas.to_datetime(...) - pandas.Timestamp('2000-01-01')).dt.days, and read it with "
        f"{type_option(column.name, 'number')}."
    )


def _serial_notes(columns: Mapping[str, TypedColumn], n_first: int, roles: Roles) -> list[str]:
    """Write notes on serial dependence of rows, unless a column has a role."""
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
    notes = serial_note([values[:n_first], values[n_first:]], list(numeric))
    return [
        f"{note[0].upper()}{note[1:]}. Keep the rows of a day, or of another block, together with "
        "--clusters (clusters=)."
        for note in notes
    ]


def _repeated_identifiers(
    columns: dict[str, TypedColumn],
    excluded: set[str],
    clusters: str | None,
    n_first: int,
    min_repeats: float = 1.5,
    min_values: int = 10,
) -> list[str]:
    """Read repeated columns with the name of an identifier as identifiers, and write notes.

    There are notes on categories none of whose values is in both tables too, and on whole numbers
    that may be identifiers (:func:`_are_evenly_repeated`), which are compared.

    Args:
        columns: columns by name, replaced in place.
        excluded: names of columns whose type or role the user has set.
        clusters: the column of clusters; then there are no notes.
        n_first: number of rows of the first table.
        min_repeats: smallest mean number of rows per value; not tuned.
        min_values: smallest number of distinct values; not tuned.
    """
    notes = []
    for name, typed in columns.items():
        column = typed.column
        if name in excluded or column.kind not in ("integer", "category"):
            continue
        known = column.values[~np.isnan(column.values)]
        count = len(np.unique(known))
        if count < min_values or len(known) < min_repeats * count:
            continue
        is_named = IDENTIFIER.search(name) is not None
        if is_named:
            columns[name] = typed._replace(column=as_identifier(column))
        elif column.kind == "integer":
            if not all(map(_are_evenly_repeated, np.split(column.values, [n_first]))):
                continue
        elif np.isin(column.values[:n_first], column.values[n_first:]).any():
            continue
        notes.append(
            f"Rows repeat {name!r}, {len(known) / count:.3g} times on average. If rows of one "
            "value depend on each other, p-values are too small: keep them together with "
            f"--clusters {name} (clusters={name!r})."
        )
    return [] if clusters else notes


def _shared_identifiers(
    column: Column, n_first: int, clusters: str | None, min_proportion: float = 0.05
) -> list[str]:
    """Write a note on identifiers of which more than ``min_proportion`` are in both tables."""
    if column.kind != "identifier" or clusters is not None:
        return []
    first, second = (
        np.unique(part[~np.isnan(part)]) for part in np.split(column.values, [n_first])
    )
    shared = len(np.intersect1d(first, second))
    if shared <= min_proportion * min(len(first), len(second)):
        return []
    return [
        f"{pluralize(shared, 'value')} of {column.name!r} {'is' if shared == 1 else 'are'} in both "
        "tables: if equal values are the same unit, its rows are not independent; keep them "
        f"together with --clusters {column.name} (clusters={column.name!r})."
    ]


def _are_evenly_repeated(
    values: np.ndarray, min_number: float = 1000.0, min_spacing: float = 20.0
) -> bool:
    """Return whether whole numbers (n,) are repeated equally often, and spread as identifiers are.

    Counts, ages and years of a balanced design are smaller, or consecutive up to a common factor.

    Args:
        values: the numbers; NaN if missing.
        min_number: smallest number, all of which have equally many digits; not tuned.
        min_spacing: smallest mean difference of neighbors, in multiples of their greatest common
            divisor; not tuned.
    """
    distinct, counts = np.unique(values[~np.isnan(values)], return_counts=True)
    if len(distinct) < 2 or counts[0] < 2 or (counts != counts[0]).any():
        return False
    if distinct[0] < min_number or len(f"{distinct[0]:.0f}") < len(f"{distinct[-1]:.0f}"):
        return False
    steps = np.diff(distinct)
    return bool(steps.mean() >= min_spacing * np.gcd.reduce(steps.astype(np.int64)))


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
        advice = f"exclude {'it' if len(differing) == 1 else 'them'} to compare the others"
        if len({name.casefold() for name in differing}) < len(differing):
            advice = "rename those that differ by capital letters"
        # Such as an index of pandas that has the name of a column.
        notes = [
            note for note in read_notes(tables) if any(f"{name!r}" in note for name in differing)
        ]
        raise InputError(
            f"the tables have different columns: {', '.join(lacks[:MAX_PROBLEMS])}; "
            f"{' '.join([advice, *(f'({note})' for note in notes)])}"
        )


def split_by(
    table: Table, by: str, na_values: Sequence[str | float]
) -> tuple[dict[str, Table], list[str]]:
    """Return the rows of every value of a column as a table, and notes.

    Numbers come in ascending order, and words in alphabetical order.
    """
    if by not in table.data.column_names:
        raise no_column(by, table)
    array = column_array([table], by, na_values).array
    words = group_names(array, by)
    data = table.data.drop_columns([by])
    parts = {
        word: Table(data.filter(pc.equal(words, word)), f"{by} {word}")
        for word in sorted(pc.unique(words).drop_null().to_pylist(), key=_numeric_order)
    }
    notes: list[str] = []
    if pa.types.is_string(array.type):
        notes += note_on_equal_numbers(by, pc.unique(array).drop_null())
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
    if pa.types.is_string(array.type):
        names = normalize_words(names)  # 1 and 1.0 are one
    zero = pa.types.is_floating(array.type)
    return pc.replace_substring_regex(names, "^-0$", "0") if zero else names


def _numeric_order(word: str) -> tuple[float, str]:
    """Return the key that sorts numbers and durations before words."""
    try:
        return float(word.removesuffix(" s")), word
    except ValueError:
        return math.inf, word


def in_parentheses(notes: Sequence[str]) -> str:
    """Return the notes of :func:`split_by` for use within a sentence."""
    return "".join(f" ({note.removesuffix('.')})" for note in notes)


def _nothing_to_compare(left_out: list[tuple[str, str]], notes: list[str]) -> InputError:
    """Describe why no column can be compared, with the notes on reading them."""
    reasons = ", ".join(f"{name!r} ({reason})" for name, reason in left_out) or "there is none"
    if any(reason == IDENTIFIERS for _, reason in left_out):
        reasons += (
            "; compare identifiers as text with --identifiers (identifiers=True), or set the type "
            "of measured numbers with --column-type (column_types=)"
        )
    text = " ".join(notes)
    return InputError(f"no column can be compared: {reasons}{'. ' * bool(text)}{text}")


def _uninformative(column: Column) -> str:
    """Return why a column cannot differ between tables, or nothing."""
    known = column.values[~np.isnan(column.values)]
    if not len(known):
        return "it has no values"
    if len(known) == len(column.values) and (known == known[0]).all():
        return "it has one value in all rows"
    if column.kind == "identifier":
        return IDENTIFIERS
    return ""
