"""Very large samples dealt out in bins by the places of their rows, wherever these are.

A row's place is its number among those of its sample, sorted by what they are known by, so that it
does not hang on how rows came. A permutation of these numbers, worked out for each by itself, tells
which bin a row is in, and which rows are of the part that everything is chosen by. So rows may be
on several machines, and none need have them all. The permutation is a Feistel network with rounds
of splitmix64 (Luby and Rackoff 1988), of a number with an even count of bits; what is beyond the
last row is permuted again until it is not (Black and Rogaway 2002).
"""

from __future__ import annotations

import dataclasses

import numpy as np

from ..data.canonical import mix_bits

#: Rows in all beyond which a part of them at random is what everything is chosen by, and how many
#: rows it has, about.
MANY, PART = 2**17, 2**16
#: Rounds of the network; four make its permutation pseudo-random.
ROUNDS = 6


def shuffled(places: np.ndarray, count: int, key: int) -> np.ndarray:
    """Find where a random permutation puts some places (k,) of ``count``, int64.

    Args:
        places: numbers from 0 to ``count - 1``.
        count: how many places there are.
        key: which permutation.
    """
    half = np.uint64(max(1, -(-(count - 1).bit_length() // 2)))
    mask = np.uint64((1 << int(half)) - 1)
    keys = mix_bits(
        mix_bits(np.full(ROUNDS, key, dtype=np.uint64)) + np.arange(ROUNDS, dtype=np.uint64)
    )
    found = np.array(places, dtype=np.uint64)
    moved = np.arange(len(found))
    while len(moved):
        values = found[moved]
        left, right = values >> half, values & mask
        for one in keys:
            left, right = right, left ^ (mix_bits(right + one) & mask)
        values = (left << half) | right
        found[moved] = values
        moved = moved[values >= np.uint64(count)]
    return found.astype(np.int64)


@dataclasses.dataclass(frozen=True)
class Deal:
    """Which bin every row of two samples is dealt out with, by its place in its sample.

    Attributes:
        sizes: rows of each sample.
        turned: whether bins are counted from those of the second sample on.
        size: rows of a bin.
        key: of the permutation of each sample's rows.
    """

    sizes: tuple[int, int]
    turned: bool
    size: int
    key: int

    def count(self, sample: int) -> int:
        """How many bins a sample has, 0 the first one."""
        return -(-self.sizes[sample] // self.size)

    def start(self, sample: int) -> int:
        """The first bin of a sample among those of both."""
        return 0 if bool(sample) == self.turned else self.count(1 - sample)

    def within(self, sample: int, places: np.ndarray) -> np.ndarray:
        """The bin (k,) of rows at some places (k,) of a sample, among its own bins."""
        own = np.array([self.key], dtype=np.uint64) + np.uint64(bool(sample) != self.turned)
        return shuffled(places, self.sizes[sample], int(mix_bits(own)[0])) // self.size

    @property
    def sizes_of_bins(self) -> np.ndarray:
        """How many rows every bin (M,) has."""
        found = np.full(self.count(0) + self.count(1), self.size)
        for sample in (0, 1):
            found[self.start(sample) + self.count(sample) - 1] -= (
                self.count(sample) * self.size - self.sizes[sample]
            )
        return found

    @property
    def of_first(self) -> np.ndarray:
        """Whether every bin (M,) is of the sample that bins are counted from."""
        both = self.count(0), self.count(1)
        return np.arange(sum(both)) < both[int(self.turned)]


def places_of(marks: np.ndarray) -> np.ndarray:
    """The places (k,) of a sample's rows, sorted by their marks (k, 2); equal rows as they came."""
    places = np.empty(len(marks), dtype=np.int64)
    places[np.lexsort(marks.T[::-1])] = np.arange(len(marks))
    return places


def chosen_of(marks: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Indices of the rows, of both samples, that everything is chosen by."""
    drawn = priorities(marks[:, 0], places)
    return np.sort(np.argpartition(drawn, min(PART, len(drawn) - 1))[:PART])


def priorities(marks: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Draw numbers (k,) by which rows come into the part, the smallest first.

    By what is in rows and where these are in their sample, so that neither equal rows nor those of
    one place go together, and whatever their labels.

    Args:
        marks: (k,), of the rows.
        places: (k,), in their samples.
    """
    return mix_bits(marks ^ mix_bits(np.asarray(places, dtype=np.uint64) + np.uint64(1)))
