"""Features of a column that are compared: values, missingness, weekdays, hours, words.

Each feature maps every row to one of a few hundred codes. The statistics need only the number of
rows of each code in the first table, for every permutation, and not the rows.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse

from ..data.weighted import weighted_quantiles
from ..io.types import Column
from ..permutation.pool import TAILS, column_widths

#: Largest number of codes of numbers; more distinct values are binned by quantiles.
MAX_CODES = 512
#: Largest number of levels of a category; rarer levels are merged into :data:`RARE`.
MAX_LEVELS = 200
DAY, HOUR = 86_400.0, 3600.0
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
#: Name of the feature of missing values, and of its level of rows without a value.
MISSING = "missing"
#: Name of the merged rare levels.
RARE = "(others)"
#: Distance from the median, in scales, beyond which values are clipped and counted in tails.
MAX_DISTANCE = 10.0
#: Levels of the quantiles beyond which rows are counted, at both ends.
TAIL_LEVELS = np.array([0.001, 0.0025, 0.005, 0.01, 0.02, 0.05])
#: Largest number of words, or of trigrams, of a column of text.
MAX_TOKENS = 300
#: Largest number of texts in which words are counted, and of characters of each text.
MAX_TEXTS, MAX_CHARACTERS = 100_000, 400


class DerivedFeature(NamedTuple):
    """Codes of rows: points on a line or in a plane, or categories.

    Attributes:
        name: name of the feature, such as weekday; empty for the values of the column.
        codes: (N,), code of each row; -1 for missing values.
        points: (C, D), coordinates of each code in units of ``scale``; ``None`` for categories.
        scale: unit of ``points``, in units of the column.
        levels: names of the codes or of the rows of ``incidence``; empty for points on a line.
        incidence: (K, C) of 0 and 1, the tokens that each text contains, if rows are compared by
            tokens; ``levels`` has the names of the tokens.
    """

    name: str
    codes: np.ndarray
    points: np.ndarray | None
    scale: float = 1.0
    levels: tuple[str, ...] = ()
    incidence: scipy.sparse.csr_array | None = None

    @property
    def n_codes(self) -> int:
        """Number of codes, C."""
        if self.incidence is not None:
            return int(self.incidence.shape[1])
        return len(self.levels) if self.points is None else len(self.points)


def derive_features(column: Column, weights: np.ndarray) -> list[DerivedFeature]:
    """Derive the features of a column; none if it is constant.

    Args:
        column: column of both tables.
        weights: (N,), positive weight of each row.
    """
    features: list[DerivedFeature] = []
    if column.kind in ("number", "integer"):
        features += numeric_feature("", column.values, weights)
        features += _tail_feature(features, column.values, weights)
    elif column.kind == "datetime":
        features += _date_features(column.values, weights)
    elif column.kind == "text":
        features += _text_features(column, weights)
    else:
        features += categorical_feature("", column.values, column.levels, weights)
    missing = np.isnan(column.values)
    if missing.any() and not missing.all():
        levels = ("present", MISSING)
        features.append(DerivedFeature(MISSING, missing.astype(np.int64), None, levels=levels))
    return features


def is_comparable(feature: DerivedFeature, n_first: int, weights: np.ndarray) -> bool:
    """Return whether both tables have points of a feature, observed and in permutations.

    Otherwise the feature of missing values covers the difference. A feature is also left out if so
    few rows have a value that, with probability above 0.001, all of these are in one table under
    permutation. The choice depends on the labels, but changes the level very little.
    """
    if feature.points is None:
        return True
    known = feature.codes >= 0
    if known.all():
        return True
    first, total = (weights[part][known[part]].sum() for part in (slice(n_first), slice(None)))
    fraction = weights[:n_first].sum() / weights.sum()
    return bool(0 < first < total and max(fraction, 1.0 - fraction) ** total <= 1e-3)


def numeric_feature(name: str, values: np.ndarray, weights: np.ndarray) -> list[DerivedFeature]:
    """Code numbers (N,) as points on a line: distinct values, or means of quantile bins.

    Values are clipped at :data:`MAX_DISTANCE` scales from the median. Two distinct values are
    categories, and a constant has no feature.
    """
    valid = ~np.isnan(values)
    known, weight = values[valid], weights[valid]
    if not len(known):
        return []
    quantiles = _quantiles(known, weight, [*TAILS, 0.5, *(1.0 - TAILS)])
    median, tails = quantiles[len(TAILS)], (quantiles[: len(TAILS)], quantiles[len(TAILS) + 1 :])
    # By distinct values, so that rounding does not depend on the order of rows.
    distinct, index = np.unique(known, return_inverse=True)
    counts = np.bincount(index, weights=weight)
    centered = distinct - np.average(distinct, weights=counts)
    deviation = np.sqrt(np.average(centered**2, weights=counts))
    scale = float(column_widths(np.array([deviation]), np.stack(tails)[..., None])[0])
    known = np.clip(known, median - MAX_DISTANCE * scale, median + MAX_DISTANCE * scale)
    distinct, index = np.unique(known, return_inverse=True)
    counts = np.bincount(index, weights=weight)
    if len(distinct) < 2:
        return []
    if len(distinct) == 2:
        ends = np.unique(values[valid])[[0, -1]]
        names = tuple(f"{name} {end:.15g}".lstrip() for end in ends)
        level = np.full(len(values), np.nan)
        level[valid] = index
        return categorical_feature(name, level, names, weights)
    if len(distinct) > MAX_CODES:
        quantile = np.ceil(np.cumsum(counts) * (MAX_CODES / counts.sum())).astype(int)
        bins = np.unique(quantile, return_inverse=True)[1]
        distinct = np.bincount(bins, weights=counts * distinct) / np.bincount(bins, weights=counts)
        index = bins[index]
    codes = np.full(len(values), -1, dtype=np.int64)
    codes[valid] = index
    return [DerivedFeature(name, codes, distinct[:, None] / scale, scale)]


def _quantiles(
    values: np.ndarray, weights: np.ndarray, levels: Sequence[float] | np.ndarray
) -> np.ndarray:
    return weighted_quantiles(values, weights, list(levels), method="inverted_cdf")


def _tail_feature(
    line: list[DerivedFeature], values: np.ndarray, weights: np.ndarray
) -> list[DerivedFeature]:
    """Code values (N,) by the pooled tail quantiles beyond which they lie, if values were clipped.

    Clipped values are one point on the line, which does not measure how extreme they are.
    """
    if not line or line[0].points is None:
        return []
    valid = ~np.isnan(values)
    known, weight = values[valid], weights[valid]
    minimum, maximum = known.min(), known.max()
    (median,) = _quantiles(known, weight, [0.5])
    if max(median - minimum, maximum - median) <= MAX_DISTANCE * line[0].scale:
        return []
    low, high = (
        np.unique(_quantiles(known, weight, levels)) for levels in (TAIL_LEVELS, 1.0 - TAIL_LEVELS)
    )
    low, high = low[low > minimum], high[high < maximum]
    if not len(low) and not len(high):
        return []
    codes = np.full(len(values), -1, dtype=np.int64)
    codes[valid] = np.searchsorted(low, values[valid], side="right")
    codes[valid] += np.searchsorted(high, values[valid], side="left")
    code = np.arange(len(low) + len(high) + 1)
    beyond = [code <= index for index in range(len(low))]
    beyond += [code > len(low) + index for index in range(len(high))]
    names = [f"below {end:.4g}" for end in low] + [f"above {end:.4g}" for end in high]
    incidence = scipy.sparse.csr_array(np.array(beyond, dtype=float))
    return [DerivedFeature("tails", codes, None, levels=tuple(names), incidence=incidence)]


def categorical_feature(
    name: str, values: np.ndarray, levels: tuple[str, ...], weights: np.ndarray
) -> list[DerivedFeature]:
    """Code levels (N,), with the rarest levels merged; none if there is one level.

    Args:
        name: name of the feature.
        values: indices of ``levels``; NaN for missing values.
        levels: names of the levels.
        weights: (N,), weight of each row.
    """
    valid = ~np.isnan(values)
    index = np.full(len(values), -1, dtype=np.int64)
    index[valid] = values[valid].astype(int)
    counts = np.bincount(index[valid], weights=weights[valid], minlength=len(levels))
    if np.count_nonzero(counts) < 2:
        return []
    frequent = np.flatnonzero(counts)
    has_rare = len(frequent) > MAX_LEVELS
    if has_rare:
        frequent = np.sort(np.lexsort((np.arange(len(counts)), -counts))[: MAX_LEVELS - 1])
    code = np.full(len(levels) + 1, len(frequent), dtype=np.int64)
    code[frequent] = np.arange(len(frequent))
    code[-1] = -1
    names = tuple(levels[level] for level in frequent) + ((RARE,) if has_rare else ())
    return [DerivedFeature(name, code[index], None, levels=names)]


def _date_features(seconds: np.ndarray, weights: np.ndarray) -> list[DerivedFeature]:
    """Code dates (N,), in seconds since 1970, by weekday and hour, but not by date.

    Times of day without a date are in the first day and have no weekday. Hours are points on a
    circle.
    """
    features: list[DerivedFeature] = []
    days = np.floor(seconds / DAY)
    if np.any(days[~np.isnan(days)] != 0.0):
        weekday = np.mod(days + WEEKDAYS.index("Thursday"), 7.0)  # 1 January 1970
        features += categorical_feature("weekday", weekday, WEEKDAYS, weights)
    hours = np.floor((seconds - days * DAY) / HOUR)
    if len(np.unique(hours[~np.isnan(hours)])) > 1:
        codes = np.where(np.isnan(hours), -1, hours).astype(np.int64)
        angle = 2.0 * np.pi * (np.arange(24) + 0.5) / 24.0
        names = tuple(f"{hour}:00" for hour in range(24))
        circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        features.append(DerivedFeature("hour", codes, circle, levels=names))
    return features


def _text_features(column: Column, weights: np.ndarray) -> list[DerivedFeature]:
    """Code texts by length, by the words and by the character trigrams that they contain."""
    valid = ~np.isnan(column.values)
    features = numeric_feature("length", column.lengths, weights)
    codes = np.where(valid, column.values, -1.0).astype(np.int64)
    sampled = subsample_texts(column.levels)
    codes[valid] = np.where(sampled[codes[valid]], codes[valid], -1)
    known = codes >= 0
    counts = np.bincount(codes[known], weights=weights[known], minlength=len(column.levels))
    for name, tokenize, prefix in (
        ("words", split_words, "the word "),
        ("characters", character_trigrams, ""),
    ):
        tokens, incidence = token_incidence(column.levels, counts, tokenize)
        if tokens:
            levels = tuple(f"with {prefix}{token!r}" for token in tokens)
            features.append(DerivedFeature(name, codes, None, levels=levels, incidence=incidence))
    return features


def split_words(text: str) -> set[str]:
    """Return the distinct words of a text, in lower case."""
    return set(re.findall(r"\w+", text[:MAX_CHARACTERS].lower()))


def character_trigrams(text: str) -> set[str]:
    """Return the distinct groups of three characters of a text, in lower case."""
    text = re.sub(r"\s+", " ", text[:MAX_CHARACTERS].lower())
    return {text[start : start + 3] for start in range(len(text) - 2)}


def subsample_texts(texts: Sequence[str]) -> np.ndarray:
    """Select the texts whose tokens are counted, (T,) bool: all, or those of smallest hash."""
    if len(texts) <= MAX_TEXTS:
        return np.ones(len(texts), dtype=bool)
    hashes = [hashlib.blake2b(text.encode(), digest_size=8).digest() for text in texts]
    return np.array(hashes) <= sorted(hashes)[MAX_TEXTS - 1]


def token_incidence(
    texts: Sequence[str], counts: np.ndarray, tokenize: Callable[[str], set[str]]
) -> tuple[tuple[str, ...], scipy.sparse.csr_array]:
    """Find the most frequent tokens, and the texts that contain them.

    Args:
        texts: distinct texts.
        counts: (T,), number of rows of each text; 0 for texts that are not in the subsample.
        tokenize: function that returns the distinct tokens of a text.

    Returns:
        The tokens, and their incidence (K, T) of 0 and 1. Tokens of one row or of all rows are
        left out.
    """
    token_sets = [
        tokenize(text) if count else set() for text, count in zip(texts, counts, strict=True)
    ]
    frequency: dict[str, float] = {}
    for tokens, count in zip(token_sets, counts, strict=True):
        for token in tokens:
            frequency[token] = frequency.get(token, 0.0) + count
    maximum = counts.sum() * (1.0 - 1e-9)  # of all rows, up to rounding of weights
    candidates = [(-count, token) for token, count in frequency.items() if 1.0 < count < maximum]
    frequent = tuple(token for _, token in sorted(candidates)[:MAX_TOKENS])
    index = {token: row for row, token in enumerate(frequent)}
    entries = [
        (index[token], text)
        for text, tokens in enumerate(token_sets)
        for token in tokens
        if token in index
    ]
    rows, columns = np.array(entries, dtype=np.int64).reshape(-1, 2).T
    shape = (len(frequent), len(texts))
    return frequent, scipy.sparse.coo_array((np.ones(len(rows)), (rows, columns)), shape).tocsr()
