"""Cells of a column in all tables as one array, with missing values as nulls."""

from __future__ import annotations

import numbers
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..core.errors import InputError, check_choice, nearest
from ..core.names import join_names
from ..data.checks import INEXACT_INTEGERS, loses_digits, normalize_text, pluralize
from ..data.equality import DOUBLE, round_to, stored_size
from .formats import (
    DATE_FORMATS,
    FORMAT_NAMES,
    ISO,
    MISSING_PATTERN,
    NUMBER_FORMATS,
    PLAIN,
    SIGN_FORMATS,
    TIMES,
    AmbiguousError,
    as_floats,
    as_numpy,
    date_conversion,
    determine_points,
    matches,
    normalize_signs,
    parse_dates,
    parse_format,
    parse_numbers,
    set_null,
    strip_offsets,
    strip_strings,
)
from .tables import Table, column_name
from .text import MISSING
from .types import (
    COLUMN_TYPES,
    DIGITS,
    PADDED,
    Column,
    ColumnError,
    TypedColumn,
    advise_on_spelling,
    ambiguous_format,
    check_supported,
    check_thousands,
    infer_type,
    note_on_negative,
    number_texts,
    parse_booleans,
    read_columns,
)

#: Problems, and names of columns, that a message lists.
MAX_PROBLEMS, MAX_NAMES = 8, 12
#: The last year whose summer time Arrow knows.
LAST_YEAR = 2037


class ColumnArray(NamedTuple):
    """Cells of a column of all tables.

    Attributes:
        array: (N,), of one type.
        mixed: their types in each table, if these are several, and what to do.
        notes: notes on how they were read.
    """

    array: pa.Array
    mixed: str = ""
    notes: tuple[str, ...] = ()


def column_array(
    tables: Sequence[Table],
    name: str,
    na_values: Sequence[str | float],
    formats: Sequence[str] = (),
) -> ColumnArray:
    """Return the cells of a column of all tables, of one type.

    Text is parsed as numbers, dates or booleans where the other table has these and all of it can
    be; 0 and 1 are booleans where the other table has booleans. Dates are local times of their
    time zone.

    Args:
        tables: one or two tables.
        name: name of the column.
        na_values: cells that stand for a missing value.
        formats: names of preferred formats of numbers or dates.

    Raises:
        ColumnError: the tables hold types that cannot be compared.
    """
    parts = [
        _without(_simplified(table.data.column(name).combine_chunks()), na_values, formats)
        for table in tables
    ]
    with_offsets = [
        table.source
        for part, table in zip(parts, tables, strict=True)
        if pa.types.is_string(part.type)
    ]
    parts, notes = _to_common_family(parts, name, formats)
    families = {_family(part.type) for part in parts} - {"nothing"}
    mixed = ""
    if len(families) > 1:
        mixed = " and ".join(
            f"{_family(part.type)} in {table.source}"
            for part, table in zip(parts, tables, strict=True)
        )
        for part in parts:
            check_supported(part.type)
        if "text" not in families:
            raise ColumnError(f"holds {mixed}: {_conversion(parts, families)}")
        try:
            parts = [pc.cast(part, pa.string()) for part in parts]
        except pa.ArrowNotImplementedError:
            raise ColumnError(f"holds {mixed}: write them alike") from None
        mixed += f": {advise_on_spelling(name, *parts)}"
    elif families == {"dates"}:
        sources = [table.source for table in tables]
        parts, zone_notes = _local_times(parts, name, sources, with_offsets)
        notes += zone_notes
    elif families == {"numbers"} and len({part.type for part in parts}) > 1:
        parts = _to_common_precision(parts)
    elif len({part.type for part in parts}) > 1:
        dtype = next(part.type for part in parts if not pa.types.is_null(part.type))
        parts = [pc.cast(part, dtype, safe=False) for part in parts]
    return ColumnArray(pa.concat_arrays(parts), mixed, notes)


