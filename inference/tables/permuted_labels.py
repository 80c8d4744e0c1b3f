"""Permutations of the table labels of rows, and sums over the rows of the first table.

All columns share one set of permutations. Rows of a cluster form one unit and keep one label, and
labels are permuted within strata. Large tables are permuted in bins of rows
(:mod:`~bke.inference.permutation.bins`).
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Sequence

import numpy as np
import scipy.sparse

from ..core.errors import InputError
from ..data.canonical import combine_hashes, mix_bits
from ..data.checks import pluralize
from ..io.types import Column
from ..permutation.bins import bin_size, divide_into_bins
from ..permutation.pooled_sample import group_matrix
from ..permutation.scheme import PermutationScheme
from .pooling import UNWEIGHTED, RowWeights

#: Largest number of rows that are permuted singly, not in bins.
MAX_SINGLE_ROWS = 20_000
#: Number of nonzero counts above which a dense product is faster than a sparse one.
MAX_SPARSE = 500_000
#: Number of rows per block of a sum; the features of a block fit into the processor's cache.
BLOCK_ROWS = 2**10


@dataclasses.dataclass(frozen=True)
class PermutedLabels:
    """Table labels of exchangeable units: the observed ones, then B permutations.

    A unit consists of entries. An entry is a row; a row with frequency weight 2 has two entries.

    Attributes:
        labels: (M, 1 + B) int8, 1 for units of the first table; column 0 is observed.
        unit: (E,), unit of each entry.
        row: (E,), row of each entry.
        entry_weights: (E,), weight of each entry, or ``None`` for 1.
        row_hashes: (N,), hash of each row; sorting by them is independent of the order of rows.
        n_distinct: number of distinct permutations, up to the exchange of the tables.
    """

    labels: np.ndarray
    unit: np.ndarray
    row: np.ndarray
    entry_weights: np.ndarray | None
    row_hashes: np.ndarray
    n_distinct: int

    @functools.cached_property
    def first_sizes(self) -> np.ndarray:
        """Total weight of the first table, (1 + B,)."""
        weights = np.bincount(self.unit, weights=self.entry_weights, minlength=len(self.labels))
        return np.asarray(weights @ self.labels)

    @property
    def row_weights(self) -> np.ndarray:
        """Weight of each row, (N,)."""
        return np.bincount(self.row, weights=self.entry_weights, minlength=len(self.row_hashes))

    def unit_counts(self, codes: np.ndarray, n_codes: int) -> scipy.sparse.csr_array:
        """Count the rows of each code in each unit, (n_codes, M).

        Args:
            codes: (N,), below ``n_codes``; rows with negative codes are not counted.
            n_codes: number of codes.
        """
        entry_codes = codes[self.row]
        entries = np.flatnonzero(entry_codes >= 0)
        weights = self.entry_weights
        weights = np.ones(len(entries)) if weights is None else weights[entries]
        indices = (entry_codes[entries], self.unit[entries])
        return scipy.sparse.coo_array((weights, indices), (n_codes, len(self.labels))).tocsr()

    def first_counts(self, unit_counts: scipy.sparse.csr_array) -> np.ndarray:
        """Count the rows of each code in the first table, (n_codes, 1 + B)."""
        if self.entry_weights is not None:
            return np.asarray(unit_counts @ self.labels.astype(float))
        if unit_counts.nnz <= MAX_SPARSE:
            return np.asarray(unit_counts.astype(np.int32) @ self.labels).astype(np.int64)
        counts = unit_counts.toarray() @ self.labels.astype(float)
        return np.asarray(np.rint(counts).astype(np.int64))

    def unit_sums(self, evaluate: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Sum features over the rows of each unit, (M, F).

        Args:
            evaluate: function that returns the features (r, F) of rows (r,).
        """
        order = np.argsort(self.unit, kind="stable")
        sums: np.ndarray | None = None
        for start in range(0, len(order), BLOCK_ROWS):
            entries = order[start : start + BLOCK_ROWS]
            units, features = self.unit[entries], evaluate(self.row[entries])
            if self.entry_weights is not None:
                features = features * self.entry_weights[entries, None]
            if sums is None:
                sums = np.zeros((len(self.labels), features.shape[1]))
            starts = np.diff(units, prepend=-1) != 0
            sums[units[starts]] += group_matrix(np.cumsum(starts) - 1) @ features
        assert sums is not None
        return sums

    def unit_products(
        self, evaluate: Callable[[np.ndarray], list[tuple[np.ndarray, np.ndarray]]]
    ) -> list[np.ndarray]:
        """Sum products of features over the rows of each unit, (M, s, F) for each pair.

        Args:
            evaluate: function that returns pairs of features (r, s) and (r, F) of rows (r,).
        """
        order = np.argsort(self.unit, kind="stable")
        sizes = np.bincount(self.unit, minlength=len(self.labels))
        starts = np.cumsum(sizes) - sizes
        sums: list[np.ndarray] = []
        for units in _units_of_similar_size(sizes):
            index = np.arange(sizes[units].max())
            valid = index < sizes[units, None]
            entries = order[np.where(valid, starts[units, None] + index, 0)]
            weights = valid if self.entry_weights is None else valid * self.entry_weights[entries]
            for number, pair in enumerate(evaluate(self.row[entries.ravel()])):
                left, right = (features.reshape(*entries.shape, -1) for features in pair)
                if len(sums) == number:
                    sums.append(np.zeros((len(sizes), left.shape[2], right.shape[2])))
                sums[number][units] = (left * weights[..., None]).transpose(0, 2, 1) @ right
        return sums

    def first_sums(self, unit_sums: np.ndarray) -> np.ndarray:
        """Add up sums over units (M, F) to sums over the first table, (F, 1 + B)."""
        return np.asarray(unit_sums.T @ self.labels.astype(float))

    def check_resolution(self, alpha: float) -> None:
        """Refuse permutations too few of which are distinct for a p-value of ``alpha``.

        Raises:
            InputError: the probability of the observed labels, up to the exchange of the tables,
                exceeds ``alpha``.
        """
        if self.n_distinct < 1.0 / alpha:
            raise InputError(
                f"the labels of {len(self.labels)} units have only {self.n_distinct} distinct "
                f"permutations, so that no p-value is below about {1.0 / self.n_distinct:.2g}: "
                f"more rows or units are needed for level {alpha:.3g}"
            )


