"""Two tables as one: columns of one name together, each of some kind, and all problems at once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..core.errors import InputError, nearest
from ..data.checks import counted
from ..data.suspects import IDENTIFIER
from .cells import column_cells, is_declared_category, unseen_notes
from .counted import NOT_COUNTED, Counted, counted_rows
from .frames import Table
from .kinds import (
    FEW_WORDS,
    KINDS,
    Column,
    Kind,
    ProblemError,
    Typed,
    as_identifier,
    option,
    typed,
)
from .numerals import POINTS, WORDS, as_floats

#: Problems that are told one by one.
MOST_TOLD = 8
#: By what factor units of one table may have more rows than the other's before a note tells.
UNLIKE = 2.0
#: Columns whose names are listed where one is not among them.
MOST_LISTED = 12


class Pooled(NamedTuple):
    """Columns of both tables.

    Attributes:
        columns: those that are compared.
        rows: of the first table, which come first in every column.
        left_out: other columns, and why.
        notes: how columns were read, and what looks odd.
        apart: columns that are not compared, by their names.
        names: of the tables, where one column tells them.
        counted: how much each row counts.
        independent: whether each row is a unit.
    """

    columns: tuple[Column, ...]
    rows: int
    left_out: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    apart: dict[str, Column]
    names: tuple[str, str] | None
    counted: Counted = NOT_COUNTED
    independent: bool = True

    @property
    def sizes(self) -> tuple[int, int]:
        """How many rows each table has, repeated ones as often as they are counted."""
        each = self.counted.counts
        if each is None:
            return self.rows, len(self.columns[0].values) - self.rows
        return int(each[: self.rows].sum()), int(each[self.rows :].sum())

    @property
    def weights(self) -> np.ndarray:
        """How many rows each row counts for, (N,)."""
        return self.counted.of(len(self.columns[0].values))

    @property
    def weights_of_each(self) -> np.ndarray:
        """How many rows each row counts for, (N,), by what each table's weights alone tell."""
        return self.counted.of_each(len(self.columns[0].values), self.rows)


class Roles(NamedTuple):
    """Columns that are not compared, by what they are for.

    Attributes:
        units: rows of equal values go together.
        blocks: rows are exchangeable within equal values alone.
        counts: how often each row is there.
        weights: what each row counts for.
    """

    units: str | None = None
    blocks: str | None = None
    counts: str | None = None
    weights: str | None = None

    def checked(self) -> Roles:
        """Refuse what is no name of a column."""
        for role, name in self._asdict().items():
            if name is not None and not isinstance(name, str):
                raise InputError(
                    f"{role} must be the name of a column, got {type(name).__name__}: put what it "
                    "says into a column of both tables"
                )
        return self

    def in_words(self) -> tuple[str, ...]:
        """What each column with a role is for, in words."""
        told = {
            "rows of one {!r} are kept together, so that effects have no intervals": self.units,
            "labels are exchanged within {!r}": self.blocks,
            "rows count as often as {!r} says": self.counts,
            "rows are weighted by {!r}, so that the level is approximate": self.weights,
        }
        return tuple(words.format(name) for words, name in told.items() if name is not None)

    def kinds(self) -> dict[str, str]:
        """The kind of each column that has a role."""
        groups = dict.fromkeys((self.units, self.blocks), "category")
        numbers = dict.fromkeys((self.counts, self.weights), "number")
        return {name: kind for name, kind in {**groups, **numbers}.items() if name is not None}


class Asked(NamedTuple):
    """How columns are to be read.

    Attributes:
        kinds: of columns that are not to be told from their cells.
        missing: cells that stand for a missing value.
        written: how numbers or dates are written, where cells can be read in several ways.
        coded: take numbers that look like codes of a missing value for such.
        identifiers: compare columns that tell rows apart, as texts.
    """

    kinds: Mapping[str, str]
    missing: Sequence[str | float] = ()
    written: Sequence[str] = ()
    coded: bool = False
    identifiers: bool = False