def is_declared_category(tables: Sequence[Table], name: str) -> bool:
    """Return whether the type of a column of numbers, or of text like numbers, is categorical."""
    for table in tables:
        array = table.data.column(name).combine_chunks()
        if not pa.types.is_dictionary(array.type):
            return False
        values = _simplified(array.dictionary.drop_null())
        is_text = _family(values.type) == "text"
        if is_text and not matches(values.drop_null(), r"^[\d.,+-]*$").all():
            return False
    return True


def _local_times(
    parts: list[pa.Array], name: str, sources: list[str], with_offsets: Sequence[str] = ()
) -> tuple[list[pa.Array], tuple[str, ...]]:
    """Return dates in the local time of their time zone, of the first of several, and a note.

    Args:
        parts: dates of every table.
        name: name of the column.
        sources: names of the tables.
        with_offsets: names of those whose dates are text with offsets from UTC.

    Raises:
        ColumnError: some have a time zone, and others none.
    """
    zones = {
        source: getattr(part.type, "tz", None)
        for source, part in zip(sources, parts, strict=True)
        if not pa.types.is_null(part.type)
    }
    known = {zone: source for source, zone in zones.items() if zone}
    if not known:
        return [pc.cast(part, pa.timestamp("us"), safe=False) for part in parts], ()
    without = [source for source, zone in zones.items() if not zone]
    if without:
        zone, source = next(iter(known.items()))
        raise ColumnError(
            f"has the time zone {zone} in {source} and none in {without[0]}: give both one, as "
            f"with .dt.tz_localize({zone!r}) in pandas"
        )
    zone = next((zone for zone in known if zone != "UTC"), "UTC")
    try:
        to = pa.timestamp("us", tz=zone)
        local = [pc.local_timestamp(pc.cast(part, to, safe=False)) for part in parts]
    except pa.ArrowInvalid as error:
        raise ColumnError(f"has a time zone that is not known here: {error}") from None
    late = max(pc.max(pc.year(part)).as_py() or 0 for part in local) > LAST_YEAR
    notes = (f"{name!r} has dates after {LAST_YEAR}, read without summer time.",) if late else ()
    if len(known) == 1:
        return local, notes
    other_zones = ", ".join(
        f"{'offsets from UTC' if source in with_offsets else other} in {source}"
        for other, source in known.items()
        if other != zone
    )
    zones_note = f"{name!r} is compared by the local clock of {zone}; it has {other_zones}."
    return local, (*notes, zones_note)


def _to_common_precision(parts: list[pa.Array]) -> list[pa.Array]:
    """Round numbers of several types to the narrowest floating-point type among them.

    Whole numbers that are of no common type become text.

    Raises:
        ColumnError: whole numbers lose digits in double precision.
    """
    if all(map(pa.types.is_integer, (part.type for part in parts))):
        try:
            return [pc.cast(part, pa.int64()) for part in parts]
        except pa.ArrowInvalid:  # more than 63 bits
            return [pc.cast(part, pa.string()) for part in parts]
    for part in parts:
        if pa.types.is_integer(part.type) and loses_digits(
            part.drop_null().to_numpy(), as_numpy(part.drop_null())
        ):
            raise ColumnError(f"has {INEXACT_INTEGERS}")
    size = min(stored_size(part.type) for part in parts)
    if size == DOUBLE:
        return [as_floats(part) for part in parts]
    rounded = [round_to(as_numpy(part), size) for part in parts]
    largest = max(np.nanmax(np.abs(values), initial=0.0) for values in rounded)
    dtype = np.dtype(f"f{size if largest <= np.finfo(f'f{size}').max else DOUBLE}")
    return [pa.array(values.astype(dtype), from_pandas=True) for values in rounded]


