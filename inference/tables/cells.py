"""A column's cells in all tables as one array, without those that stand for a missing value."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..data.equality import DOUBLE, round_to, stored_size
from ..data.unicode import normalize_text
from .alike import read_alike
from .frames import Table
from .kinds import ProblemError, ambiguous
from .numerals import AmbiguousError, as_floats, matching, trimmed


class Cells(NamedTuple):
    """Cells of a column of all tables.

    Attributes:
        array: (N,), of one type.
        mixed: what they are in each table, if not one thing.
        notes: how they were read.
    """

    array: pa.Array
    mixed: str = ""
    notes: tuple[str, ...] = ()


def column_cells(
    tables: Sequence[Table],
    name: str,
    missing: Sequence[str | float],
    written: Sequence[str] = (),
) -> Cells:
    """Return the cells of a column of all tables, of one type.

    Text beside numbers, dates or truths is read as such, if all of it can be, and so are 0 and 1
    beside truths. Dates are those of the local clock of their time zone.

    Raises:
        ProblemError: they are of kinds that do not go together.
    """
    parts = []
    for table in tables:
        parts.append(_without(_plain(table.data.column(name).combine_chunks()), missing))
    parts = _alike(parts, name, written)
    kinds = {_family(part.type) for part in parts} - {"nothing"}
    mixed, notes = "", tuple[str, ...]()
    if len(kinds) > 1:
        one, other = (
            f"{_family(part.type)} in {t.source}" for part, t in zip(parts, tables, strict=True)
        )
        mixed = f"{one} and {other}"
        if "text" not in kinds:
            raise ProblemError(f"holds {mixed}")
        try:
            parts = [pc.cast(part, pa.string()) for part in parts]
        except pa.ArrowNotImplementedError:
            raise ProblemError(f"holds {mixed}") from None
    elif kinds == {"dates"}:
        parts, notes = _local_clocks(parts, name, [table.source for table in tables])
    elif kinds == {"numbers"} and len({part.type for part in parts}) > 1:
        parts = _of_one_precision(parts)
    elif len({part.type for part in parts}) > 1:
        of = next(part.type for part in parts if not pa.types.is_null(part.type))
        parts = [pc.cast(part, of, safe=False) for part in parts]
    return Cells(pa.concat_arrays(parts), mixed, notes)


def is_declared_category(tables: Sequence[Table], name: str) -> bool:
    """Return whether a column of numbers, or of text like numbers, is a category by its type."""
    for table in tables:
        cells = table.data.column(name).combine_chunks()
        if not pa.types.is_dictionary(cells.type):
            return False
        values = cells.dictionary.drop_null()
        is_text = _family(_plain(values).type) == "text"
        if is_text and not matching(_plain(values).drop_null(), r"^[\d.,+-]*$").all():
            return False
    return True


def _local_clocks(
    parts: list[pa.Array], name: str, sources: list[str]
) -> tuple[list[pa.Array], tuple[str, ...]]:
    """Return dates by the local clock of their time zone, of the first of several, and a note.

    Raises:
        ProblemError: some have a time zone, and others none.
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
        raise ProblemError(
            f"has the time zone {zone} in {source} and none in {without[0]}: give both one, as "
            f"with .dt.tz_localize({zone!r}) in pandas"
        )
    zone = next((zone for zone in known if zone != "UTC"), "UTC")
    try:
        to = pa.timestamp("us", tz=zone)
        local = [pc.local_timestamp(pc.cast(part, to, safe=False)) for part in parts]
    except pa.ArrowInvalid as error:
        raise ProblemError(f"has a time zone that is not known here: {error}") from None
    if len(known) == 1:
        return local, ()
    others = ", ".join(f"{other} in {source}" for other, source in known.items() if other != zone)
    return local, (f"{name!r} is compared by the local clock of {zone}; it has {others}.",)


def _of_one_precision(parts: list[pa.Array]) -> list[pa.Array]:
    """Round numbers of several types to the narrowest floating-point type among them."""
    size = min(stored_size(part.type) for part in parts)
    parts = [as_floats(part) for part in parts]
    if size == DOUBLE:
        return parts
    each = [round_to(np.array(part.to_numpy(zero_copy_only=False)), size) for part in parts]
    most = max(np.nanmax(np.abs(values), initial=0.0) for values in each)
    to = np.dtype(f"f{size if most <= np.finfo(f'f{size}').max else DOUBLE}")
    return [pa.array(values.astype(to), from_pandas=True) for values in each]