def permute_labels(
    columns: Sequence[Column],
    n_first: int,
    n_resamples: int,
    seed: int,
    *,
    clusters: Column | None = None,
    strata: Column | None = None,
    row_weights: RowWeights = UNWEIGHTED,
) -> PermutedLabels:
    """Permute the table labels of rows.

    Args:
        columns: columns of both tables, the rows of the first table first.
        n_first: number of rows of the first table.
        n_resamples: B, the number of permutations.
        seed: seed of the permutations. They also depend on the values of the rows, but not on the
            order of rows, columns or tables.
        clusters: a column whose equal values in a table form one unit. The two units of a value
            that is in both tables exchange their labels.
        strata: a column within whose equal values labels are permuted.
        row_weights: frequency weights or weights of the rows.

    Raises:
        InputError: no label can change, or a cluster has rows in several strata.
    """
    row_hashes = hash_rows(
        [*columns, *([] if row_weights.column is None else [row_weights.column])]
    )
    row = np.arange(len(row_hashes))
    if row_weights.counts is not None:
        row = np.repeat(row, row_weights.counts)
    hashes, is_first = row_hashes[row], row < n_first
    # The table with the smaller hash comes first, so that p-values do not depend on the order of
    # the tables.
    first_hash, second_hash = combine_hashes(hashes[is_first]), combine_hashes(hashes[~is_first])
    swapped = first_hash > second_hash
    is_first ^= swapped
    rng = np.random.default_rng((seed, 3, *sorted((first_hash, second_hash))))
    stratum = np.zeros(len(row_hashes), dtype=np.int64)
    if strata is not None:
        stratum = np.unique(strata.values, return_inverse=True, equal_nan=True)[1]
    if clusters is not None and strata is not None:
        _check_within_strata(clusters, strata, stratum)
    if clusters is None:
        units = _bins(hashes, is_first, stratum[row], rng)
    else:
        units = _clusters(clusters, is_first, stratum[row], row)
    unit, unit_labels, unit_strata = units
    scheme = PermutationScheme.independent(unit_labels, unit_strata)
    labels = np.column_stack([unit_labels.astype(np.int8), scheme.draw(n_resamples, rng)]) ^ swapped
    pairs = np.unique(np.stack([unit_strata, unit_labels]), axis=1)
    if pairs.shape[1] == len(np.unique(unit_strata)):  # one table in each stratum
        raise InputError(f"no row can change its label: {_describe_strata(strata, n_first)}")
    return PermutedLabels(labels, unit, row, row_weights.weights, row_hashes, scheme.n_distinct)


