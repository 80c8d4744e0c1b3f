"""Rows of two tables dealt out anew: one set of relabellings, which every column shares.

Rows that go together, of a user or a day, are a unit and keep one label; within blocks alone labels
are exchanged. Of very many rows units are bins (:mod:`~bke.inference.permutation.bins`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from ..core.errors import InputError
from ..data.canonical import combine_hashes, mix_bits
from ..io.types import Column
from ..permutation.bins import bin_size, cut
from .counted import NOT_COUNTED, Counted
from .labelling import Labelling

#: Rows up to which each is a unit of its own.
MOST_ROWS = 20_000


def labelling(
    columns: Sequence[Column],
    rows: int,
    permutations: int,
    seed: int,
    *,
    clusters: Column | None = None,
    strata: Column | None = None,
    counted: Counted = NOT_COUNTED,
) -> Labelling:
    """Deal the rows of two tables out anew.

    Args:
        columns: of both tables, the first table's rows before the other's.
        rows: of the first table.
        permutations: B.
        seed: of the relabellings; the rows count too, not their order, nor that of the tables.
        clusters: a column whose equal values in a table are one unit; one in both tables is
            two that are swapped.
        strata: a column within whose equal values labels are exchanged.
        counted: how often each row is there, or what it weighs.

    Raises:
        InputError: labels cannot be exchanged.
    """
    weighed = [] if counted.given is None else [counted.given]
    of_row = row_marks([*columns, *weighed])
    row = np.arange(len(of_row))
    if counted.counts is not None:
        row = np.repeat(row, counted.counts)
    marks, first = of_row[row], row < rows
    # Dealt as if the table of the smaller mark came first: no p-value hangs on which one is named.
    one, other = combine_hashes(marks[first]), combine_hashes(marks[~first])
    turned = one > other
    first ^= turned
    rng = np.random.default_rng((seed, 3, *sorted((one, other))))
    block = _grouped(strata, len(of_row))[row]
    if clusters is None:
        unit, of_first, stratum = _bins(marks, first, block, rng)
    else:
        unit, of_first, stratum = _of_units(clusters, first, block, row)
    labels = _dealt(of_first, stratum, permutations, rng) ^ turned
    if (labels == labels[:, :1]).all():
        raise InputError("no row can change its label: every stratum is of one table alone")
    return Labelling(labels, unit, row, counted.weights, of_row)


def check_ways(dealt: Labelling, alpha: float) -> None:
    """Refuse so few ways to deal units out that no p-value can be as small as ``alpha``.

    Raises:
        InputError: as many of the relabellings as that are the labels as they are, or, where tables
            change places, the same but for that.
    """
    labels = dealt.labels
    same = (labels == labels[:, :1]).all(axis=0) | (labels != labels[:, :1]).all(axis=0)
    if same.mean() > alpha:
        ways = len(np.unique(labels, axis=1).T)
        raise InputError(
            f"there are only {ways} ways to deal {len(labels)} units out to the tables, so that no "
            f"p-value is below about {same.mean():.2g}: more rows or units are needed for level "
            f"{alpha:.3g}"
        )


def row_marks(columns: Sequence[Column]) -> np.ndarray:
    """A mark (N,) of every row by its cells, whatever the order of the columns."""
    total: np.ndarray | None = None
    for column in columns:
        salt = int.from_bytes(
            hashlib.blake2b(column.name.encode(), digest_size=8).digest(), "little"
        )
        values = np.where(np.isnan(column.values), np.nan, column.values + 0.0)  # one NaN, one 0
        mark = mix_bits(np.ascontiguousarray(values).view(np.uint64) ^ np.uint64(salt))
        total = mark if total is None else total + mark
    assert total is not None
    return mix_bits(total)


def _grouped(column: Column | None, rows: int) -> np.ndarray:
    """The index (N,) of every row's value, missing ones being one more; 0 without a column."""
    if column is None:
        return np.zeros(rows, dtype=np.int64)
    return np.unique(column.values, return_inverse=True, equal_nan=True)[1]


def _bins(
    marks: np.ndarray, first: np.ndarray, block: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Single rows or bins: the unit of every row, the label and the stratum of every unit."""
    total, size = len(marks), 1
    if total > MOST_ROWS:
        size = bin_size(total, int(min(first.sum(), total - first.sum())))
    in_order = np.lexsort((~first, block, marks))
    if size == 1:
        unit = np.empty(total, dtype=np.int64)
        unit[in_order] = np.arange(total)
        return unit, first[in_order], block[in_order]
    found = cut(2 * block + ~first, size, in_order[rng.permutation(total)])
    # What is left over of a group keeps its label: a stratum of its own.
    own = block.max() + 1 + np.arange(len(found.row))
    return found.of_row, first[found.row], np.where(found.rest, own, block[found.row])


def _of_units(
    units: Column, first: np.ndarray, block: np.ndarray, row: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of equal values in a table and block; those of a value in both tables are swapped."""
    value = np.unique(units.values, return_inverse=True, equal_nan=True)[1][row]
    keys, start, unit = np.unique(
        np.stack([block, value, ~first]), axis=1, return_index=True, return_inverse=True
    )
    _, which, times = np.unique(keys[:2], axis=1, return_inverse=True, return_counts=True)
    both = times[which.ravel()] == 2
    stratum = np.where(both, block.max() + 1 + which.ravel(), keys[0])
    return unit.ravel(), first[start], stratum


def _dealt(
    of_first: np.ndarray, stratum: np.ndarray, permutations: int, rng: np.random.Generator
) -> np.ndarray:
    """Labels (M, 1 + B) exchanged within strata."""
    labels = np.empty((1 + permutations, len(of_first)), dtype=np.int8)
    labels[0] = of_first
    if (stratum == stratum[0]).all():
        labels[1:] = of_first
        rng.permuted(labels[1:], axis=1, out=labels[1:])
    else:
        order = np.argsort(stratum, kind="stable")
        for index in range(1, 1 + permutations):
            mixed = np.lexsort((rng.random(len(stratum)), stratum))
            labels[index, order] = of_first[mixed]
    return np.ascontiguousarray(labels.T)