def _alike(parts: list[pa.Array], name: str, written: Sequence[str]) -> list[pa.Array]:
    """Parts of one family, if one of two is text that can be read as the other's."""
    families = [_family(part.type) for part in parts]
    if sorted(families) == ["numbers", "yes and no"]:
        at = families.index("numbers")
        if pc.all(pc.is_in(as_floats(parts[at]), pa.array([0.0, 1.0, None]))).as_py() is not False:
            parts[at] = pc.cast(as_floats(parts[at]), pa.bool_())
        return parts
    if len(parts) != 2 or families.count("text") != 1 or "nothing" in families:
        return parts
    text = families.index("text")
    try:
        read = read_alike(parts[text], families[1 - text], written)
    except AmbiguousError as error:
        raise ambiguous(name, error) from None
    if read is not None:
        parts[text] = read
    return parts


def _plain(cells: pa.Array) -> pa.Array:
    """Cells of a simple type: text is trimmed, without a dictionary, and NaN is null."""
    if isinstance(cells.type, pa.BaseExtensionType):
        uuid = cells.type.extension_name == "arrow.uuid"
        words = [None if one is None else str(one) for one in cells.to_pylist()] if uuid else []
        cells = pa.array(words, pa.string()) if uuid else cells.storage
    if pa.types.is_dictionary(cells.type):
        cells = pc.cast(cells, cells.type.value_type)
    if pa.types.is_large_string(cells.type) or pa.types.is_string_view(cells.type):
        cells = pc.cast(cells, pa.string())
    if pa.types.is_floating(cells.type):
        cells = pc.if_else(pc.is_nan(cells), pa.scalar(None, cells.type), cells)
    return trimmed(cells) if pa.types.is_string(cells.type) else cells


def _family(of: pa.DataType) -> str:
    if pa.types.is_null(of):
        return "nothing"
    if pa.types.is_boolean(of):
        return "yes and no"
    if pa.types.is_integer(of) or pa.types.is_floating(of) or pa.types.is_decimal(of):
        return "numbers"
    if pa.types.is_string(of):
        return "text"
    if pa.types.is_timestamp(of) or pa.types.is_date(of):
        return "dates"
    return str(of)


def _without(cells: pa.Array, missing: Sequence[str | float]) -> pa.Array:
    """The cells with those that stand for a missing value as nulls."""
    if not missing:
        return cells
    if pa.types.is_string(cells.type):
        words = pc.is_in(cells, pa.array(sorted({normalize_text(str(one)) for one in missing})))
        # 999 stands for 999.0 too, as many programs write it, and -1.5 for -1,50.
        numbers = "|".join(map(_pattern, _numbers(missing)))
        same = pc.match_substring_regex(cells, rf"^\+?({numbers})$") if numbers else words
        gone = pc.or_(words, pc.fill_null(same, False))
    elif _family(cells.type) == "numbers":
        size = stored_size(cells.type)
        wanted = round_to(np.array(_numbers(missing), dtype=float), size)
        gone = pc.is_in(as_floats(cells), pa.array(wanted, pa.float64()))
    else:
        return cells
    return pc.if_else(gone, pa.scalar(None, cells.type), cells)


def _pattern(number: float) -> str:
    """Return a pattern of a number with a decimal point or comma, and zeros after its decimals."""
    plain = re.escape(f"{number:.15g}")
    return plain.replace(r"\.", "[.,]") + "0*" if r"\." in plain else rf"{plain}([.,]0*)?"


def _numbers(missing: Sequence[str | float]) -> list[float]:
    """Those of the cells that are numbers."""
    found = []
    for one in missing:
        try:
            found.append(float(one))
        except ValueError:
            continue
    return found


def unseen_notes(tables: Sequence[Table], missing: Sequence[str | float]) -> list[str]:
    """Tell of cells that stand for a missing value and are nowhere."""
    return [f"No cell is {one}, as --missing says." for one in unseen(tables, missing)]


def unseen(tables: Sequence[Table], missing: Sequence[str | float]) -> list[str | float]:
    """Which of the cells that stand for a missing value are in no column of the tables."""
    left = list(missing)
    for table in tables:
        for name in table.data.column_names if left else ():
            cells = _plain(table.data.column(name).combine_chunks())
            nulls = cells.null_count
            left = [one for one in left if _without(cells, [one]).null_count == nulls]
    return left
