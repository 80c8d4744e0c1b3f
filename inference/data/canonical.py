"""Rows in an order of their own, and random numbers that go with them, whatever order they came in.

The order in which rows came may tell their labels.
"""

from __future__ import annotations

import hashlib

import numpy as np


def canonical_order(points: np.ndarray) -> np.ndarray:
    """Find indices (N,) that sort rows (N, D) by their columns, the same for any order of rows."""
    return np.lexsort(points.T[::-1])


def random_part(points: np.ndarray, most: int, seed: int) -> np.ndarray:
    """Draw at most ``most`` rows of ``points``, which must be in canonical order."""
    if len(points) <= most:
        return points
    chosen = np.random.default_rng(seed).choice(len(points), most, replace=False)
    return np.asarray(points[np.sort(chosen)])


def fingerprint(sample: np.ndarray) -> int:
    """The fingerprint of rows (N, D), in whatever order."""
    rows = sample[canonical_order(sample)] + 0.0  # -0.0 is 0.0
    content = np.ascontiguousarray(rows, dtype=float).tobytes()
    return int.from_bytes(hashlib.blake2b(content, digest_size=16).digest(), "little")


def pairs_fingerprints(first: np.ndarray, second: np.ndarray) -> tuple[int, int, int]:
    """The fingerprints of each sample's rows, and of the pairs that they make."""
    both = np.concatenate([first, second], axis=1)
    return fingerprint(first), fingerprint(second), fingerprint(both)


def generator(seed: int, *samples: np.ndarray, stream: int = 1) -> np.random.Generator:
    """Random numbers by ``seed`` and the rows (N, D) of ``samples``, in whatever order.

    From the seed alone all samples of one size would have the same B permutations, of ranks even in
    one dimension; these have a level of their own, off by about sqrt(alpha (1 - alpha) / B), and
    only its average over draws of the permutations is exact.
    """
    # The stream sets it apart from what ``seed`` gave for the choice of a kernel.
    return np.random.default_rng((seed, stream, *map(fingerprint, samples)))
