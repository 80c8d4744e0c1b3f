"""Two samples under test: checked, pooled, and labelled anew in ways that the null deems alike.

Nothing here depends on the order in which rows came, for that may tell their labels.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from threading import Event
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..core.errors import InputError
from ..core.machine import side_by_side
from ..data.canonical import (
    PARALLEL_MIN_SIZE,
    canonical_order,
    checksum,
    column_hashes,
    combine_hashes,
    fingerprint,
    generator_from_checksums,
    has_duplicates,
    order_and_checksum,
    row_hashes,
    unique_rows,
)
from ..data.checks import as_tested_pair
from ..data.copies import duplicate_rows_note, shared_rows_note
from ..io.types import are_identifiers, are_integers, describe_sentinel, find_sentinels
from .deal import MANY, chosen_of, places_of
from .permutation import pair_swaps, relabellings
from .relabelled import Relabelled
from .serial import serial_note

#: Rows of a sample that are counted in how many ways they can be labelled.
MOST_COUNTED = 100


class Labelled(NamedTuple):
    """The rows of two samples with every labelling that a permutation test compares."""

    rows: np.ndarray  # (N, D)
    labels: np.ndarray  # (N, 1 + B) of bool: which rows are in the first sample; as they are first
    paired: bool = False

    def relabelled(self, unit: np.ndarray) -> Relabelled:
        """Take each row for a point, its columns over ``unit`` (D,)."""
        count = len(self.rows)
        partners = np.arange(count).reshape(2, -1).T if self.paired else None
        labels = self.labels.astype(np.int8)
        return Relabelled(self.rows / unit, np.ones(count, dtype=int), labels, unit, partners)


@dataclasses.dataclass(frozen=True)
class Pair:
    """Two samples of the same columns.

    Attributes:
        first: rows of P, (m, D).
        second: rows of Q, (n, D).
    """

    first: np.ndarray
    second: np.ndarray

    @classmethod
    def checked(cls, P: ArrayLike, Q: ArrayLike) -> Pair:
        """Check two samples; a column may be constant in one of them, not in both alike.

        Raises:
            InputError: one sentence that names the sample, the row and the column.
        """
        return cls(*as_tested_pair(P, Q))

    def notes(
        self, names: tuple[str, str], columns: Sequence[str], *, paired: bool = False
    ) -> tuple[str, ...]:
        """Return notes on copies and dependence of rows, and on sentinels of missing values."""
        sentinels = (
            f"column {describe_sentinel(name, sentinel, 'some rows')} leave these rows out"
            for name, values in zip(
                columns, np.concatenate([self.first, self.second]).T, strict=True
            )
            for sentinel in find_sentinels(values)
        )
        copies = (
            duplicate_rows_note(self.first, names[0]),
            duplicate_rows_note(self.second, names[1]),
        )
        identifiers = (
            f"the numbers of {name!r} are all different, as those of an identifier are: leave it "
            "out unless it is measured"
            for name, *parts in zip(columns, self.first.T, self.second.T, strict=True)
            if all(map(are_integers, parts)) and are_identifiers(name, parts)
        )
        samples = [self.first - self.second] if paired else [self.first, self.second]
        shared = () if paired else shared_rows_note(self.first, self.second, names)
        return (
            *copies[0],
            *copies[1],
            *shared,
            *sentinels,
            *identifiers,
            *serial_note(samples, columns),
        )

    @property
    def sizes(self) -> tuple[int, int]:
        """How many rows each sample has, m and n."""
        return len(self.first), len(self.second)

    @functools.cached_property
    def fingerprints(self) -> tuple[int, int]:
        """What the rows of each sample are known by, in whatever order."""
        return fingerprint(self.first), fingerprint(self.second)

    @functools.cached_property
    def turned(self) -> bool:
        """Whether labels are dealt as if Q were the first: that goes by what is in them."""
        both = self.first, self.second
        if self.many:
            return self._sums[0] > self._sums[1]
        few = self.pooled.size < PARALLEL_MIN_SIZE
        first, second = side_by_side(lambda index: checksum(both[index]), 2, Event(), alone=few)
        if first == second:  # one is the other in another unit
            ends = self.pooled.min(axis=0), self.pooled.max(axis=0)
            first, second = (checksum(np.vstack([one, *ends])) for one in (self.first, self.second))
        return first > second

    @functools.cached_property
    def pooled(self) -> np.ndarray:
        """Both samples, one below the other as they came, (m + n, D)."""
        return np.concatenate([self.first, self.second])

    @property
    def many(self) -> bool:
        """Whether rows are so many that they are known by a sum, and chosen from by a part."""
        return len(self.first) + len(self.second) > MANY

    @functools.cached_property
    def _marks(self) -> np.ndarray:
        """What every row is known by where they are many, (m + n, 2)."""
        low, high = self.pooled.min(axis=0), self.pooled.max(axis=0)
        columns = column_hashes(self.pooled, low, high)
        if has_duplicates(columns[high > low]):
            columns = column_hashes(self.pooled, low, high, columns)
        return row_hashes(self.pooled, low, high, columns)

    @functools.cached_property
    def _sums(self) -> tuple[int, int]:
        """What the rows of each sample are known by where they are many."""
        first, second = map(combine_hashes, np.split(self._marks[:, 0], [len(self.first)]))
        return first, second

    @functools.cached_property
    def places(self) -> tuple[np.ndarray, np.ndarray]:
        """The place of every row in its sample where rows are many, see :mod:`.deal`."""
        first, second = map(places_of, np.split(self._marks, [len(self.first)]))
        return first, second

    def of_kinds(self, most: int) -> bool:
        """Whether all rows are of at most so many kinds."""
        return unique_rows(self.pooled, most) is not None

    @functools.cached_property
    def _order_and_mark(self) -> tuple[np.ndarray, int]:
        return order_and_checksum(self.pooled)

    @functools.cached_property
    def chosen(self) -> np.ndarray:
        """Indices of the pooled rows that everything is chosen by: all, or a part of many.

        Sorted by what is in those rows, and the same whatever the labels.
        """
        if not self.many:
            return self.order
        found = chosen_of(self._marks, np.concatenate(self.places))
        return found[canonical_order(self.pooled[found])]

    @functools.cached_property
    def order(self) -> np.ndarray:
        """Indices (m + n,) that sort the pooled rows."""
        return canonical_order(self.pooled) if self.many else self._order_and_mark[0]

    @functools.cached_property
    def points(self) -> np.ndarray:
        """The pooled rows sorted, (m + n, D), which do not tell their labels."""
        return self.pooled[self.order]

    def check_one_size(self, estimator: str) -> None:
        """Refuse samples of different sizes for an estimator that goes by pairs of rows."""
        m, n = self.sizes
        if m != n:
            raise InputError(
                f"the {estimator} estimate needs samples of one size: P has {m} rows, Q {n}"
            )

    def varying(self) -> tuple[Pair, np.ndarray]:
        """The columns that are not one value in both samples, and which (D,) these are."""
        kept = np.ptp(self.pooled, axis=0) > 0.0
        return (self if kept.all() else Pair(self.first[:, kept], self.second[:, kept])), kept

    def ways(self, *, paired: bool, signs: bool = False) -> int:
        """In how many ways rows can be labelled anew, up to the names of the samples.

        Of many rows as many as some of them have: nobody counts those. By signs, of weighted rows,
        each row's error is turned or not.
        """
        m, n = (min(size, MOST_COUNTED) for size in self.sizes)
        if signs:
            return 2 ** (m + n - 1)
        return 2 ** (m - 1) if paired else math.comb(m + n, m) // (2 if m == n else 1)

    def generator(self, seed: int) -> np.random.Generator:
        """Random numbers of the permutations, by the seed and the rows."""
        known = mark_of_both(*self._sums) if self.many else self._order_and_mark[1]
        return generator_from_checksums(seed, known)

    def shuffled(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Each sample in a random order, so that neither order nor blocks of like rows matter."""
        both = [sample[canonical_order(sample)] for sample in (self.first, self.second)]
        step = -1 if self.turned else 1
        first, second = [rng.permutation(sample) for sample in both[::step]][::step]
        return first, second

    def relabelled(self, count: int, rng: np.random.Generator) -> Labelled:
        """Labels dealt out anew ``count`` times, for independent rows, which are sorted."""
        m, n = self.sizes
        labels = relabellings((n, m) if self.turned else (m, n), count, rng)
        if self.turned:
            np.logical_not(labels, out=labels)
        labels[:, 0] = (np.arange(m + n) < m)[self.order]
        return Labelled(self.points, labels)

    def swapped(self, count: int, rng: np.random.Generator) -> Labelled:
        """The two rows of each pair swapped or not, ``count`` times; pairs are sorted, as pairs."""
        order = canonical_order(np.concatenate([self.first, self.second], axis=1))
        rows = np.concatenate([self.first[order], self.second[order]])
        size = len(order)
        return Labelled(rows, pair_swaps(size, count, rng), paired=True)


def mark_of_both(first: int, second: int) -> int:
    """What the rows of two samples together are known by, from what those of each are."""
    return (first + second) % 2**64