def pooled(
    tables: Sequence[Table], by: str | None, exclude: Sequence[str], asked: Asked, roles: Roles
) -> Pooled:
    """Put the columns of two tables together, or of one that a column divides.

    Args:
        tables: two, or one with ``by``.
        by: the column that divides one table.
        exclude: columns that are left out.
        asked: how the others are read.
        roles: columns that say how rows go together or count, and are not compared.

    Raises:
        InputError: one sentence with the problems of all columns.
    """
    if (len(tables) == 1) != (by is not None):
        raise InputError("give two tables, or one and by, the column that divides it")
    if roles.counts is not None and roles.weights is not None:
        raise InputError("rows have counts or weights, not both")
    apart = roles.kinds()
    named = {*exclude, *asked.kinds, *apart, *([by] if by else [])}
    _check_names(tables, named, set(exclude), asked.kinds)
    check_written(asked.written)
    names, notes = None, [*read_notes(tables), *unseen_notes(tables, asked.missing)]
    if by is not None:
        tables, names, without = _in_two(tables[0], by, asked.missing)
        notes += without
    taken = [one for one in tables[0].data.column_names if one not in exclude]
    found = _typed(tables, taken, asked._replace(kinds={**asked.kinds, **apart}))
    rows, how_often = tables[0].data.num_rows, NOT_COUNTED
    if roles.counts is not None or roles.weights is not None:
        counts, weights = (
            found[name].column if name else None for name in (roles.counts, roles.weights)
        )
        how_often = counted_rows(counts, weights, rows)
        found, rows, how_often = _there(found, rows, how_often)
        notes += how_often.notes(len(next(iter(found.values())).column.values), rows)
    notes += unit_notes(found, roles.units, rows)
    notes += _repeated_identifiers(found, {*apart, *asked.kinds}, roles.units)
    left_out, columns = [(name, "excluded") for name in exclude], []
    notes += [note for name in taken for note in found[name].notes]
    for name in taken:
        if name in apart:
            continue
        column, told = _decoded(found[name], coded=asked.coded)
        notes += told
        if asked.identifiers and column.kind == "identifier":
            column = column._replace(kind="text")
        why = _useless(column)
        if why:
            left_out.append((name, why))
        else:
            columns.append(column)
    if not columns:
        raise InputError(f"no column can be compared: {_why(left_out)}")
    notes += [f"{name!r} is left out: {why}." for name, why in left_out if why != "excluded"]
    kept = {name: found[name].column for name in apart}
    return Pooled(
        tuple(columns), rows, tuple(left_out), tuple(notes), kept, names, how_often, not roles.units
    )


def _there(
    found: dict[str, Typed], rows: int, counted: Counted
) -> tuple[dict[str, Typed], int, Counted]:
    """Columns without rows that count for nothing, and how many of the first table are left."""
    there = counted.of(len(next(iter(found.values())).column.values)) > 0.0

    def some(column: Column) -> Column:
        values, levels = column.values[there], column.levels
        if levels:  # of rows that are left alone
            kept, index = np.unique(values, return_inverse=True, equal_nan=True)
            kept = kept[~np.isnan(kept)].astype(int)
            values = np.where(np.isnan(values), np.nan, index)
            levels = tuple(levels[one] for one in kept)
        return column._replace(values=values, levels=levels)

    kept = {name: one._replace(column=some(one.column)) for name, one in found.items()}
    left = Counted(
        None if counted.counts is None else counted.counts[there],
        None if counted.weights is None else counted.weights[there],
        None if counted.given is None else some(counted.given),
    )
    return kept, int(there[:rows].sum()), left


def read_notes(tables: Sequence[Table]) -> list[str]:
    """Tell of tables of which some rows were read, or of some parts of files."""
    notes = [one.note for one in tables if one.note]
    return notes + [
        f"{one.data.num_rows:,} of the {one.of:,} rows of {one.source}, drawn at random, are "
        "compared."
        for one in tables
        if one.of is not None
    ]


def unit_notes(found: Mapping[str, Typed], units: str | None, rows: int) -> list[str]:
    """Tell of units that have far more rows in one table than in the other."""
    if units is None:
        return []
    each, values = [], found[units].column.values
    for part in (values[:rows], values[rows:]):
        known = part[~np.isnan(part)]
        each.append(len(known) / max(len(np.unique(known)), 1))
    if max(each) <= UNLIKE * min(each):
        return []
    return [
        f"The units of the first table have {each[0]:.3g} rows each on average, and of the second "
        f"{each[1]:.3g}: where these are so different p-values may be too small or too large."
    ]