def _to_common_family(
    parts: list[pa.Array], name: str, formats: Sequence[str]
) -> tuple[list[pa.Array], tuple[str, ...]]:
    """Convert one of two parts to what the other holds, if all of its cells can be, with notes."""
    families = [_family(part.type) for part in parts]
    if sorted(families) == ["booleans", "numbers"]:
        at = families.index("numbers")
        binary = pc.all(pc.is_in(as_floats(parts[at]), pa.array([0.0, 1.0, None])))
        if binary.as_py() is not False:
            parts[at] = pc.cast(as_floats(parts[at]), pa.bool_())
        return parts, ()
    if len(parts) != 2 or families.count("text") != 1 or "nothing" in families:
        return parts, ()
    text = families.index("text")
    distinct = pc.unique(parts[text]).drop_null()
    notes: tuple[str, ...] = ()
    try:
        parsed = _parse_as(parts[text], parts[1 - text].type, formats)
    except AmbiguousError as error:
        raise ambiguous_format(name, error) from None
    if parsed is not None and families[1 - text] == "numbers":
        notes = note_on_negative(name, distinct)
        if not determine_points(formats):
            numbers = number_texts(np.unique(as_numpy(parts[1 - text].drop_null())))
            check_thousands(name, distinct, numbers)
    if parsed is not None:
        parts[text] = parsed
    return parts, notes


def _parse_as(array: pa.Array, dtype: pa.DataType, formats: Sequence[str]) -> pa.Array | None:
    """Parse text as another table has the column, ``None`` where not all of it can be.

    Raises:
        AmbiguousError: several formats fit.
        ColumnError: per cent or currency signs, or offsets from UTC, are in the text alone.
    """
    family = _family(dtype)
    distinct = pc.unique(array).drop_null()
    if not len(distinct):
        return pa.nulls(len(array))
    values: pa.Array | None = None
    if family == "booleans":
        booleans = parse_booleans(distinct)
        values = None if booleans is None else pa.array(booleans)
    elif family in ("dates", "times of a day") and matches(distinct, TIMES).all():
        if family == "dates":
            return None
        seconds = parse_dates(distinct)
        assert seconds is not None
        microseconds = np.round(seconds.values * 1e6).astype(np.int64)
        values = pc.cast(pa.array(microseconds), pa.time64("us"))
    elif family == "dates" and (dates := parse_dates(distinct, formats)) is not None:
        microseconds = np.round(dates.values * 1e6).astype(np.int64)
        offsets = strip_offsets(distinct)[1] if matches(distinct, ISO).all() else ("",)
        aware = "" not in offsets
        if aware and dtype.tz == "UTC" and not set(offsets) <= {"Z", "+00:00"}:
            raise ColumnError(
                f"has offsets from UTC in one table, such as {offsets[-1]}, and the time zone UTC "
                "in the other: write both in one time zone"
            )
        unit = pa.timestamp("us", tz="UTC" if aware else None)
        values = pc.cast(pa.array(microseconds), unit)
    elif family == "numbers" and not matches(distinct, PADDED).any():
        if matches(distinct, DIGITS).all():  # with all digits, which identifiers need
            try:
                values = pc.cast(pc.replace_substring_regex(distinct, r"^\+", ""), pa.int64())
            except pa.ArrowInvalid:  # more than 64 bits
                return None
        elif (numbers := parse_numbers(distinct, formats)) is not None:
            if numbers.format in [candidate.name for candidate in SIGN_FORMATS]:
                raise ColumnError(
                    f"has {numbers.format} in one table, such as {distinct[0].as_py()!r}, and "
                    "numbers without in the other: write both in one unit"
                )
            values = pa.array(numbers.values)
    return None if values is None else values.take(pc.index_in(array, distinct))


def _conversion(parts: Sequence[pa.Array], families: set[str]) -> str:
    """Advise on the conversion of columns of several types to one."""
    if families == {"dates", "numbers"}:
        (values,) = (as_numpy(part) for part in parts if _family(part.type) == "numbers")
        return f"convert numbers to dates, as with {date_conversion(values)}"
    if families == {"durations", "numbers"}:
        return "convert durations to numbers, as with .dt.total_seconds() in pandas"
    return "convert one to the type of the other"


