"""Distances between groups of batches, for every way to deal the batches out."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from ..permutation.calibration import agreed, surprise
from ..permutation.permutation import exceedances
from .features import ORDERS, Features

#: Kinds of evidence, in the order of statistics.
KINDS = (*ORDERS, "correlations", "all parameters together")
#: Means of groups that are held at once.
ENTRIES = 2**23


class Dealt(NamedTuple):
    """Every statistic for all deals, (1 + B,) each, the observed one first.

    Attributes:
        pairs: which two groups are compared, (p, 2).
        kinds: (kinds, p, 1 + B), squared distances of two groups by every kind of evidence.
        columns: (orders, D, 1 + B), of every column, summed over the pairs.
        products: (k, 1 + B), of every product of two columns, likewise.
    """

    pairs: np.ndarray
    kinds: np.ndarray
    columns: np.ndarray
    products: np.ndarray

    def overall(self) -> np.ndarray:
        """All kinds and pairs as one, (1 + B,)."""
        return agreed(surprise(self.kinds.sum(axis=1)))

    def told_by(self) -> int:
        """The first kind of evidence of those that surprise most among all deals.

        Location comes before tails, which a chain elsewhere has too, though of all deals few have
        such tails and they surprise by more.
        """
        rows = surprise(self.kinds.sum(axis=1))
        return int(np.argmin([exceedances(row)[0] for row in rows]))

    def each_pair(self) -> np.ndarray:
        """Every two groups by all kinds together, (p, 1 + B)."""
        return np.stack([agreed(surprise(self.kinds[:, pair])) for pair in range(len(self.pairs))])

    def each_column(self) -> np.ndarray:
        """Every column by all of its orders together, (D, 1 + B)."""
        columns = self.columns.shape[1]
        return np.stack([agreed(surprise(self.columns[:, one])) for one in range(columns)])


def distances(features: Features, groups: np.ndarray, pairs: list[tuple[int, int]]) -> Dealt:
    """Compare groups of batches, as they are and as they are dealt out.

    Args:
        features: of q batches.
        groups: (q, 1 + B), the group of every batch in every deal; groups keep their sizes.
        pairs: which groups are compared.
    """
    count, deals = int(groups.max()) + 1, groups.shape[1]
    members = [(groups == one).astype(float) for one in range(count)]
    sizes = [float(one[:, 0].sum()) for one in members]
    shares = [one / size for one, size in zip(members, sizes, strict=True)]
    every = [_apart(one, shares, pairs) for one in (*features.columns, features.pairs)]
    grams = _inner_products(features.grams, shares)
    kernels = np.zeros((len(pairs), deals))
    for index, (a, b) in enumerate(pairs):
        apart = grams[a, a] + grams[b, b] - 2.0 * grams[a, b]
        # Scales as one: each by its own spread, for the short ones are of far smaller distances.
        deviation = apart.std(axis=1, keepdims=True)
        kernels[index] = np.sum(apart / np.where(deviation > 0.0, deviation, 1.0), axis=0)
    return Dealt(
        np.array(pairs),
        np.stack([*(of_pairs for of_pairs, _ in every), kernels]),
        np.stack([of_features for _, of_features in every[:-1]]),
        every[-1][1],
    )


def _apart(
    features: np.ndarray, shares: list[np.ndarray], pairs: list[tuple[int, int]]
) -> tuple[np.ndarray, np.ndarray]:
    """Squared differences of two groups' means: summed over features, and over pairs of groups.

    Some features at a time, for all groups' means of all of them would take gigabytes.

    Args:
        features: (q, k).
        shares: of every group (q, 1 + B).
        pairs: which groups.

    Returns:
        (p, 1 + B) and (k, 1 + B).
    """
    deals, count = shares[0].shape[1], features.shape[1]
    of_pairs, of_features = np.zeros((len(pairs), deals)), np.zeros((count, deals))
    some = max(1, ENTRIES // (len(shares) * deals))
    for start in range(0, count, some):
        part = slice(start, start + some)
        means = [features[:, part].T @ one for one in shares]
        for index, (a, b) in enumerate(pairs):
            squares = (means[a] - means[b]) ** 2
            of_pairs[index] += squares.sum(axis=0)
            of_features[part] += squares
    return of_pairs, of_features


def _inner_products(
    grams: np.ndarray, shares: list[np.ndarray]
) -> dict[tuple[int, int], np.ndarray]:
    """Inner products (scales, 1 + B) of the mean embeddings of every two groups."""
    found = {}
    moved = [np.stack([gram @ one for gram in grams]) for one in shares]
    for a, b in itertools.combinations_with_replacement(range(len(shares)), 2):
        found[a, b] = np.einsum("qd,sqd->sd", shares[a], moved[b])
    return found


def dealt_out(count: int, each: int, deals: int, rng: np.random.Generator) -> np.ndarray:
    """The chain of every batch, (count * each, 1 + deals); at first as it is."""
    found = np.repeat(np.arange(count), each)[:, None].repeat(1 + deals, axis=1)
    rng.permuted(found[:, 1:], axis=0, out=found[:, 1:])
    return found


def halved(count: int, each: int, deals: int, rng: np.random.Generator) -> np.ndarray:
    """The half of every batch, of 2 ``count`` groups; dealt out within each chain."""
    half = np.repeat([0, 1], each // 2)
    found = np.empty((count * each, 1 + deals), dtype=int)
    for chain in range(count):
        own = 2 * chain + half[:, None].repeat(1 + deals, axis=1)
        rng.permuted(own[:, 1:], axis=0, out=own[:, 1:])
        found[chain * each : (chain + 1) * each] = own
    return found
