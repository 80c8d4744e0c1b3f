"""Formats of numbers and dates in text: found from all cells of a column, or refused.

``1,234`` may be a thousand or a little more than one: where all cells of a column fit two formats
that give other numbers, the user has to choose. Cells are parsed together, by Arrow, so that a
million of them are fast; pandas parses dates, by explicit formats.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .text import MISSING

if TYPE_CHECKING:
    import pandas as pd

_EXPONENT = r"([eE][+-]?\d+)?"
_BLANK = "[ \u00a0\u2009\u202f'\u2019]"


class NumberFormat(NamedTuple):
    """A format of numbers.

    Attributes:
        name: its name, in messages and as an option.
        pattern: regular expression of a whole cell.
        removed: regular expression of the separators between thousands.
        point: the decimal separator.
    """

    name: str
    pattern: str
    removed: str = ""
    point: str = "."


PLAIN = NumberFormat("decimal points", rf"^[+-]?(\d+\.?\d*|\.\d+){_EXPONENT}$")
#: Numbers with decimal points all of whose fractions have three digits, and whole numbers below
#: 1000: these are written in the same way with points between thousands.
THOUSANDS, BELOW = r"^[+-]?[1-9]\d{0,2}\.\d{3}$", r"^[+-]?\d{1,3}$"
POINTS = NumberFormat(
    "points between thousands and decimal commas",
    r"^[+-]?([1-9]\d{0,2}(\.\d{3})+|\d+)(,\d+)?$",
    r"\.",
    ",",
)
DECIMAL_COMMAS = NumberFormat("decimal commas", rf"^[+-]?(\d*,\d+|\d+){_EXPONENT}$", "", ",")
OTHER_FORMATS = (
    DECIMAL_COMMAS,
    NumberFormat(
        "exponents of Fortran", r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+|[dD][+-]\d+)?$", "", "."
    ),
    NumberFormat("commas between thousands", r"^[+-]?([1-9]\d{0,2}(,\d{3})+|\d+)(\.\d+)?$", ","),
    POINTS,
    NumberFormat(
        "blanks or apostrophes between thousands",
        rf"^[+-]?([1-9]\d{{0,2}}({_BLANK}\d{{3}})+|\d+)(\.\d+)?$",
        _BLANK,
    ),
    NumberFormat(
        "blanks or apostrophes between thousands and decimal commas",
        rf"^[+-]?([1-9]\d{{0,2}}({_BLANK}\d{{3}})+|\d+)(,\d+)?$",
        _BLANK,
        ",",
    ),
)
CURRENCIES = "$\u20ac\u00a3\u00a5"
_CURRENCY = f"[{CURRENCIES}]"


def _with_sign(name: str, number: str, thousands: str = "", point: str = ".") -> NumberFormat:
    """Return the format of amounts with the sign of a currency before or after a number."""
    pattern = rf"^[+-]?({_CURRENCY} ?{number}|{number} ?{_CURRENCY})$"
    return NumberFormat(name, pattern, rf" ?{_CURRENCY} ?{thousands}", point)


SIGN_FORMATS = (
    NumberFormat("per cent signs", r"^[+-]?(\d+\.?\d*|\.\d+) ?%$", " ?%"),
    NumberFormat("per cent signs and decimal commas", r"^[+-]?\d+(,\d+)? ?%$", " ?%", ","),
    _with_sign("signs of a currency", r"\d+(\.\d+)?"),
    _with_sign(
        "signs of a currency and commas between thousands",
        r"([1-9]\d{0,2}(,\d{3})+|\d+)(\.\d+)?",
        "|,",
    ),
    _with_sign("signs of a currency and decimal commas", r"\d+(,\d+)?", "", ","),
    _with_sign(
        "signs of a currency, points between thousands and decimal commas",
        r"([1-9]\d{0,2}(\.\d{3})+|\d+)(,\d+)?",
        r"|\.",
        ",",
    ),
)
#: Formats of dates other than ISO 8601: name, format of ``strptime``, regular expression.
_CLOCK = {"": "", " %H:%M": r" \d{1,2}:\d{2}", " %H:%M:%S": r" \d{1,2}:\d{2}:\d{2}"}
_DAYS = {
    "day/month/year": ("%d/%m/%Y", r"\d{1,2}/\d{1,2}/\d{4}"),
    "month/day/year": ("%m/%d/%Y", r"\d{1,2}/\d{1,2}/\d{4}"),
    "day.month.year": ("%d.%m.%Y", r"\d{1,2}\.\d{1,2}\.\d{4}"),
    "year/month/day": ("%Y/%m/%d", r"\d{4}/\d{1,2}/\d{1,2}"),
    "day month in letters year": ("%d %b %Y", r"\d{1,2} [A-Za-z]{3} \d{4}"),
    "day-month in letters-year": ("%d-%b-%Y", r"\d{1,2}-[A-Za-z]{3}-\d{4}"),
}
DATE_FORMATS = [
    (name, day + clock, f"^{day_pattern}{clock_pattern}$")
    for name, (day, day_pattern) in _DAYS.items()
    for clock, clock_pattern in _CLOCK.items()
]
#: Text that looks like a number with a unit, or like a date.
LIKE_NUMBERS = (
    r"^[^\w\s]?\s?\d[\d.,'\x{00a0}\x{202f} ]*\s?[^\d\s]{0,4}$"
    r"|^\(?[\d.,]+\)?$|^\d{1,4}[-/. ]\w{1,9}[-/. ]\d{2,4}\b.*$"
    r"|^[-+]?\p{Nd}[\p{Nd}.,_/' ]*$|^0x[0-9a-fA-F]+$|^[A-Z]{3} ?\d[\d.,]*$"
    r"|^[A-Za-z]{3,9}\.? \d{1,2},? \d{4}$|^\d{4}-(\d{2}|W\d{2}|Q[1-4])$|^\d{4} ?Q[1-4]$"
)
#: Blanks within cells other than a single ordinary one.
BLANKS = (
    r"[ \t\r\n\x{00a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]{2,}"
    r"|[\t\r\n\x{00a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]"
)
#: Words that stand for something that is not known, among numbers or dates.
TOKENS = (
    r"^(?i:\W+|#.*|\\N|[-+]?inf(inity)?|[-+]?nan|missing|unknown|n\.a\.|nil|error|none|null"
    r"|don.?t know|not available|no data|undefined|keine angabe|k\.a\.|s\.d\.|nd)$"
)
#: Not an array of the cells, for which Arrow would import pandas.
MISSING_PATTERN = f"^({'|'.join(map(re.escape, sorted(MISSING)))})$"
NUMBER_FORMATS = (PLAIN, *OTHER_FORMATS, *SIGN_FORMATS)
#: Names of formats that a user can choose.
FORMAT_NAMES = (*(candidate.name for candidate in NUMBER_FORMATS), *_DAYS)
#: Negative numbers as accountants write them: in parentheses, or with the sign behind or another.
NEGATIVE = r"^(\([^()]*\d[^()]*\)|[^-]*\d[^-]*-|\x{2212}.*)$"
#: Times of a day, which are seconds since midnight.
TIMES = r"^([01]?\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d+)?)?$"
OFFSET = r"(Z|[+-]\d{2}:?\d{2})$"
ISO = r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?$"


class AmbiguousError(Exception):
    """All cells, of which the first argument is one, fit several formats, the other arguments."""


class Parsed(NamedTuple):
    """Parsed cells.

    Attributes:
        values: (k,) numbers, or seconds since 1970.
        format: name of their format, "" for decimal points and ISO dates.
        pointed: a cell with a decimal point, of the format with decimal points.
    """

    values: np.ndarray
    format: str = ""
    pointed: str = ""


def normalize_strings(array: pa.Array) -> pa.Array:
    """Return cells of text in Unicode normal form C."""
    if pc.all(pc.string_is_ascii(array)).as_py() is not False:  # None without any cell
        return array
    return pc.utf8_normalize(array, form="NFC")


def set_null(array: pa.Array, where: pa.Array) -> pa.Array:
    """Set cells to null where a mask says, without a scalar, for which Arrow imports pandas."""
    return pc.if_else(where, pa.nulls(len(array), array.type), array)


def strip_strings(array: pa.Array) -> pa.Array:
    """Remove blanks around cells of text; missing values become null."""
    stripped = pc.utf8_trim_whitespace(normalize_strings(array))
    if pc.any(pc.match_substring_regex(stripped, BLANKS)).as_py():
        stripped = pc.replace_substring_regex(stripped, BLANKS, " ")
    missing = pc.match_substring_regex(pc.utf8_lower(stripped), MISSING_PATTERN)
    return set_null(stripped, missing)


def normalize_words(array: pa.Array) -> pa.Array:
    """Write True and FALSE as true and false, and 1.0 as 1, as booleans and integers are."""
    array = pc.replace_substring_regex(array, "^(?i:true)$", "true")
    array = pc.replace_substring_regex(array, "^(?i:false)$", "false")
    return pc.replace_substring_regex(array, r"^([+-]?\d+)\.0+$", r"\1")


def normalize_signs(array: pa.Array) -> pa.Array:
    """Write negative numbers with the sign in front, not behind or around them."""
    array = pc.replace_substring(array, "\u2212", "-")
    array = pc.replace_substring_regex(array, rf"^({_CURRENCY}) ?-", r"-\1")
    return pc.replace_substring_regex(
        array, r"^(?:\(([^()-]*\d[^()-]*)\)|([^-]*\d[^-]*)-)$", r"-\1\2"
    )


def unparsed_cell(array: pa.Array) -> str:
    """Return a cell of text (k,) that is no number in the format that most cells have."""
    normalized = normalize_signs(array)
    fitting = max((matches(normalized, format_.pattern) for format_ in NUMBER_FORMATS), key=np.sum)
    return str(array[int(np.argmin(fitting))].as_py())


def strip_zeros(array: pa.Array) -> pa.Array:
    """Remove zeros at the end of decimals in text: 1.0 and 1.00 become 1."""
    return pc.replace_substring_regex(array, r"(\.\d*[1-9])0+$|\.0*$", r"\1")


def as_floats(array: pa.Array) -> pa.Array:
    """Convert numbers to double precision, durations to seconds; decimals by their text.

    Arrow divides decimals by a power of ten, which is off in the last place for one in eight.
    """
    if pa.types.is_duration(array.type):
        per_second = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[array.type.unit]
        return pc.divide(as_floats(pc.cast(array, pa.int64())), per_second)
    if pa.types.is_decimal(array.type):
        array = pc.cast(array, pa.string())
    return pc.cast(array, pa.float64(), safe=False)


def as_numpy(array: pa.Array) -> np.ndarray:
    """Return numbers (n,) of any Arrow type in double precision, NaN where they are null."""
    return np.array(as_floats(array).to_numpy(zero_copy_only=False), dtype=float)


def matches(array: pa.Array, pattern: str) -> np.ndarray:
    """Return which of the cells, none of which is null, match a regular expression, (k,) bool."""
    return np.asarray(pc.match_substring_regex(array, pattern).to_numpy(zero_copy_only=False))


def determine_points(formats: Sequence[str]) -> bool:
    """Return whether formats determine what points in numbers are."""
    return PLAIN.name in formats or POINTS.name in formats


def date_conversion(values: np.ndarray) -> str:
    """Return how pandas converts numbers (n,) to dates, by their magnitude.

    They are days as spreadsheets count them (from 1954 to 2119), dates such as 20240131, or times
    since 1970 in s, ms, us or ns.
    """
    known = np.abs(values[~np.isnan(values)])
    size = float(np.median(known)) if len(known) else 0.0
    if 2e4 <= size <= 8e4:
        how = "unit='D', origin='1899-12-30'"
    elif len(known) and 19e6 <= known.min() <= known.max() < 22e6:
        how = "format='%Y%m%d'"
    else:
        # 1e11 s are in the year 5138, and 1e11 ms in 1973.
        unit = ("s", "ms", "us", "ns")[sum(size >= limit for limit in (1e11, 1e14, 1e17))]
        how = f"unit={unit!r}"
    return f"pandas.to_datetime(..., {how})"


def parse_numbers(array: pa.Array, formats: Sequence[str] = ()) -> Parsed | None:
    """Parse text as numbers, ``None`` where not all cells are numbers.

    Args:
        array: (k,) distinct cells, none of which is null.
        formats: names of the formats that are preferred where several fit.

    Raises:
        AmbiguousError: two formats fit, and give other numbers.
    """
    array = normalize_signs(array)
    if not formats and matches(array, PLAIN.pattern).all():
        return _parse_plain(array)
    fitting = [candidate for candidate in NUMBER_FORMATS if matches(array, candidate.pattern).all()]
    preferred = [candidate for candidate in fitting if candidate.name in formats]
    if not preferred and PLAIN in fitting:
        return _parse_plain(array)
    fitting = preferred or fitting
    if not fitting:
        return None
    values = [parse_format(array, candidate) for candidate in fitting]
    if any(not np.array_equal(other, values[0]) for other in values[1:]):
        raise AmbiguousError(array[0].as_py(), *(candidate.name for candidate in fitting))
    return Parsed(values[0], "" if fitting[0] is PLAIN else fitting[0].name)


def _parse_plain(array: pa.Array) -> Parsed:
    """Parse numbers with decimal points, unless all points may be between thousands."""
    has_point = pc.match_substring(array, ".")
    pointed, integers = array.filter(has_point), array.filter(pc.invert(has_point))
    may_be_thousands = len(pointed) and len(integers) and matches(pointed, THOUSANDS).all()
    if may_be_thousands and matches(integers, BELOW).all():
        raise AmbiguousError(pointed[0].as_py(), PLAIN.name, POINTS.name)
    return Parsed(parse_format(array, PLAIN), pointed=pointed[0].as_py() if len(pointed) else "")


def parse_format(array: pa.Array, number_format: NumberFormat) -> np.ndarray:
    """Parse cells (k,) that all have a format."""
    _, _, removed, point = number_format
    plain = pc.replace_substring_regex(array, removed, "") if removed else array
    plain = pc.replace_substring(plain, point, ".") if point != "." else plain
    plain = pc.replace_substring_regex(plain, "[dD]", "e")
    return as_numpy(pc.replace_substring_regex(plain, r"^\+", ""))


def parse_dates(array: pa.Array, formats: Sequence[str] = ()) -> Parsed | None:
    """Parse text as dates in seconds since 1970, ``None`` where not all cells are dates.

    Dates with an offset from UTC are instants, see :func:`strip_offsets`; times of a day are
    seconds since midnight.

    Args:
        array: (k,) distinct cells, none of which is null.
        formats: names of the formats that are preferred where several fit.

    Raises:
        AmbiguousError: day and month could be either.
    """
    import pandas as pd  # slow to import, and files of numbers do without

    if matches(array, ISO).all():
        dates = pd.to_datetime(array.to_pylist(), format="ISO8601", errors="coerce", utc=True)
        return None if dates.isna().any() else Parsed(_seconds(dates))
    if matches(array, TIMES).all():
        times = [cell if cell.count(":") > 1 else f"{cell}:00" for cell in array.to_pylist()]
        return Parsed(np.asarray(pd.to_timedelta(times).total_seconds(), dtype=float))
    parsed = {}
    for name, strptime, pattern in DATE_FORMATS:
        if matches(array, pattern).all():
            dates = pd.to_datetime(array.to_pylist(), format=strptime, errors="coerce", utc=True)
            if not dates.isna().any():
                parsed[name] = _seconds(dates)
    parsed = {name: values for name, values in parsed.items() if name in formats} or parsed
    if len(parsed) > 1:
        raise AmbiguousError(array[0].as_py(), *parsed)
    return next((Parsed(values, name) for name, values in parsed.items()), None)


def other_spellings(first: Sequence[str], second: Sequence[str]) -> list[tuple[str, str]]:
    """Find texts of two tables that are equal but for their spelling.

    Spellings of one text differ in capital letters, in zeros at the beginning of whole numbers, in
    separators between thousands or parts, in hyphens and braces of UUIDs, or in formats of dates.

    Args:
        first: distinct texts of the first table.
        second: distinct texts of the second table.

    Returns:
        Pairs of a text that only the first table has, and one that only the second has.
    """
    unmatched = set(first) - set(second), set(second) - set(first)
    if not all(unmatched):
        return []
    known, other = map(_normal_forms, (first, second), unmatched)
    pairs = ((text, other[form]) for form, text in known.items() if form in other)
    return list(dict.fromkeys(pairs))


def _normal_forms(texts: Sequence[str], chosen: set[str]) -> dict[str, str]:
    """Return the chosen texts by their normal forms, dates by one for each possible format."""
    forms = {_normal_form(text): text for text in texts if text in chosen}
    array = pa.array(texts, pa.string())
    formats: tuple[str, ...] = ("",)
    try:
        parse_dates(array)
    except AmbiguousError as error:
        formats = error.args[1:]
    for format_ in formats if len(array) else ():
        if (dates := parse_dates(array, [format_])) is not None:
            days = np.array(dates.values, dtype="datetime64[s]").astype(str)
            forms |= {
                _normal_form(day.removesuffix("T00:00:00")): text
                for day, text in zip(days, texts, strict=True)
                if text in chosen
            }
    return forms


def _normal_form(text: str) -> str:
    """Write a text in lower case, with hyphens between its parts and no zeros before numbers."""
    text = text.casefold().replace("\u2212", "-").strip("{}")
    if re.fullmatch(r"[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}", text):
        return text.replace("-", "")
    if re.fullmatch(rf"[1-9]\d{{0,2}}(,\d{{3}})+|[1-9]\d{{0,2}}({_BLANK}\d{{3}})+", text):
        return re.sub(r"\D", "", text)
    if re.fullmatch(r"(19|20)\d\d(0[1-9]|1[0-2])([0-2]\d|3[01])", text):  # a date
        text = f"{text[:4]}-{text[4:6]}-{text[6:]}"
    text = re.sub(r"(?<=\w)[-_/ ]+(?=\w)|(?<=\d)(?=[^\W\d_])|(?<=[^\W\d_])(?=\d)", "-", text)
    return re.sub(r"(?<![\d.,])0+(?=\d)", "", text)


def strip_offsets(array: pa.Array) -> tuple[pa.Array, tuple[str, ...]]:
    """Return ISO dates (n,) without their offsets from UTC, and the distinct offsets.

    The offset of a date that has none is "".
    """
    bare = pc.replace_substring_regex(array, rf"(:\d{{2}}(?:\.\d+)?){OFFSET}", r"\1")
    pairs = pc.unique(pc.binary_join_element_wise(bare, array, "|")).drop_null().to_pylist()
    offsets = {cell[len(local) :] for local, cell in (pair.split("|") for pair in pairs)}
    return bare, tuple(sorted({re.sub(r"(\d\d)(\d\d)$", r"\1:\2", offset) for offset in offsets}))


def _seconds(dates: pd.DatetimeIndex) -> np.ndarray:
    return np.asarray(dates.as_unit("us").asi8 / 1e6)