def _simplified(array: pa.Array) -> pa.Array:
    """Return cells of a simple type: text without blanks around it, no dictionary, no NaN."""
    if isinstance(array.type, pa.BaseExtensionType):
        if array.type.extension_name == "arrow.uuid":
            texts = [None if cell is None else str(cell) for cell in array.to_pylist()]
            array = pa.array(texts, pa.string())
        else:
            array = array.storage
    if pa.types.is_run_end_encoded(array.type):
        array = pc.run_end_decode(array)
    if pa.types.is_dictionary(array.type):
        check_supported(array.type.value_type)
        array = pc.cast(array, array.type.value_type)
    if pa.types.is_large_string(array.type) or pa.types.is_string_view(array.type):
        array = pc.cast(array, pa.string())
    if pa.types.is_floating(array.type):
        array = set_null(array, pc.is_nan(array))
    return strip_strings(array) if pa.types.is_string(array.type) else array


def _family(dtype: pa.DataType) -> str:
    if pa.types.is_null(dtype):
        return "nothing"
    if pa.types.is_boolean(dtype):
        return "booleans"
    if pa.types.is_integer(dtype) or pa.types.is_floating(dtype) or pa.types.is_decimal(dtype):
        return "numbers"
    if pa.types.is_string(dtype):
        return "text"
    if pa.types.is_timestamp(dtype) or pa.types.is_date(dtype):
        return "dates"
    if pa.types.is_time(dtype):
        return "times of a day"
    if pa.types.is_duration(dtype):
        return "durations"
    return str(dtype)


def _without(
    array: pa.Array, na_values: Sequence[str | float], formats: Sequence[str] = ()
) -> pa.Array:
    """Return cells with those that stand for a missing value as nulls.

    Args:
        array: (n,) cells.
        na_values: values that stand for a missing value.
        formats: names of preferred formats of numbers in text.
    """
    if not na_values:
        return array
    if pa.types.is_string(array.type):
        texts = pa.array(sorted({normalize_text(str(value)) for value in na_values}))
        missing = pc.is_in(array, texts)
        # 999 stands for 999.0 too, as many programs write it, and for 9.99e+02; -1.5 for -1,50.
        if numbers := _numbers(na_values):
            plain_texts = pc.replace_substring(normalize_signs(array), ",", ".")
            plain = pc.fill_null(pc.match_substring_regex(plain_texts, PLAIN.pattern), False)
            values = as_numpy(pc.replace_substring(pc.if_else(plain, plain_texts, "nan"), "+", ""))
            same = pa.array(np.isin(values, numbers))
            missing = pc.or_(pc.or_(missing, same), _are_numbers(array, numbers, formats))
        if dates := _dates(na_values):
            same = pc.match_substring_regex(array, rf"^({dates})([T ].*)?$")
            missing = pc.or_(missing, pc.fill_null(same, False))
    elif _family(array.type) == "numbers":
        values = round_to(np.array(_numbers(na_values), dtype=float), stored_size(array.type))
        floats = pc.add(as_floats(array), 0.0)  # -0.0 is 0
        missing = pc.is_in(floats, pa.array(values + 0.0, pa.float64()))
    elif _family(array.type) == "dates":
        if not (dates := _dates(na_values)):
            return array
        texts = pc.cast(array, pa.string())
        missing = pc.fill_null(pc.match_substring_regex(texts, f"^({dates})"), False)
    else:
        return array
    return set_null(array, missing)


def _are_numbers(array: pa.Array, numbers: list[float], formats: Sequence[str]) -> pa.Array:
    """Return which cells of text (n,) are one of some numbers in the format that most cells have.

    Args:
        array: (n,) cells, with null where they are missing.
        numbers: the numbers.
        formats: names of the formats that come first where several fit.
    """
    digits = (re.sub(r"\D", "", f"{abs(number):.12f}").strip("0") or "0" for number in numbers)
    pattern = "|".join(r"\D?".join(text) for text in digits)
    distinct = pc.unique(array).drop_null()
    # Most columns have no such digits, and need no format.
    if not matches(distinct, rf"^[\D0]*({pattern})[\D0]*$").any():
        return pa.array(np.zeros(len(array), dtype=bool))
    texts = normalize_signs(distinct)
    candidates = sorted(NUMBER_FORMATS, key=lambda candidate: candidate.name not in formats)
    fitting = [matches(texts, candidate.pattern) for candidate in candidates]
    best = max(range(len(candidates)), key=lambda index: fitting[index].sum())
    fits = pa.array(fitting[best])
    equal = np.isin(parse_format(texts.filter(fits), candidates[best]), numbers)
    return pc.fill_null(pc.is_in(array, distinct.filter(fits).filter(pa.array(equal))), False)