def _repeated_identifiers(
    found: dict[str, Typed], told: set[str], units: str | None, least_repeats: float = 1.5
) -> list[str]:
    """Take columns that are named as identifiers and repeat for such; notes on them.

    Args:
        found: columns by name, replaced in place.
        told: names of columns whose kind or role is told.
        units: the column whose rows are kept together; then there are no notes.
        least_repeats: rows for each value on average; not tuned.
    """
    notes = []
    for name, one in found.items():
        column = one.column
        named = name not in told and IDENTIFIER.search(name) is not None
        if not named or column.kind not in ("integer", "category"):
            continue
        known = column.values[~np.isnan(column.values)]
        count = len(np.unique(known))
        if count <= FEW_WORDS or len(known) < least_repeats * count:
            continue
        found[name] = one._replace(column=as_identifier(column))
        repeats = f"{len(known) / count:.3g} times on average"
        notes.append(
            f"Rows repeat {name!r}, {repeats}. If rows of one value depend on each other, p-values "
            f"are too small: keep them together with --units {name} (units={name!r})."
        )
    return [] if units else notes


def check_written(written: Sequence[str]) -> None:
    """Refuse ways to write numbers and dates that there are not."""
    for one in written:
        if one not in WORDS:
            raise InputError(
                f"no cells are written with {one!r}: there are {', '.join(WORDS)}"
                f"{nearest(one, WORDS)}"
            )


def _typed(tables: Sequence[Table], names: Sequence[str], asked: Asked) -> dict[str, Typed]:
    """Read all columns, or tell the problems of all."""
    found: dict[str, Typed] = {}
    cells: dict[str, pa.Array] = {}
    problems, kinds = [], asked.kinds
    rows, sources = tables[0].data.num_rows, (tables[0].source, tables[-1].source)
    for name in names:
        try:
            cells[name], mixed, notes = column_cells(tables, name, asked.missing, asked.written)
            kind = kinds.get(name)
            if kind is None and is_declared_category(tables, name):
                kind = "category"
            one = typed(name, cells[name], rows, kind, sources, asked.written)
            found[name] = one._replace(notes=(*notes, *one.notes))
            if mixed and name not in kinds and found[name].column.kind not in ("number", "integer"):
                raise ProblemError(
                    f"holds {mixed}: write them alike, or take them for words with "
                    f"{option(name, 'category')}"
                )
        except ProblemError as problem:
            problems.append(f"column {name!r} {problem}")
    # In a table with decimal commas a point stands between thousands, wherever it can.
    commas = any(one.written.endswith("decimal commas") for one in found.values())
    for name in [name for name, one in found.items() if commas and one.pointed]:
        again = typed(name, cells[name], rows, kinds.get(name), sources, [POINTS.words])
        found[name] = again if again.written else found[name]
    if problems:
        more = len(problems) - MOST_TOLD
        told = "; ".join(problems[:MOST_TOLD]) + (f"; and {more} more" if more > 0 else "")
        raise InputError(told if len(problems) == 1 else f"{len(problems)} columns: {told}")
    return found


def _decoded(found: Typed, *, coded: bool) -> tuple[Column, list[str]]:
    """A column without numbers that stand for a missing value, if asked for, and what is told."""
    column, notes = found.column, []
    for code in found.codes:
        at = column.values == code
        if coded:
            column = column._replace(values=np.where(at, np.nan, column.values))
            advice = "taken for missing."
        else:
            advice = f"if it stands for a missing value, say so with --missing={code:g} or --coded."
        notes.append(
            f"{column.name!r} has {code:g} in {at.mean():.1%} of the rows, far from all others: "
            + advice
        )
    return column, notes


