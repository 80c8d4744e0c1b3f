"""Two samples in parts on several machines: what passes find before they are relabelled.

The first pass finds how many rows there are and where, the second by what columns are known, the
third rows, and a fourth fetches the part of them that everything is chosen by. This is what
:class:`~bke.inference.permutation.pair.Pair` is for rows in memory, with the same relabellings.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.errors import InputError
from ..data.canonical import (
    canonical_order,
    combine_hashes,
    generator_from_checksums,
    has_duplicates,
)
from ..data.checks import check_ranges, check_same_columns, default_names, pluralize
from ..data.units import choose_scale
from ..streams.partitions import Handle, PartitionedSample
from .bins import LEAST_BINS, bin_size
from .deal import Deal, chosen_of, places_of
from .halves import Halves
from .pair import mark_of_both
from .pooling import CELL_COLUMNS, MOST_POINTS, MOST_SINGLE, in_cells, means_in, unit_of_rows
from .relabelled import Relabelled
from .work_on_parts import (
    CellsPass,
    ColumnsPass,
    Different,
    Extent,
    FirstPass,
    MarksPass,
    OfVarying,
    TakePass,
    total,
)


@dataclasses.dataclass(frozen=True)
class Surveyed:
    """Two samples in parts.

    Attributes:
        samples: the parts of each, with rows.
        rows_of_parts: how many each part has.
        sizes: rows of each sample.
        low: (D,), the smallest value of every column in both.
        high: (D,), the largest.
        different: of each sample, where rows of few kinds are in both.
    """

    samples: tuple[PartitionedSample, PartitionedSample]
    rows_of_parts: tuple[list[int], list[int]]
    sizes: tuple[int, int]
    low: np.ndarray
    high: np.ndarray
    different: tuple[Different, Different] | None

    @classmethod
    def of(cls, P: PartitionedSample, Q: PartitionedSample) -> Surveyed:
        """Go through all rows once.

        Raises:
            InputError: for rows that make no sample, or samples of different columns.
        """
        first = FirstPass(MOST_SINGLE)
        found = P.engine.gather([*P.map_partitions(first), *Q.map_partitions(first)])
        both = found[: len(P.handles)], found[len(P.handles) :]
        samples, rows_of_parts, extents = [], [], []
        for parts, of_parts in zip((P, Q), both, strict=True):
            some = [index for index, one in enumerate(of_parts) if one.extent.rows]
            samples.append(parts.select(some))
            rows_of_parts.append([of_parts[index].extent.rows for index in some])
            extents.append(_checked(Extent.union([one.extent for one in of_parts]), parts.name))
        low, high = _of_both(extents[0], extents[1], P.columns, Q.columns)
        return cls(
            (samples[0], samples[1]),
            (rows_of_parts[0], rows_of_parts[1]),
            (extents[0].rows, extents[1].rows),
            low,
            high,
            _few_kinds(*([one.different for one in of_parts] for of_parts in both)),
        )

    @property
    def varying(self) -> np.ndarray:
        """Which columns (D,) are not one value in both samples."""
        return self.high > self.low

    @property
    def total(self) -> int:
        """How many rows there are in both."""
        return sum(self.sizes)

    def gathered(self) -> tuple[np.ndarray, np.ndarray]:
        """Fetch all rows of both samples."""
        P, Q = (parts.to_numpy() for parts in self.samples)
        return P, Q

    def results(
        self,
        work: Callable[[int], Any],
        *,
        beside: tuple[list[np.ndarray], list[np.ndarray]] | None = None,
        merge: Any = None,
    ) -> list[list[Any]]:
        """Work on the parts of both samples at once.

        Args:
            work: of a sample, 0 the first one: the work on its parts, given what is beside a part,
                or its number, and the varying columns of its rows.
            beside: of each sample something for each part.
            merge: of what two parts tell; by default the results of all parts are fetched.

        Returns:
            Of each sample what its parts told, or what they told together alone.
        """
        handles: list[list[Handle]] = []
        for sample, parts in enumerate(self.samples):
            of_varying = OfVarying(work(sample), self.varying)
            own = None if beside is None else beside[sample]
            one = parts.map_partitions(of_varying, own)
            handles.append(one if merge is None else [parts.reduce(one, merge)])
        found = self.samples[0].engine.gather([*handles[0], *handles[1]])
        return [found[: len(handles[0])], found[len(handles[0]) :]]

    @functools.cached_property
    def _marks(self) -> tuple[np.ndarray, np.ndarray]:
        """What every row is known by, of each sample."""
        ends = self.low[self.varying], self.high[self.varying]
        columns = self._columns(ColumnsPass(*ends, None))
        if has_duplicates(columns):
            columns = self._columns(ColumnsPass(*ends, columns))
        work = MarksPass(*ends, columns)
        first, second = self.results(lambda sample: work)
        return np.concatenate(first), np.concatenate(second)

    def _columns(self, work: ColumnsPass) -> np.ndarray:
        """What varying columns are known by, by all rows."""
        (one,), (other,) = self.results(lambda sample: work, merge=total)
        return np.asarray(one + other)

    @functools.cached_property
    def places(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """The place of every row in its sample, of the parts of each."""
        first, second = map(places_of, self._marks)
        return self._split(0, first), self._split(1, second)

    def _split(self, sample: int, values: np.ndarray) -> list[np.ndarray]:
        """Values of all rows of a sample as those of its parts."""
        return np.split(values, np.cumsum(self.rows_of_parts[sample])[:-1])

    @functools.cached_property
    def _part(self) -> tuple[np.ndarray, np.ndarray]:
        """The part of all rows, and which of it are of the first sample."""
        places = np.concatenate([*self.places[0], *self.places[1]])
        chosen = np.zeros(self.total, dtype=bool)
        chosen[chosen_of(np.concatenate(self._marks), places)] = True
        first, second = np.split(chosen, self.sizes[:1])
        beside = self._split(0, first), self._split(1, second)
        one, other = self.results(lambda sample: TakePass(), beside=beside)
        rows = np.concatenate([*one, *other])
        sort = canonical_order(rows)
        return rows[sort], (np.arange(len(rows)) < first.sum())[sort]

    @functools.cached_property
    def known(self) -> tuple[int, int]:
        """What the rows of each sample are known by, in whatever order."""
        first, second = (combine_hashes(marks[:, 0]) for marks in self._marks)
        return first, second

    @property
    def chosen(self) -> np.ndarray:
        """The rows (k, D) that everything is chosen by, of varying columns, sorted."""
        return self._part[0]

    @property
    def some(self) -> tuple[np.ndarray, np.ndarray]:
        """Those of them that are of each sample, with all columns."""
        rows = np.tile(self.low, (len(self.chosen), 1))
        rows[:, self.varying] = self.chosen
        of_first = self._part[1]
        return rows[of_first], rows[~of_first]

    @property
    def turned(self) -> bool:
        """Whether labels are dealt as if Q were the first."""
        return self.known[0] > self.known[1]

    def unit(self, standardize: str | None) -> np.ndarray:
        """What varying columns are divided by, as of a test in memory."""
        if standardize == "column":
            return unit_of_rows(self.chosen)
        return choose_scale(self.chosen, "pooled")

    def generator(self, seed: int) -> np.random.Generator:
        """Random numbers of the permutations, by the seed and the rows."""
        return generator_from_checksums(seed, mark_of_both(*self.known))

    def deal(self, rng: np.random.Generator) -> Deal:
        """Deal rows out in bins.

        Raises:
            InputError: one sample has too few rows for bins.
        """
        size = bin_size(self.total, min(self.sizes))
        if size == 1:
            raise InputError(
                f"a sample of {min(self.sizes)} rows beside {max(self.sizes)} cannot be dealt out "
                f"in bins, which takes {2 * LEAST_BINS}: take a random part of the larger one"
            )
        return Deal(self.sizes, self.turned, size, int(rng.integers(2**63)))

    def cells(
        self, permutations: int, rng: np.random.Generator, unit: np.ndarray
    ) -> Relabelled | None:
        """Relabel rows that are counted at few points; ``None`` where there are too many."""
        narrow = int(self.varying.sum()) <= CELL_COLUMNS
        kinds = self.different
        if kinds is not None and (not narrow or _count(kinds) <= MOST_POINTS):
            rows, both = _kinds(kinds, self.varying)
            means = rows / unit
        elif narrow:
            halves = Halves.of(self.chosen / unit, MOST_POINTS)
            work = CellsPass(halves, unit)
            (first,), (second,) = self.results(lambda sample: work, merge=total)
            both, means = np.stack([first, second], axis=1), means_in(halves, self.chosen / unit)
        else:
            return None
        counts = both.sum(axis=1)
        return in_cells(means, counts, both[:, 0], unit, permutations, rng, turned=self.turned)


def added(first: Sequence[np.ndarray], second: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Add what two parts tell."""
    return [one + other for one, other in zip(first, second, strict=True)]


