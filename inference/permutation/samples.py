"""Two samples that are tested, checked and with permuted labels.

Nothing here depends on the order of the rows, which may be related to their labels, nor on which
sample is first. A column with the opposite sign has other random permutations.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from threading import Event

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
from ..data.checks import as_tested_pair, check_pairs
from ..data.row_notes import duplicate_rows_note, serial_note, shared_rows_note
from ..io.types import describe_sentinel, find_sentinels, identifier_notes
from .bins import LARGE, hash_ranks, random_subset
from .pooled_sample import PairedSample, PooledSample
from .scheme import PermutationScheme


@dataclasses.dataclass(frozen=True)
class TwoSamples:
    """Two samples of the same columns.

    Attributes:
        first: rows of P, (m, D).
        second: rows of Q, (n, D).
    """

    first: np.ndarray
    second: np.ndarray

    @classmethod
    def checked(
        cls,
        P: ArrayLike,
        Q: ArrayLike,
        *,
        paired: bool = False,
        columns: Sequence[str] | None = None,
    ) -> TwoSamples:
        """Check two samples; a column may be constant in one of them, not in both alike.

        Labels of ``paired`` rows must not contradict their positions; ``columns`` are names of the
        columns in messages.

        Raises:
            InputError: one sentence that names the sample, the row and the column.
        """
        first, second = as_tested_pair(P, Q)
        if paired:
            check_pairs(P, Q, first, second, columns)
        return cls(first, second)

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
        samples = [self.first - self.second] if paired else [self.first, self.second]
        shared = () if paired else shared_rows_note(self.first, self.second, names)
        return (
            *copies[0],
            *copies[1],
            *shared,
            *sentinels,
            *identifier_notes(columns, self.first, self.second),
            *serial_note(samples, columns),
        )

    @property
    def sizes(self) -> tuple[int, int]:
        """Number of rows of each sample, m and n."""
        return len(self.first), len(self.second)

    @functools.cached_property
    def fingerprints(self) -> tuple[int, int]:
        """A hash of the rows of each sample, independent of their order."""
        return fingerprint(self.first), fingerprint(self.second)

    @functools.cached_property
    def second_first(self) -> bool:
        """True if labels are permuted as if Q were the first sample, by a hash of the rows."""
        samples = self.first, self.second
        if self.is_large:
            return self._hash_sums[0] > self._hash_sums[1]
        is_small = self.pooled.size < PARALLEL_MIN_SIZE
        first, second = side_by_side(
            lambda index: checksum(samples[index]), 2, Event(), serial=is_small
        )
        if first == second:  # one sample is the other in another unit
            ends = self.pooled.min(axis=0), self.pooled.max(axis=0)
            first, second = (checksum(np.vstack([rows, *ends])) for rows in samples)
        return first > second

    @functools.cached_property
    def pooled(self) -> np.ndarray:
        """The rows of P followed by those of Q, (m + n, D)."""
        return np.concatenate([self.first, self.second])

    @property
    def is_large(self) -> bool:
        """True if the rows are identified by hashes, and everything is chosen from a subset."""
        return len(self.first) + len(self.second) > LARGE

    @functools.cached_property
    def _row_hashes(self) -> np.ndarray:
        """Hashes of the rows of large samples, (m + n, 2)."""
        low, high = self.pooled.min(axis=0), self.pooled.max(axis=0)
        columns = column_hashes(self.pooled, low, high)
        if has_duplicates(columns[high > low]):
            columns = column_hashes(self.pooled, low, high, columns)
        return row_hashes(self.pooled, low, high, columns)

    @functools.cached_property
    def _hash_sums(self) -> tuple[int, int]:
        """Hash of each large sample."""
        first, second = map(combine_hashes, np.split(self._row_hashes[:, 0], [len(self.first)]))
        return first, second

    @functools.cached_property
    def ranks(self) -> tuple[np.ndarray, np.ndarray]:
        """Rank by hash of each row in its sample, for large samples."""
        first, second = map(hash_ranks, np.split(self._row_hashes, [len(self.first)]))
        return first, second

    def has_at_most_unique_rows(self, max_unique: int) -> bool:
        """Return whether there are at most ``max_unique`` different rows."""
        return unique_rows(self.pooled, max_unique) is not None

    @functools.cached_property
    def _order_and_checksum(self) -> tuple[np.ndarray, int]:
        return order_and_checksum(self.pooled)

    @functools.cached_property
    def selection(self) -> np.ndarray:
        """Indices of the pooled rows from which scales, nodes and locations are chosen.

        All rows, or a random subset of large samples, in an order that does not depend on labels.
        """
        if not self.is_large:
            return self.order
        subset = random_subset(self._row_hashes, np.concatenate(self.ranks))
        return subset[canonical_order(self.pooled[subset])]

    @functools.cached_property
    def order(self) -> np.ndarray:
        """Indices (m + n,) that sort the pooled rows."""
        return canonical_order(self.pooled) if self.is_large else self._order_and_checksum[0]

    @functools.cached_property
    def sorted_rows(self) -> np.ndarray:
        """The pooled rows, sorted, (m + n, D). Their order does not depend on labels."""
        return self.pooled[self.order]

    def check_equal_sizes(self, estimator: str) -> None:
        """Check that the samples have one size, for an estimator that uses pairs of rows.

        Raises:
            InputError: the sizes differ.
        """
        m, n = self.sizes
        if m != n:
            subject, remedy = f"the {estimator} estimate needs", "drop rows of one"
            if estimator == "paired":
                subject, remedy = "pairs need", "leave out rows without a partner"
            raise InputError(f"{subject} samples of one size, and P has {m} rows, Q {n}: {remedy}")

    def varying(self) -> tuple[TwoSamples, np.ndarray]:
        """Return the columns that are not constant in both samples, and their mask (D,)."""
        mask = np.ptp(self.pooled, axis=0) > 0.0
        if mask.all():
            return self, mask
        return TwoSamples(self.first[:, mask], self.second[:, mask]), mask

    def n_permutations(self, *, paired: bool, signs: bool = False) -> int:
        """Count the distinct permutations, up to the names of the samples.

        Args:
            paired: the two rows of a pair exchange their labels.
            signs: the signs of the errors of weighted rows are flipped.
        """
        m, n = self.sizes
        if signs:
            return PermutationScheme("signs", m + n).n_distinct
        if paired:
            return PermutationScheme("samples", m).n_distinct
        return PermutationScheme.independent(np.arange(m + n) < m).n_distinct

    def generator(self, seed: int) -> np.random.Generator:
        """Return the random numbers of the permutations, by the seed and the rows."""
        known = sum_of_hashes(*self._hash_sums) if self.is_large else self._order_and_checksum[1]
        return generator_from_checksums(seed, known)

    def shuffled(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return each sample in random order, independent of the order of the rows."""
        samples = [sample[canonical_order(sample)] for sample in (self.first, self.second)]
        step = -1 if self.second_first else 1
        first, second = [rng.permutation(sample) for sample in samples[::step]][::step]
        return first, second

    def permute_labels(self, n_resamples: int, rng: np.random.Generator) -> PooledSample:
        """Permute the labels of independent rows, which are sorted, in the units of the data."""
        (m, n), (N, D) = self.sizes, self.pooled.shape
        scheme = PermutationScheme.independent(np.arange(N) < (n if self.second_first else m))
        is_first = (np.arange(N) < m)[self.order].astype(np.int8)
        permuted = scheme.draw(n_resamples, rng) ^ np.int8(self.second_first)
        labels = np.column_stack([is_first, permuted])
        return PooledSample(self.sorted_rows, np.ones(N, dtype=int), labels, np.ones(D))

    def swap_pairs(self, n_resamples: int, rng: np.random.Generator) -> PairedSample:
        """Exchange the labels of pairs at random, in the units of the data.

        Points i and m + i are a pair. The pairs are sorted.
        """
        order = canonical_order(np.concatenate([self.first, self.second], axis=1))
        rows = np.concatenate([self.first[order], self.second[order]])
        upper = PermutationScheme("samples", len(order)).draw(n_resamples, rng)
        upper = np.column_stack([np.ones(len(order), dtype=np.int8), upper])
        return PairedSample(
            rows,
            np.ones(len(rows), dtype=int),
            np.concatenate([upper, 1 - upper]),
            np.ones(rows.shape[1]),
            partners=np.arange(len(rows)).reshape(2, -1).T,
        )


def sum_of_hashes(first: int, second: int) -> int:
    """Return the hash of two samples together, from those of each."""
    return (first + second) % 2**64
