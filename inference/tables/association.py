"""How strongly two features go together, as far as it does not hang on what each is alone.

Of scores it is their correlation, told by its Fisher transform, whose standard error hardly hangs
on the marginal distributions (Fisher 1921), as it would be without ties: where many values are one
it is smaller by a factor that is known for normal variables (Pearson 1913). A correlation with an
indicator of a level moves with the share of that level alone, and one with all others moves with
theirs; so that a level is held against one other, its reference: of it and a score by the
difference of their means in standard deviations within (Cohen 1988), which shares move where levels
differ in spread; and of two levels by the log odds ratio, which no shares move (Woolf 1955, with
the half of Haldane 1956). Only rows count that have both values.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

Measure = Literal["correlation", "difference", "odds ratio"]
#: A variance below this is 0, and a correlation beyond this is as it: rounding makes such of ones.
NEARLY_NONE, LARGEST = 1e-9, 0.9995


class Side(NamedTuple):
    """What the features (f,) of a column are.

    Attributes:
        ends: (f, 2), what an indicator is without and with its level; NaN of scores.
        aspect: (f,), of what of the column they are: levels of one exclude each other.
        reference: (f,), the index of the level that a level is held against; -1 where that has no
            indicator, and is of all rows that have none. A level may be its own, which tells
            nothing.
    """

    ends: np.ndarray
    aspect: np.ndarray
    reference: np.ndarray

    @property
    def levels(self) -> np.ndarray:
        """Which features are indicators of levels."""
        return ~np.isnan(self.ends[:, 0])

    def some(self, chosen: np.ndarray) -> Side:
        """Those of features (f',), among which every reference is."""
        place = np.full(len(self.ends) + 1, -1)
        place[chosen] = np.arange(len(chosen))
        return Side(self.ends[chosen], self.aspect[chosen], place[self.reference[chosen]])

    def of_level(self, sums: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Sums (f, ...) of indicators, by those of features and those without them (., ...)."""
        low, high = (self.ends[:, end].reshape(-1, *[1] * (sums.ndim - 1)) for end in (0, 1))
        return np.asarray((sums - low * rows) / (high - low))

    def of_others(self, sums: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Sums (f, ...) over rows with none of an aspect's levels, by those with each."""
        same = (self.aspect[:, None] == self.aspect).astype(float)
        return np.asarray(rows - np.tensordot(same, sums, axes=1))

    def of_reference(self, sums: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Sums (f, ...) over rows with the level that each is held against."""
        none = (self.reference < 0).reshape(-1, *[1] * (sums.ndim - 1))
        return np.where(none, self.of_others(sums, rows), sums[self.reference])


class Sums(NamedTuple):
    """Sums over the rows of a table that have both of two columns, (f, g, ...) each or so shaped.

    Attributes:
        rows: how many there are.
        one: of the first column's features.
        one_squared: of their squares.
        other: of the second column's.
        other_squared: of their squares.
        product: of products of both.
    """

    rows: np.ndarray
    one: np.ndarray
    one_squared: np.ndarray
    other: np.ndarray
    other_squared: np.ndarray
    product: np.ndarray

    def some(self, one: np.ndarray, other: np.ndarray) -> Sums:
        """Those of some features (f',) and (g',) of both."""
        shape = self.product.shape
        whole = (np.broadcast_to(part, shape) for part in self)
        return Sums(*(part[np.ix_(one, other)] for part in whole))

    def swapped(self) -> Sums:
        """Those of the second column and the first."""
        rows, one, one_squared, other, other_squared, product = (
            np.swapaxes(part, 0, 1) for part in self
        )
        return Sums(rows, other, other_squared, one, one_squared, product)


class Strength(NamedTuple):
    """How strongly features go together, (f, g, ...) each.

    Attributes:
        value: on a scale on which errors are normal.
        variance: of its error.
        defined: whether both vary.
    """

    value: np.ndarray
    variance: np.ndarray
    defined: np.ndarray


def strength(
    sums: Sums, one: Side, other: Side, ties: tuple[np.ndarray, np.ndarray] | None = None
) -> Strength:
    """Evaluate how strongly every feature of one column goes with every one of another.

    Args:
        sums: over a table.
        one: what the features of the one column are.
        other: and those of the other.
        ties: (f, ...) and (g, ...), by what factors ties make correlations smaller; by default 1.
    """
    factor = np.ones(sums.product.shape)
    if ties is not None:
        factor = np.broadcast_to(ties[0][:, None] * ties[1][None], sums.product.shape)
    found = Strength(
        np.zeros(sums.product.shape),
        np.ones(sums.product.shape),
        np.zeros(sums.product.shape, dtype=bool),
    )
    for first in (False, True):
        for second in (False, True):
            mine = np.flatnonzero(one.levels == first)
            theirs = np.flatnonzero(other.levels == second)
            if not len(mine) or not len(theirs):
                continue
            some, left, right = sums.some(mine, theirs), one.some(mine), other.some(theirs)
            if first and second:
                parts = _odds(some, left, right)
            elif second:
                swapped = _apart(some.swapped(), right)
                parts = Strength(*(np.swapaxes(part, 0, 1) for part in swapped))
            else:
                parts = (
                    _apart(some, left)
                    if first
                    else _correlation(some, factor[np.ix_(mine, theirs)])
                )
            for whole, part in zip(found, parts, strict=True):
                whole[np.ix_(mine, theirs)] = part
    return found


def measure(levels: tuple[bool, bool]) -> Measure:
    """Which measure it is of one feature and another, by whether they are levels."""
    of_levels: tuple[Measure, ...] = ("correlation", "difference", "odds ratio")
    return of_levels[sum(levels)]


def natural(value: float, which: Measure) -> float:
    """A measure as people know it: a correlation, a difference, odds over odds."""
    if which == "difference":
        return value
    return float(np.tanh(value) if which == "correlation" else np.exp(value))


def _variance(sums: np.ndarray, squared: np.ndarray, rows: np.ndarray) -> np.ndarray:
    return np.maximum(squared / rows - (sums / rows) ** 2, 0.0)


def _correlation(sums: Sums, factor: np.ndarray) -> Strength:
    """The Fisher transform of the correlation of scores over the factor that is ties'."""
    rows = np.maximum(sums.rows, 1.0)
    first = _variance(sums.one, sums.one_squared, rows)
    second = _variance(sums.other, sums.other_squared, rows)
    defined = np.asarray(np.minimum(first, second) > NEARLY_NONE)
    covariance = sums.product / rows - sums.one / rows * (sums.other / rows)
    zero = np.zeros(covariance.shape)
    found = np.divide(covariance, np.sqrt(first * second), out=zero, where=defined)
    untied = np.clip(found / factor, -LARGEST, LARGEST)
    # Whose error is that of the correlation over the factor (delta method), 1 without ties.
    slope = (1.0 - np.clip(found, -LARGEST, LARGEST) ** 2) / factor / (1.0 - untied**2)
    return Strength(np.arctanh(untied), slope**2 / np.maximum(rows - 3.0, 1.0), defined)


def _apart(sums: Sums, levels: Side) -> Strength:
    """By how many deviations within a score's mean is higher with a level than its reference."""
    with_level = levels.of_level(sums.one, sums.rows)
    score = levels.of_level(sums.product, sums.other)
    reference = levels.of_reference(with_level, sums.rows)
    others = levels.of_others(with_level, sums.rows)
    remain = levels.of_others(score, sums.other)
    known = [np.maximum(part, NEARLY_NONE) for part in (with_level, reference, others)]
    apart = score / known[0] - levels.of_reference(score, sums.other) / known[1]
    between = np.where(others > NEARLY_NONE, remain**2 / known[2], 0.0)
    same = (levels.aspect[:, None] == levels.aspect).astype(float)
    between += np.tensordot(same, score**2 / known[0], axes=1)
    rows = np.maximum(sums.rows, 1.0)
    within = np.maximum((sums.other_squared - between) / rows, NEARLY_NONE)
    value = apart / np.sqrt(within)
    # Of two means, and of the deviation within (Hedges and Olkin 1985).
    variance = 1.0 / known[0] + 1.0 / known[1] + 0.5 * value**2 / rows
    varies = _variance(sums.other, sums.other_squared, rows) > NEARLY_NONE
    defined = varies & (np.minimum(with_level, reference) > NEARLY_NONE * rows)
    return Strength(value, variance, defined)


def _odds(sums: Sums, one: Side, other: Side) -> Strength:
    """The log of the odds ratio of two levels and their references."""

    def theirs(found: np.ndarray, without: np.ndarray, what: str) -> np.ndarray:
        """What ``other`` makes of sums (f, g, ...), and of those without its levels."""
        parts = (np.swapaxes(np.broadcast_to(part, shape), 0, 1) for part in (found, without))
        return np.swapaxes(getattr(other, what)(*parts), 0, 1)

    shape = sums.product.shape
    rows = np.broadcast_to(sums.rows, shape)
    own = one.of_level(np.broadcast_to(sums.one, shape), rows)
    second = theirs(np.broadcast_to(sums.other, shape), rows, "of_level")
    both = theirs(one.of_level(sums.product, np.broadcast_to(sums.other, shape)), own, "of_level")
    # The reference of one with a level of the other, the other way round, and both references.
    without, only = one.of_reference(both, second), theirs(both, own, "of_reference")
    neither = one.of_reference(only, theirs(second, rows, "of_reference"))
    cells = [np.maximum(part, 0.0) + 0.5 for part in (both, neither, only, without)]
    value = np.log(cells[0]) + np.log(cells[1]) - np.log(cells[2]) - np.log(cells[3])
    mine = np.minimum(both + only, neither + without)
    seen = np.minimum(mine, np.minimum(both + without, neither + only))
    return Strength(
        value, np.sum([1.0 / cell for cell in cells], axis=0), seen > NEARLY_NONE * rows
    )
