"""Two samples in partitions on several machines, with the permutations of samples in memory.

The first pass over the rows counts them and finds their range, the second hashes columns, the third
rows, and the fourth fetches the random subset from which everything is chosen. The result is what
:class:`~bke.inference.permutation.samples.TwoSamples` is for rows in memory.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import InputError
from ..data.canonical import (
    canonical_order,
    column_hashes,
    combine_hashes,
    generator_from_checksums,
    has_duplicates,
    row_hashes,
    unique_rows,
)
from ..data.checks import check_ranges, check_same_columns, default_names, pluralize
from ..data.units import choose_scale
from ..streams.partitions import Handle, PartitionedSample
from .bins import MIN_BINS, BinAssignment, MedianPartition, bin_size, hash_ranks, random_subset
from .pool import MAX_CELL_COLUMNS, MAX_POINTS, MAX_SINGLE, pool_counts, row_widths
from .pooled_sample import PooledSample
from .samples import sum_of_hashes


class Extent(NamedTuple):
    """Number and range of some rows.

    Attributes:
        n_rows: number of rows.
        low: (D,), minimum of each column; infinite without rows.
        high: (D,), maximum.
    """

    n_rows: int
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of_rows(cls, rows: np.ndarray) -> Extent:
        """Return the extent of rows (n, D)."""
        low, high = rows.min(axis=0, initial=np.inf), rows.max(axis=0, initial=-np.inf)
        return cls(len(rows), low, high)

    @classmethod
    def union(cls, extents: Sequence[Extent]) -> Extent:
        """Return the extent of the rows of several partitions.

        Raises:
            InputError: the partitions have different numbers of columns.
        """
        widths = {len(extent.low) for extent in extents}
        if len(widths) > 1:
            raise InputError(f"partitions have {' and '.join(map(str, sorted(widths)))} columns")
        low = np.min([extent.low for extent in extents], axis=0)
        high = np.max([extent.high for extent in extents], axis=0)
        return cls(sum(extent.n_rows for extent in extents), low, high)


class UniqueRows(NamedTuple):
    """Different rows (k, D), and the number of times each occurs, (k,)."""

    rows: np.ndarray
    counts: np.ndarray

    @classmethod
    def of_rows(cls, rows: np.ndarray, max_unique: int) -> UniqueRows | None:
        """Return the different rows of (n, D), or ``None`` if there are too many."""
        unique = unique_rows(rows, max_unique)
        return None if unique is None else cls(rows[unique[0]] + 0.0, unique[1])

    @classmethod
    def union(cls, parts: Sequence[UniqueRows]) -> UniqueRows:
        """Return the different rows of several partitions."""
        rows = np.concatenate([part.rows for part in parts])
        counts = np.concatenate([part.counts for part in parts])
        unique, index = np.unique(rows, axis=0, return_inverse=True)
        return cls(unique, np.bincount(index.ravel(), weights=counts).astype(np.int64))


class Summary(NamedTuple):
    """Result of the first pass; ``unique`` is ``None`` if too many rows are different."""

    extent: Extent
    unique: UniqueRows | None


@dataclasses.dataclass(frozen=True)
class OfVaryingColumns:
    """A pass over the varying columns of partitions."""

    work: Callable[[Any, np.ndarray], Any]
    varying: np.ndarray

    def __call__(self, argument: Any, rows: np.ndarray) -> Any:
        """Process a partition."""
        return self.work(argument, rows[:, self.varying])


@dataclasses.dataclass(frozen=True)
class SummaryPass:
    """Computes the extent of a partition, and its different rows if they are few."""

    max_unique: int

    def __call__(self, index: int, rows: np.ndarray) -> Summary:
        """Process a partition."""
        return Summary(Extent.of_rows(rows), UniqueRows.of_rows(rows, self.max_unique))


@dataclasses.dataclass(frozen=True)
class ColumnHashPass:
    """Hashes columns."""

    low: np.ndarray
    high: np.ndarray
    previous: np.ndarray | None

    def __call__(self, index: int, rows: np.ndarray) -> np.ndarray:
        """Process a partition."""
        return column_hashes(rows, self.low, self.high, self.previous)


@dataclasses.dataclass(frozen=True)
class RowHashPass:
    """Hashes rows."""

    low: np.ndarray
    high: np.ndarray
    columns: np.ndarray

    def __call__(self, index: int, rows: np.ndarray) -> np.ndarray:
        """Process a partition."""
        return row_hashes(rows, self.low, self.high, self.columns)


@dataclasses.dataclass(frozen=True)
class SelectPass:
    """Selects rows."""

    def __call__(self, mask: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Process a partition."""
        return rows[mask]