def _dates(na_values: Sequence[str | float]) -> str:
    """Return a pattern of the dates among values; a day stands for all of its times."""
    dates = [str(value).replace("T", " ") for value in na_values]
    dates = [re.escape(date) for date in dates if re.match(r"\d{4}-\d\d-\d\d", date)]
    return "|".join(dates).replace(r"\ ", "[T ]")


def _numbers(na_values: Sequence[str | float]) -> list[float]:
    numbers = []
    for value in na_values:
        try:
            numbers.append(float(value))
        except (ValueError, TypeError):  # a word, or None
            continue
    return [number for number in numbers if number == number]


def unused_na_values(
    tables: Sequence[Table], na_values: Sequence[str | float], formats: Sequence[str] = ()
) -> list[str | float]:
    """Return the cells that stand for a missing value and are in no column of the tables."""
    # The values of MISSING are always read as missing.
    unused = [value for value in na_values if str(value).strip().lower() not in MISSING]
    for table in tables:
        for column in table.data.columns if unused else ():
            array = _simplified(column.combine_chunks())
            nulls = array.null_count
            unused = [
                value for value in unused if _without(array, [value], formats).null_count == nulls
            ]
    return unused


def unused_notes(
    tables: Sequence[Table], na_values: Sequence[str | float], formats: Sequence[str] = ()
) -> list[str]:
    """Write notes on missing values that are in no column, and formats that no column has."""
    notes = [
        f"No cell is {value}, as --na-value says."
        for value in unused_na_values(tables, na_values, formats)
    ]
    patterns = [(candidate.name, candidate.pattern) for candidate in NUMBER_FORMATS]
    patterns += [(name, pattern) for name, _, pattern in DATE_FORMATS]
    distinct = [
        pc.unique(array).drop_null()
        for table in (tables if formats else ())
        for column in table.data.columns
        if pa.types.is_string((array := _simplified(column.combine_chunks())).type)
    ]
    for format_ in formats:
        fitting = [pattern for name, pattern in patterns if name == format_]
        if not any(matches(part, pattern).all() for part in distinct for pattern in fitting):
            notes.append(f"No column has {format_}, as --format says.")
    return notes


class ReadOptions(NamedTuple):
    """Options for reading columns.

    Attributes:
        column_types: types of columns, in place of those that are inferred.
        na_values: cells that stand for a missing value.
        formats: names of formats of numbers or dates, where several fit.
        sentinels: what is done with numbers that look like sentinels of a missing value.
        identifiers: compare identifiers, as texts.
        role_types: types of columns with a role, before those of ``column_types``.
    """

    column_types: Mapping[str, str]
    na_values: Sequence[str | float] = ()
    formats: Sequence[str] = ()
    sentinels: str = "warn"
    identifiers: bool = False
    role_types: Mapping[str, str] = {}