def _why(left_out: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{name!r} ({why})" for name, why in left_out) or "there is none"


def _check_names(
    tables: Sequence[Table], named: set[str], exclude: set[str], kinds: Mapping[str, str]
) -> None:
    """Refuse columns that only one table has, and options about columns that there are not."""
    each = [set(table.data.column_names) for table in tables]
    if unknown := sorted(named - set.union(*each)):
        raise no_column(unknown[0], tables[0])
    for name, kind in kinds.items():
        if kind not in KINDS:
            raise InputError(
                f"{name!r} cannot be {kind!r}: a kind is one of {', '.join(KINDS)}"
                f"{nearest(kind, KINDS)}"
            )
    if len(tables) == 2 and (odd := sorted((each[0] ^ each[1]) - exclude)):
        lacks = [f"{name!r} is only in {tables[name in each[1]].source}" for name in odd]
        raise InputError(
            f"the tables have different columns: {', '.join(lacks[:MOST_TOLD])}; exclude "
            f"{'it' if len(odd) == 1 else 'them'} to compare the others"
        )


def no_column(name: str, table: Table) -> InputError:
    """What is wrong with a column that there is not."""
    there = table.data.column_names
    have, more = ", ".join(map(repr, there[:MOST_LISTED])), len(there) - MOST_LISTED
    return InputError(
        f"there is no column {name!r}: there are {have}{f' and {more} more' if more > 0 else ''}"
        f"{nearest(name, there)}"
    )


def divided(
    table: Table, by: str, missing: Sequence[str | float]
) -> tuple[dict[str, Table], list[str]]:
    """The rows of every value of a column as a table, numbers ascending, else words; and notes."""
    if by not in table.data.column_names:
        raise no_column(by, table)
    whole = group_names(column_cells([table], by, missing).array, by)
    words = sorted(pc.unique(whole).drop_null().to_pylist(), key=_order)
    bare = table.data.drop_columns([by])
    parts = {word: Table(bare.filter(pc.equal(whole, word)), f"{by} {word}") for word in words}
    notes = []
    if whole.null_count:
        notes.append(f"{counted(whole.null_count, 'row')} without a value of {by!r} left out.")
    return parts, notes


def group_names(cells: pa.Array, by: str) -> pa.Array:
    """Return the names of groups, values as text: durations in seconds, and -0.0 as 0.

    Raises:
        InputError: the values are not numbers, text, dates or truths.
    """
    try:
        if pa.types.is_duration(cells.type):
            seconds = pc.cast(as_floats(cells), pa.string())
            return pc.binary_join_element_wise(seconds, "s", " ")
        names = pc.cast(cells, pa.string())
    except pa.ArrowNotImplementedError:
        raise InputError(
            f"column {by!r} holds values of type {cells.type}, which cannot name groups: give "
            "numbers, text or dates"
        ) from None
    zero = pa.types.is_floating(cells.type)
    return pc.replace_substring_regex(names, "^-0$", "0") if zero else names


def _order(word: str) -> tuple[float, str]:
    """Numbers and durations ascending, then words."""
    try:
        return float(word.removesuffix(" s")), word
    except ValueError:
        return math.inf, word


def in_brackets(notes: Sequence[str]) -> str:
    """Tell the notes of :func:`divided` within a sentence."""
    return "".join(f" ({note.removesuffix('.')})" for note in notes)


def _in_two(
    table: Table, by: str, missing: Sequence[str | float]
) -> tuple[list[Table], tuple[str, str], list[str]]:
    """The rows of the two values of a column as two tables, the values, and notes."""
    parts, notes = divided(table, by, missing)
    if len(parts) != 2:
        raise InputError(
            f"column {by!r} has {counted(len(parts), 'value')}{in_brackets(notes)}, and two are "
            "needed to compare the rows of the one with those of the other"
        )
    first, second = parts
    return list(parts.values()), (f"{by} {first}", f"{by} {second}"), notes


def _useless(column: Column) -> str:
    """Why a column tells nothing of how tables differ, or nothing."""
    known = column.values[~np.isnan(column.values)]
    if not len(known):
        return "it has no values"
    if len(known) == len(column.values) and (known == known[0]).all():
        return "it has one value in all rows"
    identifier: Kind = "identifier"
    if column.kind == identifier:
        return "it tells rows apart, an identifier"
    return ""