@dataclasses.dataclass(frozen=True)
class CellCountPass:
    """Counts rows in cells."""

    partition: MedianPartition
    scale: np.ndarray

    def __call__(self, index: int, rows: np.ndarray) -> np.ndarray:
        """Process a partition."""
        return np.bincount(
            self.partition.assign(rows / self.scale), minlength=self.partition.n_parts
        )


def add(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Add arrays of two partitions; a function, because engines do not accept ufuncs."""
    return first + second


def add_lists(first: Sequence[np.ndarray], second: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Add lists of arrays of two partitions."""
    return [left + right for left, right in zip(first, second, strict=True)]


@dataclasses.dataclass(frozen=True)
class PartitionedSamples:
    """Two samples in partitions.

    Attributes:
        samples: partitions of each sample, without empty ones.
        partition_sizes: number of rows of each partition.
        sizes: number of rows of each sample.
        low: (D,), minimum of each column in both samples.
        high: (D,), maximum.
        unique: different rows of each sample; ``None`` if there are too many.
    """

    samples: tuple[PartitionedSample, PartitionedSample]
    partition_sizes: tuple[list[int], list[int]]
    sizes: tuple[int, int]
    low: np.ndarray
    high: np.ndarray
    unique: tuple[UniqueRows, UniqueRows] | None

    @classmethod
    def of(cls, P: PartitionedSample, Q: PartitionedSample) -> PartitionedSamples:
        """Summarize the rows in one pass.

        Raises:
            InputError: a sample has fewer than two rows, or the columns differ.
        """
        work = SummaryPass(MAX_SINGLE)
        results = P.engine.gather([*P.map_partitions(work), *Q.map_partitions(work)])
        summaries: tuple[list[Summary], list[Summary]] = (
            results[: len(P.handles)],
            results[len(P.handles) :],
        )
        samples, partition_sizes, extents = [], [], []
        for sample, parts in zip((P, Q), summaries, strict=True):
            nonempty = [index for index, part in enumerate(parts) if part.extent.n_rows]
            samples.append(sample.select(nonempty))
            partition_sizes.append([parts[index].extent.n_rows for index in nonempty])
            extent = Extent.union([part.extent for part in parts])
            if extent.n_rows < 2:
                raise InputError(f"{sample.name} needs at least two rows, and has {extent.n_rows}")
            extents.append(extent)
        low, high = _common_range(extents[0], extents[1], P.columns, Q.columns)
        return cls(
            (samples[0], samples[1]),
            (partition_sizes[0], partition_sizes[1]),
            (extents[0].n_rows, extents[1].n_rows),
            low,
            high,
            _limited_unique_rows(*([part.unique for part in parts] for parts in summaries)),
        )

    @property
    def varying(self) -> np.ndarray:
        """Mask of the columns (D,) that are not constant in both samples."""
        return self.high > self.low

    @property
    def n_rows(self) -> int:
        """Number of rows of both samples."""
        return sum(self.sizes)

    def to_numpy(self) -> tuple[np.ndarray, np.ndarray]:
        """Fetch all rows of both samples."""
        P, Q = (sample.to_numpy() for sample in self.samples)
        return P, Q

    def run(
        self,
        work: Callable[[int], Any],
        *,
        arguments: tuple[list[np.ndarray], list[np.ndarray]] | None = None,
        merge: Any = None,
    ) -> list[list[Any]]:
        """Process the partitions of both samples in parallel.

        Args:
            work: returns the function for the partitions of a sample, 0 for the first one. Its
                arguments are that of the partition, or its number, and the varying columns.
            arguments: an argument for each partition of each sample.
            merge: merges the results of two partitions; by default all results are fetched.

        Returns:
            Results of the partitions of each sample, or a single merged result.
        """
        handles: list[list[Handle]] = []
        for index, sample in enumerate(self.samples):
            function = OfVaryingColumns(work(index), self.varying)
            results = sample.map_partitions(function, arguments and arguments[index])
            handles.append(results if merge is None else [sample.reduce(results, merge)])
        values = self.samples[0].engine.gather([*handles[0], *handles[1]])
        return [values[: len(handles[0])], values[len(handles[0]) :]]

    @functools.cached_property
    def _row_hashes(self) -> tuple[np.ndarray, np.ndarray]:
        """Hashes of the rows of each sample."""
        ends = self.low[self.varying], self.high[self.varying]
        columns = self._column_hashes(ColumnHashPass(*ends, None))
        if has_duplicates(columns):
            columns = self._column_hashes(ColumnHashPass(*ends, columns))
        work = RowHashPass(*ends, columns)
        first, second = self.run(lambda sample: work)
        return np.concatenate(first), np.concatenate(second)

    def _column_hashes(self, work: ColumnHashPass) -> np.ndarray:
        """Hashes of the varying columns."""
        (first,), (second,) = self.run(lambda sample: work, merge=add)
        return np.asarray(first + second)

    @functools.cached_property
    def ranks(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Rank by hash of each row in its sample, for each partition."""
        first, second = map(hash_ranks, self._row_hashes)
        return self._split(0, first), self._split(1, second)

    def _split(self, sample: int, values: np.ndarray) -> list[np.ndarray]:
        """Split values of all rows of a sample into those of its partitions."""
        return np.split(values, np.cumsum(self.partition_sizes[sample])[:-1])

    @functools.cached_property
    def _subset(self) -> tuple[np.ndarray, np.ndarray]:
        """The random subset of the rows, sorted, and which of them are of the first sample."""
        ranks = np.concatenate([*self.ranks[0], *self.ranks[1]])
        mask = np.zeros(self.n_rows, dtype=bool)
        mask[random_subset(np.concatenate(self._row_hashes), ranks)] = True
        first, second = np.split(mask, self.sizes[:1])
        masks = self._split(0, first), self._split(1, second)
        parts = self.run(lambda sample: SelectPass(), arguments=masks)
        rows = np.concatenate([*parts[0], *parts[1]])
        order = canonical_order(rows)
        return rows[order], (np.arange(len(rows)) < first.sum())[order]

    @functools.cached_property
    def hash_sums(self) -> tuple[int, int]:
        """Hash of each sample, independent of the order of its rows."""
        first, second = (combine_hashes(hashes[:, 0]) for hashes in self._row_hashes)
        return first, second

    @property
    def selection(self) -> np.ndarray:
        """The rows (k, D) from which everything is chosen, of the varying columns, sorted."""
        return self._subset[0]

    @property
    def selected_samples(self) -> tuple[np.ndarray, np.ndarray]:
        """The selected rows of each sample, with all columns."""
        rows = np.tile(self.low, (len(self.selection), 1))
        rows[:, self.varying] = self.selection
        is_first = self._subset[1]
        return rows[is_first], rows[~is_first]

    @property
    def second_first(self) -> bool:
        """True if labels are permuted as if Q were the first sample."""
        return self.hash_sums[0] > self.hash_sums[1]

    def scale(self, standardize: str | None) -> np.ndarray:
        """Return the divisors of the varying columns."""
        if standardize == "column":
            return row_widths(self.selection)
        return choose_scale(self.selection, "pooled")

    def generator(self, seed: int) -> np.random.Generator:
        """Return the random numbers of the permutations, by the seed and the rows."""
        return generator_from_checksums(seed, sum_of_hashes(*self.hash_sums))

    def assign_bins(self, rng: np.random.Generator) -> BinAssignment:
        """Assign the rows to bins.

        Raises:
            InputError: one sample has too few rows for bins.
        """
        size = bin_size(self.n_rows, min(self.sizes))
        if size == 1:
            raise InputError(
                f"samples of {min(self.sizes)} and {max(self.sizes)} rows cannot be divided "
                f"into bins, which takes {2 * MIN_BINS}: take a random part of the larger one"
            )
        return BinAssignment(self.sizes, self.second_first, size, int(rng.integers(2**63)))

    def pool_counted(
        self, n_resamples: int, rng: np.random.Generator, scale: np.ndarray
    ) -> PooledSample | None:
        """Pool rows that are counted at few points; ``None`` if there would be too many."""
        narrow = int(self.varying.sum()) <= MAX_CELL_COLUMNS
        if self.unique is not None and (not narrow or _n_unique(self.unique) <= MAX_POINTS):
            rows, counts = _count_unique_rows(self.unique, self.varying)
            points = rows / scale
        elif narrow:
            partition = MedianPartition.of(self.selection / scale, MAX_POINTS)
            work = CellCountPass(partition, scale)
            (first,), (second,) = self.run(lambda sample: work, merge=add)
            counts = np.stack([first, second], axis=1)
            points = partition.means(self.selection / scale)
        else:
            return None
        return pool_counts(
            points,
            counts.sum(axis=1),
            counts[:, 0],
            scale,
            n_resamples,
            rng,
            second_first=self.second_first,
        )


def _limited_unique_rows(
    first: list[UniqueRows | None], second: list[UniqueRows | None]
) -> tuple[UniqueRows, UniqueRows] | None:
    """Return the different rows of each sample, if they are few in both together."""
    known = [part for part in itertools.chain(first, second) if part is not None]
    if len(known) < len(first) + len(second):
        return None
    unique = UniqueRows.union(known[: len(first)]), UniqueRows.union(known[len(first) :])
    return unique if _n_unique(unique) <= MAX_SINGLE else None


def _n_unique(unique: tuple[UniqueRows, UniqueRows]) -> int:
    return len(np.unique(np.concatenate([sample.rows for sample in unique]), axis=0))


def _count_unique_rows(
    unique: tuple[UniqueRows, UniqueRows], varying: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return different rows (C, D) in canonical order, and their counts in each sample, (C, 2)."""
    rows = np.concatenate([sample.rows for sample in unique])[:, varying]
    distinct, index = np.unique(rows, axis=0, return_inverse=True)
    indices = np.split(index.ravel(), [len(unique[0].rows)])
    counts = [
        np.bincount(at, weights=sample.counts, minlength=len(distinct)).astype(np.int64)
        for at, sample in zip(indices, unique, strict=True)
    ]
    order = canonical_order(distinct)
    return distinct[order], np.stack(counts, axis=1)[order]


def _common_range(
    first: Extent,
    second: Extent,
    first_names: tuple[str, ...] | None,
    second_names: tuple[str, ...] | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the minimum and maximum of each column in both samples, and check the columns."""
    if len(first.low) != len(second.low):
        raise InputError(
            f"P has {pluralize(len(first.low), 'column')} and Q has "
            f"{pluralize(len(second.low), 'column')}, where the same number is needed"
        )
    if len(first.low) > 1:
        check_same_columns(first_names, second_names)
        if first_names and second_names and first_names != second_names:
            raise InputError("the columns of collections must be in one order: choose them by name")
    low, high = np.minimum(first.low, second.low), np.maximum(first.high, second.high)
    names = first_names or second_names or default_names(len(low))
    varying = np.flatnonzero(high > low)
    if not len(varying):
        raise InputError("all rows of P and Q are equal, so there is nothing to learn")
    check_ranges(
        low[varying],
        high[varying],
        "the union of P and Q",
        lambda at: f"column {names[varying[at]]!r}",
    )
    return low, high
