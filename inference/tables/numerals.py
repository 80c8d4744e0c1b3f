"""Numbers and dates as text: how they are written is told from all cells, or refused, not guessed.

``1,234`` may be a thousand or one and a bit: where all cells of a column can be read in two ways,
somebody has to say which. Cells are tried together, by Arrow, so that a million of them are fast.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ..data.text import MISSING

_EXPONENT = r"([eE][+-]?\d+)?"
_BLANK = "[ \u00a0\u202f']"


class Notation(NamedTuple):
    """A way to write numbers.

    Attributes:
        words: what a note says of it; none of what every program reads.
        pattern: of a whole cell.
        removed: what stands between thousands.
        point: what stands before decimals.
    """

    words: str
    pattern: str
    removed: str = ""
    point: str = "."


PLAIN = Notation("decimal points", rf"^[+-]?(\d+\.?\d*|\.\d+){_EXPONENT}$")
#: Numbers with decimal points all of whose fractions have three digits, and whole numbers below
#: 1000: these are written in the same way with points between thousands.
THOUSANDS, BELOW = r"^[+-]?[1-9]\d{0,2}\.\d{3}$", r"^[+-]?\d{1,3}$"
POINTS = Notation(
    "points between thousands and decimal commas",
    r"^[+-]?(\d{1,3}(\.\d{3})+|\d+)(,\d+)?$",
    r"\.",
    ",",
)
NOTATIONS = (
    Notation("decimal commas", rf"^[+-]?(\d*,\d+|\d+){_EXPONENT}$", "", ","),
    Notation("commas between thousands", r"^[+-]?(\d{1,3}(,\d{3})+|\d+)(\.\d+)?$", ","),
    POINTS,
    Notation(
        "blanks or apostrophes between thousands",
        rf"^[+-]?(\d{{1,3}}({_BLANK}\d{{3}})+|\d+)(\.\d+)?$",
        _BLANK,
    ),
)
CURRENCIES = "$\u20ac\u00a3\u00a5"
_CURRENCY = f"[{CURRENCIES}]"
SIGNED = (
    Notation("per cent signs", r"^[+-]?(\d+\.?\d*|\.\d+) ?%$", " ?%"),
    Notation("per cent signs and decimal commas", r"^[+-]?\d+(,\d+)? ?%$", " ?%", ","),
    Notation("signs of a currency", rf"^[+-]?{_CURRENCY} ?\d+(\.\d+)?$", f"{_CURRENCY} ?"),
    Notation(
        "signs of a currency and commas between thousands",
        rf"^[+-]?{_CURRENCY} ?(\d{{1,3}}(,\d{{3}})+|\d+)(\.\d+)?$",
        rf"{_CURRENCY} ?|,",
    ),
    Notation(
        "signs of a currency and decimal commas",
        rf"^[+-]?{_CURRENCY} ?\d+(,\d+)?$",
        f"{_CURRENCY} ?",
        ",",
    ),
)
#: Ways to write dates that are no standard, by their words: how, and as which pattern.
_CLOCK = {"": "", " %H:%M": r" \d{1,2}:\d{2}", " %H:%M:%S": r" \d{1,2}:\d{2}:\d{2}"}
_DAYS = {
    "day/month/year": ("%d/%m/%Y", r"\d{1,2}/\d{1,2}/\d{4}"),
    "month/day/year": ("%m/%d/%Y", r"\d{1,2}/\d{1,2}/\d{4}"),
    "day.month.year": ("%d.%m.%Y", r"\d{1,2}\.\d{1,2}\.\d{4}"),
    "year/month/day": ("%Y/%m/%d", r"\d{4}/\d{1,2}/\d{1,2}"),
    "day month in letters year": ("%d %b %Y", r"\d{1,2} [A-Za-z]{3} \d{4}"),
    "day-month in letters-year": ("%d-%b-%Y", r"\d{1,2}-[A-Za-z]{3}-\d{4}"),
}
DATES = [
    (words, day + clock, f"^{of_day}{of_clock}$")
    for words, (day, of_day) in _DAYS.items()
    for clock, of_clock in _CLOCK.items()
]
#: What looks like a number with a unit or a date, whatever the form.
LIKE_NUMBERS = (
    r"^[^\w\s]?\s?\d[\d.,'\x{00a0}\x{202f} ]*\s?[^\d\s]{0,4}$"
    r"|^\(?[\d.,]+\)?$|^\d{1,4}[-/. ]\w{1,9}[-/. ]\d{2,4}\b.*$"
    r"|^[-+]?\p{Nd}[\p{Nd}.,_/' ]*$|^0x[0-9a-fA-F]+$|^[A-Z]{3} ?\d[\d.,]*$"
    r"|^[A-Za-z]{3,9}\.? \d{1,2},? \d{4}$|^\d{4}-(\d{2}|W\d{2}|Q[1-4])$|^\d{4} ?Q[1-4]$"
)
#: Ways of writing numbers and dates that need to be told.
WORDS = tuple(dict.fromkeys([*(way.words for way in (PLAIN, *NOTATIONS, *SIGNED)), *_DAYS]))
#: Times of a day, which are dates of the first.
TIMES = r"^([01]?\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d+)?)?$"
OFFSET = r"(Z|[+-]\d{2}:?\d{2})$"
ISO = r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?$"


class AmbiguousError(Exception):
    """All cells, one of which is the first argument, can be read in several ways, the others."""


class Parsed(NamedTuple):
    """What cells are, (k,), and how they were written, if not as every program reads them.

    ``such`` is a cell with a decimal point, if cells were read as every program reads them.
    """

    values: np.ndarray
    words: str = ""
    such: str = ""


def normalized(cells: pa.Array) -> pa.Array:
    """Return cells of text in Unicode normal form C."""
    if pc.all(pc.string_is_ascii(cells)).as_py() is not False:  # None without any cell
        return cells
    return pc.utf8_normalize(cells, form="NFC")


def as_floats(cells: pa.Array) -> pa.Array:
    """Convert numbers to double precision, durations to seconds; decimals by their text.

    Arrow divides decimals by a power of ten, which is off in the last place for one in eight.
    """
    if pa.types.is_duration(cells.type):
        units = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
        return pc.divide(as_floats(pc.cast(cells, pa.int64())), units[cells.type.unit])
    if pa.types.is_decimal(cells.type):
        cells = pc.cast(cells, pa.string())
    return pc.cast(cells, pa.float64(), safe=False)


def trimmed(cells: pa.Array) -> pa.Array:
    """Cells of text without blanks around them; those that mean a missing value are null."""
    bare = pc.utf8_trim_whitespace(normalized(cells))
    missing = pc.is_in(pc.utf8_lower(bare), pa.array(sorted(MISSING)))
    return pc.if_else(missing, pa.scalar(None, pa.string()), bare)


def matching(cells: pa.Array, pattern: str) -> np.ndarray:
    """Which of the cells, none of which is null, are as a pattern says, (k,) of bool."""
    return np.asarray(pc.match_substring_regex(cells, pattern).to_numpy(zero_copy_only=False))


def numbers(cells: pa.Array, written: Sequence[str] = ()) -> Parsed | None:
    """Read cells of text as numbers, ``None`` where not all of them are.

    Args:
        cells: distinct ones (k,), none of which is null.
        written: the words of the ways that are meant where there are several.

    Raises:
        AmbiguousError: they can be read in two ways, as other numbers.
    """
    every = (PLAIN, *NOTATIONS, *SIGNED)
    asked = [way for way in every if way.words in written and _matches(cells, way)]
    if not asked and _matches(cells, PLAIN):
        return _plain(cells)
    ways = asked or [way for way in every[1:] if _matches(cells, way)]
    read = [_read(cells, way) for way in ways]
    if any(not np.array_equal(one, read[0]) for one in read[1:]):
        raise AmbiguousError(cells[0].as_py(), *(way.words for way in ways))
    if not ways:
        return None
    return Parsed(read[0], "" if ways[0] is PLAIN else ways[0].words)


def _matches(cells: pa.Array, way: Notation) -> bool:
    return bool(matching(cells, way.pattern).all())


def _plain(cells: pa.Array) -> Parsed:
    """Read numbers with decimal points, unless all of these may be points between thousands."""
    has_point = pc.match_substring(cells, ".")
    pointed, whole = cells.filter(has_point), cells.filter(pc.invert(has_point))
    of_thousands = len(pointed) and len(whole) and matching(pointed, THOUSANDS).all()
    if of_thousands and matching(whole, BELOW).all():
        raise AmbiguousError(pointed[0].as_py(), PLAIN.words, POINTS.words)
    return Parsed(_read(cells, PLAIN), such=pointed[0].as_py() if len(pointed) else "")


def _read(cells: pa.Array, way: Notation) -> np.ndarray:
    plain = pc.replace_substring_regex(cells, way.removed, "") if way.removed else cells
    plain = pc.replace_substring(plain, way.point, ".") if way.point != "." else plain
    plain = pc.replace_substring_regex(plain, r"^\+", "")
    return np.asarray(pc.cast(plain, pa.float64()).to_numpy(zero_copy_only=False))


def dates(cells: pa.Array, written: Sequence[str] = ()) -> Parsed | None:
    """Read cells of text as seconds since 1970, ``None`` where not all of them are dates.

    Dates with an offset from UTC are read as instants, see :func:`without_offsets`.

    Args:
        cells: distinct ones (k,), none of which is null.
        written: the words of the ways that are meant where there are several.

    Raises:
        AmbiguousError: day and month could be either.
    """
    if matching(cells, ISO).all():
        read = pd.to_datetime(cells.to_pylist(), format="ISO8601", errors="coerce", utc=True)
        return None if read.isna().any() else Parsed(_seconds(read))
    if matching(cells, TIMES).all():
        read = pd.to_timedelta(
            [one if one.count(":") > 1 else f"{one}:00" for one in cells.to_pylist()]
        )
        return Parsed(np.asarray(read.total_seconds(), dtype=float))
    found = {}
    for words, form, pattern in DATES:
        if matching(cells, pattern).all():
            read = pd.to_datetime(cells.to_pylist(), format=form, errors="coerce", utc=True)
            if not read.isna().any():
                found[words] = _seconds(read)
    found = {words: values for words, values in found.items() if words in written} or found
    if len(found) > 1:
        raise AmbiguousError(cells[0].as_py(), *found)
    return next((Parsed(values, words) for words, values in found.items()), None)


def without_offsets(cells: pa.Array) -> tuple[pa.Array, tuple[str, ...]]:
    """Return ISO dates (n,) without their offsets from UTC, and the distinct offsets.

    The offset of a date that has none is "".
    """
    bare = pc.replace_substring_regex(cells, rf"(:\d{{2}}(?:\.\d+)?){OFFSET}", r"\1")
    pairs = pc.unique(pc.binary_join_element_wise(bare, cells, "|")).drop_null().to_pylist()
    offsets = {cell[len(local) :] for local, cell in (pair.split("|") for pair in pairs)}
    return bare, tuple(sorted({re.sub(r"(\d\d)(\d\d)$", r"\1:\2", each) for each in offsets}))


def _seconds(read: pd.DatetimeIndex) -> np.ndarray:
    return np.asarray(read.as_unit("us").asi8 / 1e6)
