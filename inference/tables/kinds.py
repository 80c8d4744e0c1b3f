"""What kind every column is, told from its cells in both tables together."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..data.equality import merge_rounding
from ..data.suspects import WHOLE, are_whole, identify, missing_codes
from .numerals import (
    CURRENCIES,
    ISO,
    LIKE_NUMBERS,
    AmbiguousError,
    as_floats,
    dates,
    matching,
    numbers,
    without_offsets,
)

Kind: TypeAlias = Literal[
    "number", "integer", "boolean", "category", "datetime", "text", "identifier"
]
KINDS: tuple[str, ...] = get_args(Kind)
#: Words of a yes and of a no; as digits where another table has truths.
YES, NO = ("true", "yes", "y", "t", "1"), ("false", "no", "n", "f", "0")
#: Distinct words up to which, or up to this share of the rows, text is a category.
FEW_WORDS, SHARE_OF_WORDS = 30, 0.05
#: Of so many rows nearly all different: an identifier, or of so many words free text.
ALL_DIFFERENT, WORDS_OF_TEXT, LEAST_ROWS = 0.9, 3.0, 20
#: Numbers of which squares of sums can be written, and 1 over them.
LARGEST = 1e150
#: Cells that are codes, not numbers: digits of which some begin with 0, or are more than a number
#: has.
DIGITS, PADDED, LONG = r"^[+-]?\d+$", r"^0\d+$", r"^[+-]?\d{17,}$"
#: A share of cells up to which texts among numbers are taken for mistakes.
MISTAKES, DISTINCT_MISTAKES = 0.05, 0.1
#: The share of different cells that look like numbers or dates from which a note tells of it.
LIKE = 0.9


class Column(NamedTuple):
    """A column of both tables, first all rows of the one and then of the other.

    Attributes:
        name: of the column.
        kind: how it is compared.
        values: (N,) of float: the numbers, or seconds since 1970, or indices of ``levels``; NaN
            where there is none.
        levels: distinct cells of columns that are not numbers.
    """

    name: str
    kind: Kind
    values: np.ndarray
    levels: tuple[str, ...] = ()

    @property
    def lengths(self) -> np.ndarray:
        """How many characters the text of every row has, (N,); NaN where there is none."""
        found = np.full(len(self.values), np.nan)
        there = ~np.isnan(self.values)
        each = np.array([len(level) for level in self.levels] or [0], dtype=float)
        found[there] = each[self.values[there].astype(int)]
        return found


class ProblemError(Exception):
    """Why a column cannot be compared, in words that follow its name."""


def ambiguous(name: str, error: AmbiguousError) -> ProblemError:
    """What is wrong with cells that can be read in several ways."""
    such, *ways = error.args
    return ProblemError(
        f"has cells such as {such!r} that may be written with {' or with '.join(ways)}: say "
        f"which with --written {ways[0]!r} (written=), or take them for words with "
        f"{option(name, 'category')}"
    )


def option(name: str, kind: Kind) -> str:
    """How a kind is asked for, from the shell and from Python."""
    return f"--kind {name}={kind} (kinds={{{name!r}: {kind!r}}})"


class Typed(NamedTuple):
    """A column of some kind, and what a reader should know of how it was read.

    Attributes:
        column: the column.
        notes: how its cells were written.
        codes: numbers that may stand for a missing value.
        written: how the numbers of text were written, nothing as every program does.
        pointed: a cell of text with a decimal point, if numbers were written as every program does.
    """

    column: Column
    notes: tuple[str, ...] = ()
    codes: tuple[float, ...] = ()
    written: str = ""
    pointed: str = ""


#: What else Arrow's types can hold, by the beginning of their names, and what to do about it.
UNSUPPORTED = {
    "lists": (r"list|large_list|fixed_size_list|list_view", "make a column of each entry"),
    "structures": (r"struct|map|union|dense_union|sparse_union", "make a column of each field"),
    "bytes": (r"binary|large_binary|fixed_size_binary", "decode them"),
    "calendar intervals": (r"month_day_nano_interval|interval", "give days or seconds"),
}


def typed(
    name: str,
    cells: pa.Array,
    rows: int,
    kind: str | None,
    sources: tuple[str, str],
    written: Sequence[str] = (),
) -> Typed:
    """Tell what kind a column is, and read its cells.

    Args:
        name: of the column.
        cells: (N,), of both tables, of one Arrow type; text is trimmed.
        rows: of the first table.
        kind: asked for, or ``None``.
        sources: what messages call the tables.
        written: how numbers or dates are written, where cells can be read in several ways.

    Raises:
        ProblemError: the cells are of no kind, or not of the one that is asked for.
    """
    if pa.types.is_dictionary(cells.type):
        cells = pc.cast(cells, cells.type.value_type)
    if pa.types.is_boolean(cells.type):
        return Typed(_levels(name, "boolean", pc.cast(cells, pa.string())))
    _check_supported(cells.type)
    if pa.types.is_temporal(cells.type) and not pa.types.is_duration(cells.type):
        return _moments(name, cells, kind)
    if pa.types.is_null(cells.type):
        return Typed(_levels(name, "category", pc.cast(cells, pa.string())))
    if pa.types.is_integer(cells.type) and kind in ("category", "boolean", "identifier"):
        # Not by floating-point numbers, in which long identifiers are the same.
        return Typed(_levels(name, kind, pc.cast(cells, pa.string())))  # type: ignore[arg-type]
    if pa.types.is_integer(cells.type) and kind is None and _is_long(cells):
        return _text(name, pc.cast(cells, pa.string()), rows, kind, sources, written)
    if _is_number(cells.type):
        values = _floats(cells)
        _check_size(values, rows, sources)
        values = merge_rounding(values)
        words = "durations in seconds" if pa.types.is_duration(cells.type) else ""
        return _numbers(name, values, rows, kind, words)
    if not (pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type)):
        raise ProblemError(f"holds {cells.type}, which is no number, word or date")
    return _text(name, cells, rows, kind, sources, written)


def as_identifier(column: Column) -> Column:
    """Return a column of whole numbers or words as one that tells rows apart."""
    if column.levels:
        return column._replace(kind="identifier")
    cells = pa.array([None if v != v else f"{v:.0f}" for v in column.values], pa.string())
    return _levels(column.name, "identifier", cells)


def _check_supported(of: pa.DataType) -> None:
    """Refuse types whose cells are neither numbers, words nor dates, with what to do about them."""
    for what, (names, advice) in UNSUPPORTED.items():
        if re.match(rf"({names})\b", str(of)):
            raise ProblemError(f"holds {what} (type {of}): {advice}, or leave it out")


def _is_long(cells: pa.Array) -> bool:
    """Whether some whole numbers are beyond those that floating-point numbers tell apart."""
    ends = pc.min_max(cells).as_py()
    return any(one is not None and abs(one) >= WHOLE for one in ends.values())


def _place(index: int, rows: int, sources: tuple[str, str]) -> str:
    """Which row of which table a row of both together is, in words."""
    if index < rows:
        return f"row {index + 1} of {sources[0]}"
    return f"row {index - rows + 1} of {sources[1]}"


def _check_size(values: np.ndarray, rows: int, sources: tuple[str, str]) -> None:
    """Refuse numbers whose squares, or those of their differences, cannot be written."""
    large = np.abs(values) > LARGEST
    if large.any():
        index = int(np.argmax(large))
        what, where = f"{values[index]:.3g}", _place(index, rows, sources)
        if np.isinf(values[index]):
            raise ProblemError(f"has an infinite value in {where}")
        raise ProblemError(f"has {what} in {where}, beyond {LARGEST:g}: give it in a larger unit")
    known = values[~np.isnan(values)]
    if len(known) and 0.0 < np.ptp(known) < 1.0 / LARGEST:
        raise ProblemError(f"has numbers within {np.ptp(known):.3g}: give them in a smaller unit")


def _is_number(of: pa.DataType) -> bool:
    return (
        pa.types.is_integer(of)
        or pa.types.is_floating(of)
        or pa.types.is_decimal(of)
        or pa.types.is_duration(of)
    )


def _floats(cells: pa.Array) -> np.ndarray:
    return np.asarray(as_floats(cells).to_numpy(zero_copy_only=False), dtype=float)


def _moments(name: str, cells: pa.Array, kind: str | None) -> Typed:
    if kind in ("category", "identifier"):
        return Typed(_levels(name, kind, pc.cast(cells, pa.string())))  # type: ignore[arg-type]
    if kind not in (None, "datetime"):
        raise ProblemError(f"holds dates, not {kind}")
    if pa.types.is_time(cells.type):
        of_day = pc.cast(pc.cast(cells, pa.time64("us"), safe=False), pa.int64())
        return Typed(Column(name, "datetime", _floats(of_day) / 1e6))
    micro = pc.cast(pc.cast(cells, pa.timestamp("us"), safe=False), pa.int64())
    return Typed(Column(name, "datetime", _floats(micro) / 1e6))


def _numbers(name: str, values: np.ndarray, rows: int, kind: str | None, words: str) -> Typed:
    notes = (f"{name!r} is read as {words}.",) if words else ()
    if kind in ("category", "boolean", "identifier"):
        # The sum makes 0 of -0.
        cells = pa.array([None if v != v else f"{v + 0.0:.15g}" for v in values], pa.string())
        return Typed(_levels(name, kind, cells), notes)  # type: ignore[arg-type]
    if kind in ("datetime", "text"):
        raise ProblemError(f"holds numbers, not {kind}")
    known = values[~np.isnan(values)]
    integral = are_whole(known)
    parts = [part for part in (values[:rows], values[rows:]) if len(part)]  # or of one table
    if kind is None and integral and identify(name, parts):
        cells = pa.array([None if v != v else f"{v:.0f}" for v in values], pa.string())
        return Typed(_levels(name, "identifier", cells), notes)
    if kind == "integer" and not integral:
        raise ProblemError("holds numbers that are not whole, not integer")
    told: Kind = "integer" if integral and kind != "number" else "number"
    return Typed(Column(name, told, values), notes, missing_codes(known))


def _text(
    name: str,
    cells: pa.Array,
    rows: int,
    kind: str | None,
    sources: tuple[str, str],
    written: Sequence[str],
) -> Typed:
    distinct = pc.unique(cells).drop_null()
    codes = matching(distinct, PADDED) | matching(distinct, LONG)
    if kind is None and codes.any() and matching(distinct, DIGITS).all():
        such = distinct[int(np.argmax(codes))].as_py()
        told = _levels(name, _kind_of_words(cells, distinct, rows), cells)
        return Typed(
            told,
            (
                f"{name!r} has codes such as {such!r}, taken for words: for numbers say "
                f"{option(name, 'integer')}.",
            ),
        )
    truths = _truths(cells, distinct) if kind in (None, "boolean") else None
    if truths is not None:
        return Typed(_levels(name, "boolean", truths))
    if kind in ("category", "boolean", "identifier", "text") or not len(distinct):
        return Typed(_levels(name, kind or "category", cells))  # type: ignore[arg-type]
    notes: tuple[str, ...] = ()
    if kind in (None, "datetime") and matching(distinct, ISO).all():
        cells, notes = _local_clock(name, cells, rows, sources)
        distinct = pc.unique(cells).drop_null()
    try:
        of_numbers = kind in (None, "number", "integer")
        as_numbers = numbers(distinct, written) if of_numbers else None
        as_dates = dates(distinct, written) if kind in (None, "datetime") else None
    except AmbiguousError as error:
        raise ambiguous(name, error) from None
    if as_numbers is not None:
        values = _looked_up(cells, distinct, as_numbers.values)
        _check_size(values, rows, sources)
        values = merge_rounding(values)
        words = f"numbers with {as_numbers.words}" if as_numbers.words else ""
        _check_currencies(name, distinct)
        found = _numbers(name, values, rows, kind, words)
        return found._replace(written=as_numbers.words, pointed=as_numbers.such)
    if as_dates is not None:
        notes += (f"{name!r} is read as {as_dates.words}.",) if as_dates.words else ()
        return Typed(Column(name, "datetime", _looked_up(cells, distinct, as_dates.values)), notes)
    if kind is not None:
        raise ProblemError(f"has cells such as {distinct[0].as_py()!r}, not {kind}")
    _check_alike(name, cells, rows, sources)
    _check_mistakes(name, cells, rows, sources)
    if len(distinct) > 1 and matching(distinct, LIKE_NUMBERS).mean() >= LIKE:
        notes = (
            f"{name!r} looks like numbers or dates in a form that is not understood, such as "
            f"{distinct[0].as_py()!r}: it is taken for words.",
        )
    return Typed(_levels(name, _kind_of_words(cells, distinct, rows), cells), notes)


def _local_clock(
    name: str, cells: pa.Array, rows: int, sources: tuple[str, str]
) -> tuple[pa.Array, tuple[str, ...]]:
    """Return ISO dates by their local clocks, and a note if they have offsets from UTC.

    Offsets up to an hour apart are those of one place, in winter and in summer.

    Raises:
        ProblemError: some have an offset and others none, or offsets are farther apart.
    """
    bare, offsets = without_offsets(cells)
    if offsets in ((), ("",)):
        return cells, ()
    if "" in offsets:
        parts = zip(sources, (cells[:rows], cells[rows:]), strict=True)
        without = [source for source, part in parts if without_offsets(part)[1] == ("",)]
        raise ProblemError(
            f"has dates with an offset from UTC, such as {offsets[-1]}, and others without one"
            f"{', as in ' + without[0] if without else ''}: write all with one, or all without"
        )
    minutes = [_minutes(offset) for offset in offsets]
    if max(minutes) - min(minutes) > 60:
        raise ProblemError(
            f"has dates with offsets from UTC of {offsets[0]} to {offsets[-1]}, whose hours and "
            "days are those of several places: write all in UTC, or all by the local clock without "
            "an offset"
        )
    told = (
        "" if offsets == ("Z",) else f"{name!r} is read by its local clock ({', '.join(offsets)})."
    )
    return bare, (told,) if told else ()


def _minutes(offset: str) -> int:
    """Return the minutes that a clock with an offset such as +05:30 is ahead of UTC."""
    if offset == "Z":
        return 0
    digits = offset[1:].replace(":", "")
    return (-1 if offset[0] == "-" else 1) * (60 * int(digits[:2]) + int(digits[2:]))


def _check_currencies(name: str, distinct: pa.Array) -> None:
    """Refuse amounts of several currencies."""
    signs = sorted(set("".join(distinct.to_pylist())) & set(CURRENCIES))
    if len(signs) > 1:
        raise ProblemError(
            f"has amounts in {' and '.join(signs)}: convert them to one currency, or take them for "
            f"words with {option(name, 'category')}"
        )


def as_truths(distinct: pa.Array) -> list[bool] | None:
    """Which of the words (k,) mean yes; ``None`` where one of them is neither a yes nor a no."""
    words = [one.lower() for one in distinct[: 2 * 2 * len(YES)].to_pylist()]
    if len(words) < len(distinct) or not all(one in YES or one in NO for one in words):
        return None
    return [one in YES for one in words]


def _truths(cells: pa.Array, distinct: pa.Array) -> pa.Array | None:
    """Cells of a yes and a no, spelt alike: ``True`` and ``TRUE`` are ``true``, as in frames."""
    if not 2 <= len(distinct) <= 2 * 2 * len(YES):
        return None
    words = {one.lower() for one in distinct.to_pylist()}
    if not any(words == {yes, no} for yes, no in zip(YES, NO, strict=True) if yes != "1"):
        return None
    return cells if len(distinct) == 2 and YES[0] not in words else pc.utf8_lower(cells)


def _kind_of_words(cells: pa.Array, distinct: pa.Array, rows: int) -> Kind:
    known = len(cells) - cells.null_count
    if len(distinct) <= FEW_WORDS or len(distinct) <= SHARE_OF_WORDS * known:
        return "category"
    some = distinct[:1000]
    if pc.mean(pc.list_value_length(pc.utf8_split_whitespace(some))).as_py() >= WORDS_OF_TEXT:
        return "text"
    return "identifier" if known >= LEAST_ROWS and _all_different(cells, rows) else "category"


def _all_different(cells: pa.Array, rows: int) -> bool:
    """Whether nearly all cells of each table are different."""
    for part in (cells[:rows], cells[rows:]):
        known = part.drop_null()
        if len(pc.unique(known)) < ALL_DIFFERENT * len(known):
            return False
    return True


def _check_mistakes(name: str, cells: pa.Array, rows: int, sources: tuple[str, str]) -> None:
    """Refuse a column of numbers with a few texts among them, or with texts in one table alone.

    Few are at most a twentieth of the cells, or a tenth of the distinct ones.
    """
    known, number = cells.drop_null(), r"^[+-]?[\d.,]*\d[\d.,]*([eE][+-]?\d+)?$"
    numeric = matching(known, number)
    of_first = len(cells[:rows].drop_null())
    shares = [part.mean() if len(part) else 0.5 for part in np.split(numeric, [of_first])]
    if max(shares) == 1.0 and min(shares) < 0.5:
        words = int(np.argmin(shares))
        such = known[int(np.flatnonzero(~numeric)[0])].as_py()
        raise ProblemError(
            f"holds numbers in {sources[1 - words]} and words such as {such!r} in "
            f"{sources[words]}: write them alike, or take all for words with "
            f"{option(name, 'category')}"
        )
    of_distinct = matching(pc.unique(known), number)
    few = of_distinct.sum() >= LEAST_ROWS and of_distinct.mean() >= 1.0 - DISTINCT_MISTAKES
    if numeric.mean() < 1.0 and (few or numeric.mean() >= 1.0 - MISTAKES):
        first = known[int(np.flatnonzero(~numeric)[0])]
        place = _place(pc.index(cells, first).as_py(), rows, sources)
        raise ProblemError(
            f"has numbers but {first.as_py()!r} in {place} "
            f"({int((~numeric).sum())} such cells): mend them, or say that they are missing with "
            f"--missing (missing=), or take all for words with {option(name, 'category')}"
        )


def _check_alike(name: str, cells: pa.Array, rows: int, sources: tuple[str, str]) -> None:
    """Refuse cells that are numbers or dates in both tables, but not written in the same way."""
    parts = [pc.unique(part).drop_null() for part in (cells[:rows], cells[rows:])]
    ways: tuple[Callable[[pa.Array], Any], ...] = (numbers, dates)
    if any(all(len(part) and _reads(part, how) for part in parts) for how in ways):
        first, second = (part[0].as_py() for part in parts)
        raise ProblemError(
            f"is written in one way in {sources[0]}, such as {first!r}, and in another in "
            f"{sources[1]}, such as {second!r}: write them alike, or take all for words with "
            f"{option(name, 'category')}"
        )


def _reads(distinct: pa.Array, how: Callable[[pa.Array], Any]) -> bool:
    """Whether all cells can be read as such, in one way or in several."""
    try:
        return how(distinct) is not None
    except AmbiguousError:
        return True


def _looked_up(cells: pa.Array, distinct: pa.Array, values: np.ndarray) -> np.ndarray:
    """What every cell (N,) is, by what the distinct ones are; NaN where null."""
    index = pc.index_in(cells, distinct).to_numpy(zero_copy_only=False)
    found = np.full(len(cells), np.nan)
    there = ~np.isnan(index) if index.dtype.kind == "f" else np.ones(len(index), dtype=bool)
    found[there] = values[index[there].astype(int)]
    return found


def _levels(name: str, kind: Kind, cells: pa.Array) -> Column:
    """A column of words: indices of its distinct cells in alphabetical order."""
    distinct = pc.unique(cells).drop_null()
    distinct = distinct.take(pc.array_sort_indices(distinct))
    values = _looked_up(cells, distinct, np.arange(len(distinct), dtype=float))
    return Column(name, kind, values, tuple(distinct.to_pylist()))
