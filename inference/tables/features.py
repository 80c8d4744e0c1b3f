"""What rows are in how columns go together: a few numbers of mean 0 and variance 1 a column.

They are normal scores and their squares of numbers, points on a circle of hours, and indicators of
frequent levels. A row's are looked up by its codes, so that a million rows take no more memory.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import norm

from .aspects import MISSING, Aspect

#: Levels of a column that have an indicator.
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
        ends: (f, 2), what the indicator of a level is without it and with it; NaN of scores.
        rows: of the first table.
    """

    codes: list[np.ndarray]
    values: list[np.ndarray]
    weights: np.ndarray
    names: list[str]
    ends: np.ndarray
    rows: int

    @property
    def holed(self) -> list[int]:
        """Which of ``codes`` some rows have none of."""
        return [index for index, codes in enumerate(self.codes) if (codes < 0).any()]

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
        return np.asarray(self.weights == 0.0)

    def at(self, rows: np.ndarray) -> np.ndarray:
        """The features (r, f) of rows (r,)."""
        table = (rows >= self.rows).astype(np.intp)
        return np.concatenate(
            [of[table, codes[rows]] for codes, of in zip(self.codes, self.values, strict=True)],
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
        apart: scores by the ranks in each table, which say how columns go together whatever became
            of each alone; by default ranks are those in both.
    """
    codes, values, names, counts_for, ends = [], [], [], [], []
    tables = (slice(None, rows), slice(rows, None)) if apart else (slice(None), slice(None))
    for aspect in parts:
        if aspect.holds is not None:
            continue
        called = f"{aspect.what} of {name}" if aspect.what else name
        if aspect.points is None:
            counts = _counts(aspect, weights, slice(None))
            chosen = _frequent(counts)
            if aspect.what == MISSING and len(chosen):
                chosen = np.array([aspect.levels.index(MISSING)])
            new = [_standard(np.arange(aspect.size)[:, None] == chosen, counts)] * 2
            ends.append(np.stack([new[0].min(axis=0), new[0].max(axis=0)], axis=1))
            levels = [aspect.levels[one] for one in chosen]
            told = [f"{name} missing" if one == MISSING else f"{called} = {one}" for one in levels]
        else:
            new = [_scores(aspect.points, _counts(aspect, weights, table)) for table in tables]
            told = [called, called if aspect.points.shape[1] == 2 else f"{called}, squared"]
            ends.append(np.full((2, 2), np.nan))
        if not told:
            continue
        codes.append(aspect.codes)
        values.append(np.stack([np.append(one, np.zeros_like(one[:1]), axis=0) for one in new]))
        names += told
        # Squares of scores count as a feature, and not in distances.
        if aspect.points is not None and aspect.points.shape[1] == 1:
            counts_for += [1.0, 0.0]
        else:
            counts_for += [1.0 / len(told)] * len(told)
    if not codes:
        return None
    weighed = np.array(counts_for) / sum(counts_for)
    return Features(codes, values, weighed, names, np.concatenate(ends), rows)


def _counts(aspect: Aspect, weights: np.ndarray, table: slice) -> np.ndarray:
    """How many rows of a table have each code, (C,)."""
    codes = aspect.codes[table]
    there = codes >= 0
    return np.bincount(codes[there], weights=weights[table][there], minlength=aspect.size)


def _scores(points: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Normal scores of points on a line and their squares, or both coordinates of a circle."""
    if points.shape[1] == 2:
        return _standard(points, counts)
    rank = (np.cumsum(counts) - 0.5 * counts) / max(counts.sum(), 1.0)
    scores = norm.ppf(np.where(counts > 0, rank, 0.5))
    return _standard(np.stack([scores, scores**2], axis=1), counts)


def _frequent(counts: np.ndarray) -> np.ndarray:
    """The most frequent codes, but for one that the others tell."""
    least = LEAST_SHARE * counts.sum()
    order = np.argsort(-counts, kind="stable")
    most = order[: min(INDICATORS, np.count_nonzero(counts) - 1)]
    return np.asarray(most[(counts[most] >= least) & (counts[most] <= counts.sum() - least)])


def _standard(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Values (C, f) of codes with mean 0 and variance 1 over the rows."""
    total = max(counts.sum(), 1.0)
    apart = values - counts @ values / total
    deviation = np.sqrt(counts @ apart**2 / total)
    return np.asarray(apart / np.where(deviation > 0.0, deviation, 1.0))