def _check_within_strata(clusters: Column, strata: Column, stratum: np.ndarray) -> None:
    """Refuse clusters with rows in several strata, whose parts would be permuted separately."""
    cluster = np.unique(clusters.values, return_inverse=True, equal_nan=True)[1]
    pairs = np.unique(np.stack([cluster, stratum]), axis=1)
    if pairs.shape[1] > cluster.max() + 1:
        count = int(np.sum(np.bincount(pairs[0]) > 1))
        raise InputError(
            f"{pluralize(count, 'cluster')} of {clusters.name!r} have rows in several strata of "
            f"{strata.name!r}, and rows of a cluster are permuted together: leave one of both out, "
            "or use strata that are constant within clusters"
        )


def _describe_strata(strata: Column | None, n_first: int) -> str:
    """Describe strata none of which is in both tables, with one of each table."""
    if strata is None:
        return "there are too few rows or clusters"
    first, second = (
        "missing" if np.isnan(value) else repr(strata.levels[int(value)])
        for value in strata.values[[0, n_first]]
    )
    return (
        f"every stratum is in one table only, such as {first} in the first and {second} in the "
        "second: write equal strata in one spelling"
    )


def hash_rows(columns: Sequence[Column]) -> np.ndarray:
    """Hash the values of each row, (N,), independently of the order of the columns."""
    total: np.ndarray | None = None
    for column in columns:
        salt = int.from_bytes(
            hashlib.blake2b(column.name.encode(), digest_size=8).digest(), "little"
        )
        # All NaN are equal, and so are 0 and -0.
        values = np.where(np.isnan(column.values), np.nan, column.values + 0.0)
        hashes = mix_bits(np.ascontiguousarray(values).view(np.uint64) ^ np.uint64(salt))
        total = hashes if total is None else total + hashes
    assert total is not None
    return mix_bits(total)


def _bins(
    hashes: np.ndarray, is_first: np.ndarray, stratum: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the unit of each entry, and the label and stratum of each unit: rows or bins."""
    total, size = len(hashes), 1
    if total > MAX_SINGLE_ROWS:
        size = bin_size(total, int(min(is_first.sum(), total - is_first.sum())))
    order = np.lexsort((~is_first, stratum, hashes))
    if size == 1:
        unit = np.empty(total, dtype=np.int64)
        unit[order] = np.arange(total)
        return unit, is_first[order], stratum[order]
    bins = divide_into_bins(2 * stratum + ~is_first, size, order[rng.permutation(total)])
    # Rows that do not fill a bin keep their label: each such bin is a stratum.
    remainder = stratum.max() + 1 + np.arange(len(bins.row))
    return bins.of_row, is_first[bins.row], np.where(bins.incomplete, remainder, stratum[bins.row])


def _clusters(
    clusters: Column, is_first: np.ndarray, stratum: np.ndarray, row: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the unit of each entry, and the label and stratum of each unit: clusters.

    A cluster that is in both tables is a stratum of two units.
    """
    value = np.unique(clusters.values, return_inverse=True, equal_nan=True)[1][row]
    keys, start, unit = np.unique(
        np.stack([stratum, value, ~is_first]), axis=1, return_index=True, return_inverse=True
    )
    _, cluster, n_tables = np.unique(keys[:2], axis=1, return_inverse=True, return_counts=True)
    in_both = n_tables[cluster.ravel()] == 2
    unit_strata = np.where(in_both, stratum.max() + 1 + cluster.ravel(), keys[0])
    return unit.ravel(), is_first[start], unit_strata


def _units_of_similar_size(sizes: np.ndarray) -> list[np.ndarray]:
    """Group units into blocks of rows; the largest unit of a group has at most twice the smallest.

    Empty units are left out.
    """
    order = np.argsort(sizes, kind="stable")
    ordered, groups, start = sizes[order], [], int(np.count_nonzero(sizes == 0))
    while start < len(order):
        last = np.searchsorted(ordered, 2 * ordered[start], side="right")
        stop = min(int(last), start + max(1, BLOCK_ROWS // int(ordered[start])))
        groups.append(order[start:stop])
        start = stop
    return groups
