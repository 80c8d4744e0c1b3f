"""What rows are in how columns go together: a few numbers of mean 0 and variance 1 a column.

They are normal scores of numbers with their squares or the numbers themselves, points on a circle
of hours, and indicators of frequent levels. A row's are looked up by its codes, so that a million
rows take no more memory.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from .aspects import CODES, MISSING, Aspect
from .association import Side

#: Levels of a column that have an indicator, beside the one that they are held against.
INDICATORS = 3
#: Shares of rows below which an indicator tells next to nothing.
LEAST_SHARE = 0.005


class Features(NamedTuple):
    """Features of one column's rows, of mean 0 and variance 1, by the codes of its aspects.

    Attributes:
        codes: of every row, (N,) each.
        values: of every code in the first table and in the second, (2, C + 1, f) each; the last is
            that of rows without a code.
        weights: (f,), by which each feature counts in distances between rows: 1 in all.
        names: (f,), what each is in words.
        side: what each is.
        beside: (f,), of numbers themselves the index of their scores; -1 of other features.
        ties: (2, f), by what factor ties make the correlations of scores in each table smaller.
        rows: of the first table.
        holed: which of ``codes`` some rows have none of.
    """

    codes: list[np.ndarray]
    values: list[np.ndarray]
    weights: np.ndarray
    names: list[str]
    side: Side
    beside: np.ndarray
    ties: np.ndarray
    rows: int
    holed: list[int]

    @property
    def holes(self) -> np.ndarray:
        """Which of ``holed`` says of every feature (f,) what rows have it, from 1; 0 if all do."""
        holed = self.holed
        found = [
            np.full(of.shape[2], holed.index(index) + 1 if index in holed else 0)
            for index, of in enumerate(self.values)
        ]
        return np.concatenate(found)

    @property
    def squares(self) -> np.ndarray:
        """Which features (f,) are squares of scores."""
        return np.asarray((self.weights == 0.0) & (self.beside < 0))

    def at(self, rows: np.ndarray) -> np.ndarray:
        """The features (r, f) of rows (r,)."""
        second = rows >= self.rows
        # Three times as fast as by two indices. Without a code it is the last of either table.
        return np.concatenate(
            [
                of.reshape(-1, of.shape[2]).take(codes.take(rows) + second * of.shape[1], axis=0)
                for codes, of in zip(self.codes, self.values, strict=True)
            ],
            axis=1,
        )

    def known(self, rows: np.ndarray) -> np.ndarray:
        """Whether rows (r,) have each of ``holed``, (r, h) of 0 and 1."""
        found = np.ones((len(rows), len(self.holed)))
        for at, index in enumerate(self.holed):
            found[:, at] = self.codes[index][rows] >= 0
        return found

    def positions(self, rows: np.ndarray) -> np.ndarray:
        """Where rows (r,) are as far as this column goes, (r, d), of variance 1 in all."""
        kept = self.weights > 0.0
        return np.asarray(self.at(rows)[:, kept] * np.sqrt(self.weights[kept]))


def features(
    name: str, parts: list[Aspect], weights: np.ndarray, rows: int, *, apart: bool = False
) -> Features | None:
    """Make the features of a column by its aspects, ``None`` of one that hardly varies.

    Args:
        name: of the column.
        parts: the aspects.
        weights: (N,), how many rows each row counts for.
        rows: of the first table.
        apart: scores by the ranks in each table, and numbers in its standard deviations, which say
            how columns go together, not what each is alone; by default scores by ranks in
            both, and their squares.
    """
    tables = (slice(None, rows), slice(rows, None)) if apart else (slice(None), slice(None))
    found = []
    for aspect in parts:
        if aspect.holds is not None:
            continue
        called = f"{aspect.what} of {name}" if aspect.what else name
        if aspect.points is None:
            part = _of_levels(name, called, aspect, _counts(aspect, weights, slice(None)))
        else:
            counts = [_counts(aspect, weights, table) for table in tables]
            part = _of_points(called, aspect.points, counts, apart=apart)
        if part.names:
            found.append((aspect.codes, part))
    if not found:
        return None
    starts = np.cumsum([0, *(len(part.names) for _, part in found)])
    weighed = np.concatenate([part.weights for _, part in found])
    side = Side(
        np.concatenate([part.ends for _, part in found]),
        np.repeat(np.arange(len(found)), np.diff(starts)),
        _shifted([part.reference for _, part in found], starts),
    )
    return Features(
        [codes for codes, _ in found],
        [np.append(part.values, 0.0 * part.values[:, :1], axis=1) for _, part in found],
        weighed / weighed.sum(),
        [one for _, part in found for one in part.names],
        side,
        _shifted([part.beside for _, part in found], starts),
        np.concatenate([part.ties for _, part in found], axis=1),
        rows,
        [index for index, (codes, _) in enumerate(found) if (codes < 0).any()],
    )


class _Part(NamedTuple):
    """Features of one aspect, (2, C, f) by its codes; else as :class:`Features` has them."""

    values: np.ndarray
    names: list[str]
    weights: np.ndarray
    ends: np.ndarray
    reference: np.ndarray
    beside: np.ndarray
    ties: np.ndarray


def _shifted(parts: list[np.ndarray], starts: np.ndarray) -> np.ndarray:
    """Indices of features of aspects as those of features of all; -1 stays."""
    moved = [np.where(part < 0, part, part + at) for part, at in zip(parts, starts, strict=False)]
    return np.concatenate(moved)


def _of_levels(name: str, called: str, aspect: Aspect, counts: np.ndarray) -> _Part:
    """Indicators of the most frequent levels but one, which has one too where there are others."""
    first, chosen = _frequent(counts)
    if aspect.what == MISSING and len(chosen):
        chosen = np.array([aspect.levels.index(MISSING)])
    rest = np.count_nonzero(counts) > 1 + len(chosen)
    shown = np.append(first, chosen) if rest and len(chosen) else chosen
    values = _standard(np.arange(aspect.size)[:, None] == shown, counts)
    levels = [aspect.levels[one] for one in shown]
    other = f" rather than {aspect.levels[first]}" if np.count_nonzero(counts) > 2 else ""
    told = [f"{name} missing" if one == MISSING else f"{called} = {one}{other}" for one in levels]
    return _Part(
        np.stack([values, values]),
        told,
        np.full(len(told), 1.0 / max(len(told), 1)),
        np.stack([values.min(axis=0, initial=0.0), values.max(axis=0, initial=0.0)], axis=1),
        np.full(len(told), 0 if rest else -1),
        np.full(len(told), -1),
        np.ones((2, len(told))),
    )


def _of_points(called: str, points: np.ndarray, counts: list[np.ndarray], *, apart: bool) -> _Part:
    """Both coordinates of a circle; of a line normal scores, and their squares or its points."""
    ends, none, ties = np.full((2, 2), np.nan), np.full(2, -1), np.ones((2, 2))
    if points.shape[1] == 2:
        values = [_standard(points, of) for of in counts]
        told = [f"{called}, midnight rather than noon", f"{called}, 6:00 rather than 18:00"]
        weights, beside = np.array([0.5, 0.5]), none
    else:
        scores = [_scores(of) for of in counts]
        further = [points[:, 0]] * 2 if apart else [score**2 for score in scores]
        values = [
            _standard(np.stack(pair, axis=1), of)
            for *pair, of in zip(scores, further, counts, strict=True)
        ]
        told, weights = [called, called if apart else f"{called}, squared"], np.array([1.0, 0.0])
        if apart:
            beside, ties[:, 0] = np.array([-1, 0]), [_tied(of) for of in counts]
        else:
            beside = none
    return _Part(np.stack(values), told, weights, ends, none, beside, ties)


def _counts(aspect: Aspect, weights: np.ndarray, table: slice) -> np.ndarray:
    """How many rows of a table have each code, (C,)."""
    codes = aspect.codes[table]
    there = codes >= 0
    return np.bincount(codes[there], weights=weights[table][there], minlength=aspect.size)


def _scores(counts: np.ndarray) -> np.ndarray:
    """Normal scores (C,) of codes in order."""
    rank = (np.cumsum(counts) - 0.5 * counts) / max(counts.sum(), 1.0)
    return np.asarray(ndtri(np.where(counts > 0, rank, 0.5)))


def _tied(counts: np.ndarray) -> float:
    """By what factor ties make a correlation of normal scores smaller, of counts (C,) of values.

    That is the deviation of the normal variable's means within each value (Pearson 1913), over
    those of as many rows that are all different.
    """
    rows = int(max(1.0, min(counts.sum(), CODES)))

    def deviation(shares: np.ndarray) -> float:
        ends = ndtri(np.clip(np.append(0.0, np.cumsum(shares)), 0.0, 1.0))
        within = -np.diff(np.exp(-0.5 * ends**2)) / math.sqrt(2.0 * math.pi)
        return float(np.sqrt(np.sum(within**2 / shares)))

    there = counts[counts > 0.0] / max(counts.sum(), 1.0)
    if len(there) < 2:
        return 1.0
    return min(1.0, deviation(there) / deviation(np.full(rows, 1.0 / rows)))


def _frequent(counts: np.ndarray) -> tuple[int, np.ndarray]:
    """The most frequent code, and the next ones that are not too rare."""
    least = LEAST_SHARE * counts.sum()
    order = np.argsort(-counts, kind="stable")
    next_ones = order[1 : min(1 + INDICATORS, np.count_nonzero(counts))]
    return int(order[0]), np.asarray(next_ones[counts[next_ones] >= least])


def _standard(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Values (C, f) of codes with mean 0 and variance 1 over the rows."""
    total = max(counts.sum(), 1.0)
    apart = values - counts @ values / total
    deviation = np.sqrt(counts @ apart**2 / total)
    return np.asarray(apart / np.where(deviation > 0.0, deviation, 1.0))
