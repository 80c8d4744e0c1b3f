"""Cells of a text file, which have no type, read as what the other table holds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .kinds import DIGITS, PADDED, as_truths
from .numerals import ISO, dates, matching, numbers, without_offsets


def read_alike(cells: pa.Array, family: str, written: Sequence[str]) -> pa.Array | None:
    """Read text as numbers, dates or truths, ``None`` where not all of it can be.

    Args:
        cells: (N,) of text, trimmed.
        family: what the other table holds: ``"numbers"``, ``"dates"`` or ``"yes and no"``.
        written: how numbers or dates are written, where cells can be read in several ways.

    Raises:
        AmbiguousError: they can be read in several ways.
    """
    distinct = pc.unique(cells).drop_null()
    if not len(distinct):
        return pa.nulls(len(cells))
    if family == "yes and no":
        truths = as_truths(distinct)
        return None if truths is None else _taken(cells, distinct, pa.array(truths))
    if family == "dates":
        moments = dates(distinct, written)
        if moments is None:
            return None
        micro = np.round(moments.values * 1e6).astype(np.int64)
        zone = None
        if matching(distinct, ISO).all() and "" not in without_offsets(distinct)[1]:
            zone = "UTC"
        return _taken(cells, distinct, pc.cast(pa.array(micro), pa.timestamp("us", tz=zone)))
    if family != "numbers" or matching(distinct, PADDED).any():
        return None
    if matching(distinct, DIGITS).all():  # with all of them, which identifiers need
        bare = pc.replace_substring_regex(distinct, r"^\+", "")
        try:
            return _taken(cells, distinct, pc.cast(bare, pa.int64()))
        except pa.ArrowInvalid:  # more than 64 bits
            return None
    found = numbers(distinct, written)
    return None if found is None else _taken(cells, distinct, pa.array(found.values))


def _taken(cells: pa.Array, distinct: pa.Array, values: pa.Array) -> pa.Array:
    """What every cell is, by what the distinct ones are; null where it is null."""
    return values.take(pc.index_in(cells, distinct))
