"""Numeric encoding of columns: normal scores of numbers, points on a circle, level indicators.

All encoded features have mean 0 and variance 1. They are looked up by the codes of the derived
features, so that memory does not grow with the number of encoded features.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from .derived_features import MAX_CODES, MISSING, DerivedFeature


class Coding(NamedTuple):
    """Treatment coding of the encoded features (f,) of a column.

    Attributes:
        ends: (f, 2), values of an indicator without and with its level; NaN for scores.
        source: (f,), index of the derived feature; its levels exclude each other.
        reference: (f,), index of the reference level of a level; -1 if the reference is all rows
            without an indicator. The contrast of a level with itself is zero.
    """

    ends: np.ndarray
    source: np.ndarray
    reference: np.ndarray

    @property
    def is_level(self) -> np.ndarray:
        """Boolean mask (f,) of the indicators of levels."""
        return ~np.isnan(self.ends[:, 0])

    def subset(self, indices: np.ndarray) -> Coding:
        """Select features (f',), which must include their reference levels."""
        position = np.full(len(self.ends) + 1, -1)
        position[indices] = np.arange(len(indices))
        return Coding(self.ends[indices], self.source[indices], position[self.reference[indices]])

    def level_sums(self, sums: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Sum over the rows with each level, (f, ...).

        Args:
            sums: (f, ...), sums of the products with the features.
            rows: sums without the features.
        """
        low, high = (self.ends[:, end].reshape(-1, *[1] * (sums.ndim - 1)) for end in (0, 1))
        return np.asarray((sums - low * rows) / (high - low))

    def remainder_sums(self, level_sums: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Sum over the rows without any level of the same derived feature, (f, ...)."""
        same = (self.source[:, None] == self.source).astype(float)
        return np.asarray(rows - np.tensordot(same, level_sums, axes=1))

    def reference_sums(self, level_sums: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Sum over the rows with the reference level, (f, ...)."""
        without = (self.reference < 0).reshape(-1, *[1] * (level_sums.ndim - 1))
        return np.where(without, self.remainder_sums(level_sums, rows), level_sums[self.reference])


class EncodedColumn(NamedTuple):
    """Encoded features of a column, by the codes of its derived features.

    Attributes:
        name: name of the column.
        codes: (N,) for each derived feature, the code of each row.
        values: (2, C + 1, f) for each derived feature, the value of each code in the first and in
            the second table; the last row is that of missing values.
        weights: (f,), weight of each feature in distances between rows; they add up to 1.
        names: (f,), names of the features.
        coding: levels of the indicators.
        score_index: (f,), for numbers the index of their normal scores; -1 for other features.
        tie_factors: (2, f), factors by which ties reduce the correlations of scores in each table.
        n_first: number of rows of the first table.
        incomplete: indices of the derived features with missing values.
    """

    name: str
    codes: list[np.ndarray]
    values: list[np.ndarray]
    weights: np.ndarray
    names: list[str]
    coding: Coding
    score_index: np.ndarray
    tie_factors: np.ndarray
    n_first: int
    incomplete: list[int]

    @property
    def mask_index(self) -> np.ndarray:
        """Index in :meth:`is_known` of the rows that have a feature, from 1; 0 if all have it."""
        incomplete = self.incomplete
        return np.concatenate(
            [
                np.full(values.shape[2], incomplete.index(at) + 1 if at in incomplete else 0)
                for at, values in enumerate(self.values)
            ]
        )

    @property
    def is_square(self) -> np.ndarray:
        """Boolean mask (f,) of the squares of scores."""
        return np.asarray((self.weights == 0.0) & (self.score_index < 0))

    def at(self, rows: np.ndarray) -> np.ndarray:
        """Return the features (r, f) of rows (r,)."""
        is_second = rows >= self.n_first
        # One index is three times as fast as two. Code -1 takes the last row of the other table,
        # that of missing values, which is 0 as well.
        return np.concatenate(
            [
                values.reshape(-1, values.shape[2]).take(
                    codes.take(rows) + is_second * values.shape[1], axis=0
                )
                for codes, values in zip(self.codes, self.values, strict=True)
            ],
            axis=1,
        )

    def is_known(self, rows: np.ndarray) -> np.ndarray:
        """Return whether rows (r,) have the ``incomplete`` features, (r, h) of 0 and 1."""
        known = [self.codes[index][rows] >= 0 for index in self.incomplete]
        return np.stack(known, axis=1).astype(float) if known else np.ones((len(rows), 0))

    def positions(self, rows: np.ndarray) -> np.ndarray:
        """Return the coordinates of rows (r,) for distances, (r, d), with total variance 1."""
        used = self.weights > 0.0
        return np.asarray(self.at(rows)[:, used] * np.sqrt(self.weights[used]))


def encode_column(
    name: str,
    features: list[DerivedFeature],
    weights: np.ndarray,
    n_first: int,
    *,
    by_table: bool = False,
) -> EncodedColumn | None:
    """Encode the derived features of a column.

    Args:
        name: name of the column.
        features: derived features; features with an incidence matrix are left out.
        weights: (N,), weight of each row.
        n_first: number of rows of the first table.
        by_table: compute normal scores and standard deviations in each table, so that associations
            do not depend on the marginal distributions, and add the numbers themselves. By default
            scores are ranked over both tables, and their squares are added.

    Returns:
        The encoded column, or ``None`` if no feature varies enough.
    """
    slices = (slice(None, n_first), slice(n_first, None)) if by_table else (slice(None),) * 2
    encoded = []
    for feature in features:
        if feature.incidence is not None:
            continue
        label = f"{feature.name} of {name}" if feature.name else name
        if feature.points is None:
            encoding = _encode_levels(name, label, feature, _counts(feature, weights, slice(None)))
        else:
            counts = [_counts(feature, weights, rows) for rows in slices]
            encoding = _encode_points(label, feature.points, counts, by_table=by_table)
        if encoding.names:
            encoded.append((feature.codes, encoding))
    if not encoded:
        return None
    encodings = [encoding for _, encoding in encoded]
    starts = np.cumsum([0, *(len(encoding.names) for encoding in encodings)])
    feature_weights = np.concatenate([encoding.weights for encoding in encodings])
    coding = Coding(
        np.concatenate([encoding.ends for encoding in encodings]),
        np.repeat(np.arange(len(encodings)), np.diff(starts)),
        _offset([encoding.reference for encoding in encodings], starts),
    )
    return EncodedColumn(
        name,
        [codes for codes, _ in encoded],
        [np.append(part.values, 0.0 * part.values[:, :1], axis=1) for part in encodings],
        feature_weights / feature_weights.sum(),
        [label for encoding in encodings for label in encoding.names],
        coding,
        _offset([encoding.score_index for encoding in encodings], starts),
        np.concatenate([encoding.tie_factors for encoding in encodings], axis=1),
        n_first,
        [index for index, (codes, _) in enumerate(encoded) if (codes < 0).any()],
    )


class _Encoding(NamedTuple):
    """Encoding of a derived feature; ``values`` (2, C, f) by code, else as in EncodedColumn."""

    values: np.ndarray
    names: list[str]
    weights: np.ndarray
    ends: np.ndarray
    reference: np.ndarray
    score_index: np.ndarray
    tie_factors: np.ndarray


def _offset(indices: list[np.ndarray], starts: np.ndarray) -> np.ndarray:
    """Convert indices within derived features to indices within the column; -1 stays."""
    return np.concatenate(
        [
            np.where(index < 0, index, index + start)
            for index, start in zip(indices, starts, strict=False)
        ]
    )


def _encode_levels(
    name: str,
    label: str,
    feature: DerivedFeature,
    counts: np.ndarray,
    max_indicators: int = 3,
    min_fraction: float = 0.005,
) -> _Encoding:
    """Encode levels as indicators of the most frequent ones.

    The most frequent level is the reference. It has an indicator only if there are levels without
    one, and then its contrast with itself is zero.

    Args:
        name: name of the column.
        label: name of the derived feature.
        feature: derived feature.
        counts: (C,), weight of the rows with each level.
        max_indicators: largest number of indicators, without the reference.
        min_fraction: smallest fraction of rows of a level with an indicator.
    """
    order = np.argsort(-counts, kind="stable")
    reference = int(order[0])
    levels = order[1 : min(1 + max_indicators, np.count_nonzero(counts))]
    levels = levels[counts[levels] >= min_fraction * counts.sum()]
    if feature.name == MISSING and len(levels):
        levels = np.array([feature.levels.index(MISSING)])
    has_remainder = np.count_nonzero(counts) > 1 + len(levels)
    if has_remainder and len(levels):
        levels = np.append(reference, levels)
    values = _standardize(np.arange(feature.n_codes)[:, None] == levels, counts)
    contrast = f" rather than {feature.levels[reference]}" if np.count_nonzero(counts) > 2 else ""
    names = [
        f"{name} missing" if level == MISSING else f"{label} = {level}{contrast}"
        for level in (feature.levels[code] for code in levels)
    ]
    return _Encoding(
        np.stack([values, values]),
        names,
        np.full(len(names), 1.0 / max(len(names), 1)),
        np.stack([values.min(axis=0, initial=0.0), values.max(axis=0, initial=0.0)], axis=1),
        np.full(len(names), 0 if has_remainder else -1),
        np.full(len(names), -1),
        np.ones((2, len(names))),
    )


def _encode_points(
    label: str, points: np.ndarray, counts: list[np.ndarray], *, by_table: bool
) -> _Encoding:
    """Encode a circle by its coordinates, and a line by scores and their squares or numbers.

    Args:
        label: name of the derived feature.
        points: (C, D), coordinates of the codes.
        counts: (C,) for each table, weight of the rows with each code.
        by_table: as in :func:`encode_column`.
    """
    ends, no_index, tie_factors = np.full((2, 2), np.nan), np.full(2, -1), np.ones((2, 2))
    if points.shape[1] == 2:
        values = np.stack([_standardize(points, count) for count in counts])
        names = [f"{label}, midnight rather than noon", f"{label}, 6:00 rather than 18:00"]
        weights = np.array([0.5, 0.5])
        return _Encoding(values, names, weights, ends, no_index, no_index, tie_factors)
    scores = [_normal_scores(count) for count in counts]
    second = [points[:, 0]] * 2 if by_table else [score**2 for score in scores]
    values = np.stack(
        [
            _standardize(np.stack(pair, axis=1), count)
            for *pair, count in zip(scores, second, counts, strict=True)
        ]
    )
    names, weights = [label, label if by_table else f"{label}, squared"], np.array([1.0, 0.0])
    score_index = no_index
    if by_table:
        score_index = np.array([-1, 0])
        tie_factors[:, 0] = [_tie_factor(count) for count in counts]
    return _Encoding(values, names, weights, ends, no_index, score_index, tie_factors)


def _counts(feature: DerivedFeature, weights: np.ndarray, rows: slice) -> np.ndarray:
    """Return the weight of the rows with each code, (C,)."""
    codes = feature.codes[rows]
    known = codes >= 0
    return np.bincount(codes[known], weights=weights[rows][known], minlength=feature.n_codes)


def _normal_scores(counts: np.ndarray) -> np.ndarray:
    """Return the normal scores (C,) of codes in ascending order."""
    rank = (np.cumsum(counts) - 0.5 * counts) / max(counts.sum(), 1.0)
    return np.asarray(ndtri(np.where(counts > 0, rank, 0.5)))


def _tie_factor(counts: np.ndarray) -> float:
    """Return the factor by which ties reduce a correlation of normal scores.

    It is the standard deviation of the means of a normal variable within each value (Pearson
    1913), divided by that of as many distinct values as rows.

    Args:
        counts: (C,), weight of the rows with each value.
    """

    def deviation(fractions: np.ndarray) -> float:
        ends = ndtri(np.clip(np.append(0.0, np.cumsum(fractions)), 0.0, 1.0))
        within = -np.diff(np.exp(-0.5 * ends**2)) / math.sqrt(2.0 * math.pi)
        return float(np.sqrt(np.sum(within**2 / fractions)))

    fractions = counts[counts > 0.0] / max(counts.sum(), 1.0)
    if len(fractions) < 2:
        return 1.0
    rows = int(max(1.0, min(counts.sum(), MAX_CODES)))
    return min(1.0, deviation(fractions) / deviation(np.full(rows, 1.0 / rows)))


def _standardize(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Standardize values (C, f) of codes to mean 0 and variance 1 over the rows."""
    total = max(counts.sum(), 1.0)
    centered = values - counts @ values / total
    deviation = np.sqrt(counts @ centered**2 / total)
    return np.asarray(centered / np.where(deviation > 0.0, deviation, 1.0))