def _few_kinds(
    first: list[Different | None], second: list[Different | None]
) -> tuple[Different, Different] | None:
    """The rows that differ in each sample, if they are few in both together."""
    told = [one for one in itertools.chain(first, second) if one is not None]
    if len(told) < len(first) + len(second):
        return None
    both = _merged(told[: len(first)]), _merged(told[len(first) :])
    return both if _count(both) <= MOST_SINGLE else None


def _merged(each: list[Different]) -> Different:
    rows = np.concatenate([one.rows for one in each])
    counts = np.concatenate([one.counts for one in each])
    kinds, index = np.unique(rows, axis=0, return_inverse=True)
    return Different(kinds, np.bincount(index.ravel(), weights=counts).astype(np.int64))


def _count(both: tuple[Different, Different]) -> int:
    return len(np.unique(np.concatenate([one.rows for one in both]), axis=0))


def _kinds(both: tuple[Different, Different], varying: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows (C, D) that differ, in canonical order, and how many of each sample (C, 2) are there."""
    rows = np.concatenate([one.rows for one in both])[:, varying]
    kinds, index = np.unique(rows, axis=0, return_inverse=True)
    of_sample = np.split(index.ravel(), [len(both[0].rows)])
    counts = [
        np.bincount(at, weights=one.counts, minlength=len(kinds)).astype(np.int64)
        for at, one in zip(of_sample, both, strict=True)
    ]
    order = canonical_order(kinds)
    return kinds[order], np.stack(counts, axis=1)[order]


def _checked(found: Extent, name: str) -> Extent:
    if found.rows < 2:
        raise InputError(f"{name} needs at least two rows, and has {found.rows}")
    return found


def _of_both(
    first: Extent,
    second: Extent,
    of_first: tuple[str, ...] | None,
    of_second: tuple[str, ...] | None,
) -> tuple[np.ndarray, np.ndarray]:
    """The smallest and the largest value of every column in both samples."""
    if len(first.low) != len(second.low):
        raise InputError(
            f"P has {pluralize(len(first.low), 'column')} and Q has "
            f"{pluralize(len(second.low), 'column')}, where the same number is needed"
        )
    if len(first.low) > 1:
        check_same_columns(of_first, of_second)
        if of_first and of_second and of_first != of_second:
            raise InputError("the columns of collections must be in one order: choose them by name")
    low, high = np.minimum(first.low, second.low), np.maximum(first.high, second.high)
    names = of_first or of_second or default_names(len(low))
    told = np.flatnonzero(high > low)
    if not len(told):
        raise InputError("all rows of P and Q are equal, so there is nothing to learn")
    check_ranges(
        low[told], high[told], "the union of P and Q", lambda at: f"column {names[told[at]]!r}"
    )
    return low, high