def typed_columns(
    tables: Sequence[Table], names: Sequence[str], options: ReadOptions
) -> dict[str, TypedColumn]:
    """Read columns of one or two tables.

    Args:
        tables: the tables.
        names: names of the columns.
        options: options for reading them.

    Raises:
        InputError: an option does not exist, or columns cannot be read; with the problems of all.
    """
    for name, type_ in options.column_types.items():
        check_choice(type_, f"the type of {name!r}", COLUMN_TYPES)
    for format_ in options.formats:
        check_choice(format_, "a format", FORMAT_NAMES)

    def read(name: str, formats: Sequence[str]) -> TypedColumn:
        array, mixed, notes = column_array(tables, name, options.na_values, formats)
        type_ = options.role_types.get(name, options.column_types.get(name))
        if type_ is None and is_declared_category(tables, name):
            type_ = "category"
        typed = infer_type(name, array, tables, type_, formats)
        numbers = typed.column.kind in ("number", "integer")
        if mixed and name not in options.column_types and not numbers:
            raise ColumnError(f"holds {mixed}")
        notes += _notes_on_reading(tables, name, typed.column)
        if name not in options.role_types:
            notes += _levels_note(typed.column)
        return typed._replace(notes=(*notes, *typed.notes))

    columns, problems = read_columns(names, read, options.formats)
    if problems:
        more = len(problems) - MAX_PROBLEMS
        sentences = [f"column {name!r} {problem}" for name, problem in problems.items()]
        text = "; ".join(sentences[:MAX_PROBLEMS]) + (f"; and {more} more" if more > 0 else "")
        raise InputError(text if len(problems) == 1 else f"{len(problems)} columns: {text}")
    return columns


def _levels_note(column: Column, min_levels: int = 50) -> tuple[str, ...]:
    """Note a category most of whose values occur once; more than half of rows is not tuned."""
    if column.kind != "category":
        return ()
    known = column.values[~np.isnan(column.values)]
    _, counts = np.unique(known, return_counts=True)
    if len(counts) <= min_levels or 2 * len(counts) <= len(known):
        return ()
    if 2 * np.count_nonzero(counts == 1) <= len(counts):
        return ()
    return (
        f"{column.name!r} is a category of {len(known)} cells with {len(counts)} different values: "
        "the test has almost no power for it; convert it to numbers or to fewer categories.",
    )


def _notes_on_reading(tables: Sequence[Table], name: str, column: Column) -> tuple[str, ...]:
    """Note a level that is read as missing, and a declaration that only one table has."""
    arrays = [table.data.column(name).combine_chunks() for table in tables]
    declared = [pa.types.is_dictionary(array.type) for array in arrays]
    if any(declared) and not all(declared) and column.kind in ("number", "integer"):
        source = tables[declared.index(True)].source
        return (f"{name!r} is declared as a category in {source} alone: it is read as numbers.",)
    words: dict[str, int] = {}
    for array in arrays if column.levels and np.isnan(column.values).any() else ():
        if pa.types.is_dictionary(array.type):
            array = pc.cast(array, array.type.value_type)
        if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
            stripped = pc.utf8_trim_whitespace(array)
            missing = pc.match_substring_regex(pc.utf8_lower(stripped), MISSING_PATTERN)
            for word in stripped.filter(pc.fill_null(missing, False)).to_pylist():
                words[word] = words.get(word, 0) + bool(word)
    return tuple(
        f"{pluralize(count, 'cell')} of {name!r} with the text {word!r} read as missing."
        for word, count in words.items()
        if count
    )


def as_values(values: Any) -> list[Any]:
    """Return a sequence as a list, one text or number as a list of it, and nothing as none."""
    if values is None or str(values) in ("<NA>", "nan"):
        return []
    return [values] if isinstance(values, (str, numbers.Real)) else list(values)


def as_column_types(types: Mapping[str, str] | None) -> dict[str, str]:
    """Return types of columns by the names that tables have."""
    if not isinstance(types or {}, Mapping):
        raise InputError(
            f"column_types must be a dictionary with the types of columns by name, got {types!r}"
        )
    return {column_name(name): type_ for name, type_ in (types or {}).items()}


def no_column(name: str, table: Table) -> InputError:
    """Describe a column that does not exist."""
    names = table.data.column_names
    if "," in name and {part.strip() for part in name.split(",")} <= set(names):
        return InputError(f"there is no column {name!r}: give each name by itself")
    have = join_names(list(map(repr, names)), MAX_NAMES)
    return InputError(f"there is no column {name!r}: there are {have}{nearest(name, names)}")
