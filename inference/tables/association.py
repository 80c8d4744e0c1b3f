"""How strongly two features go together, whatever became of each alone.

Of scores it is their correlation, told by its Fisher transform, whose standard error hardly hangs
on the marginal distributions (Fisher 1921). A correlation with an indicator of a level moves with
the share of the level alone, so that of an indicator and a score it is the difference of the means
in standard deviations within (Cohen 1988), and of two indicators the log odds ratio, which no
shares move (Woolf 1955, with the half of Haldane 1956). Only rows count that have both values.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

Measure = Literal["correlation", "difference", "odds ratio"]
#: A variance below this is 0, and a correlation closer to 1 than this is 1.
NEARLY_NONE = 1e-9


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


class Central(NamedTuple):
    """Means, variances and the covariance of features, (f, g, ...) each."""

    rows: np.ndarray
    one: np.ndarray
    other: np.ndarray
    one_variance: np.ndarray
    other_variance: np.ndarray
    covariance: np.ndarray

    @classmethod
    def of(cls, sums: Sums) -> Central:
        """Take sums about the means."""
        rows = np.maximum(sums.rows, 1.0)
        one, other = sums.one / rows, sums.other / rows
        first = np.maximum(sums.one_squared / rows - one**2, 0.0)
        second = np.maximum(sums.other_squared / rows - other**2, 0.0)
        return cls(rows, one, other, first, second, sums.product / rows - one * other)

    @property
    def defined(self) -> np.ndarray:
        """Whether both features vary."""
        least = np.minimum(self.one_variance, self.other_variance)
        return np.asarray(least > NEARLY_NONE)


def strength(sums: Sums, ends: tuple[np.ndarray, np.ndarray]) -> Strength:
    """Evaluate how strongly every feature of one column goes with every one of another.

    Args:
        sums: over a table.
        ends: what an indicator is without and with its level, (f, 2) and (g, 2); NaN of scores.
    """
    levels = [~np.isnan(of[:, 0]) for of in ends]
    found = [np.zeros(sums.product.shape), np.ones(sums.product.shape)]
    found.append(np.zeros(sums.product.shape, dtype=bool))
    for one in (False, True):
        for other in (False, True):
            chosen = (np.flatnonzero(levels[0] == one), np.flatnonzero(levels[1] == other))
            if not len(chosen[0]) or not len(chosen[1]):
                continue
            some = sums.some(*chosen)
            of = [end[rows] for end, rows in zip(ends, chosen, strict=True)]
            if one and other:
                parts = _odds(some, *of)
            elif other:
                parts = Strength(*(np.swapaxes(x, 0, 1) for x in _apart(some.swapped(), of[1])))
            else:
                parts = _apart(some, of[0]) if one else _correlation(some)
            for whole, part in zip(found, parts, strict=True):
                whole[np.ix_(*chosen)] = part
    return Strength(*found)


def measure(ends: tuple[np.ndarray, np.ndarray]) -> Measure:
    """Which measure it is of one feature and another, by their ``ends`` (2,)."""
    levels = sum(not np.isnan(of[0]) for of in ends)
    of_levels: tuple[Measure, ...] = ("correlation", "difference", "odds ratio")
    return of_levels[levels]


def natural(value: float, which: Measure) -> float:
    """A measure as people know it: a correlation, a difference, odds over odds."""
    if which == "difference":
        return value
    return float(np.tanh(value) if which == "correlation" else np.exp(value))


def _correlation(sums: Sums) -> Strength:
    """The Fisher transform of the correlation of scores."""
    central = Central.of(sums)
    defined = central.defined
    scale = np.sqrt(central.one_variance * central.other_variance)
    zero = np.zeros(central.covariance.shape)
    found = np.divide(central.covariance, scale, out=zero, where=defined)
    bound = 1.0 - NEARLY_NONE
    value = np.arctanh(np.clip(found, -bound, bound))
    return Strength(value, 1.0 / np.maximum(central.rows - 3.0, 1.0), defined)


def _share(mean: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The share of a level, by the mean of its indicator."""
    low, high = (ends[:, side].reshape(-1, *[1] * (mean.ndim - 1)) for side in (0, 1))
    return np.asarray(np.clip((mean - low) / (high - low), 0.0, 1.0))


def _apart(sums: Sums, ends: np.ndarray) -> Strength:
    """By how many deviations within a score's mean is higher with a level than without it."""
    central = Central.of(sums)
    defined, share = central.defined, _share(central.one, ends)
    between = np.where(defined, share * (1.0 - share), 0.25)
    span = (ends[:, 1] - ends[:, 0]).reshape(-1, *[1] * (share.ndim - 1))
    apart = central.covariance / span / between
    within = central.other_variance - between * apart**2
    value = apart / np.sqrt(np.maximum(within, NEARLY_NONE))
    # Of two means, and of the deviation within (Hedges and Olkin 1985).
    variance = (1.0 / between + 0.5 * value**2) / central.rows
    return Strength(value, variance, defined)


def _odds(sums: Sums, ends: np.ndarray, others: np.ndarray) -> Strength:
    """The log of the odds ratio of two levels."""
    central = Central.of(sums)
    one = _share(central.one, ends)
    other = np.swapaxes(_share(np.swapaxes(central.other, 0, 1), others), 0, 1)
    spans = np.multiply.outer(ends[:, 1] - ends[:, 0], others[:, 1] - others[:, 0])
    spans = spans.reshape(*spans.shape, *[1] * (central.covariance.ndim - 2))
    both = one * other + central.covariance / spans
    cells = [
        np.maximum(central.rows * part, 0.0) + 0.5
        for part in (both, one - both, other - both, 1.0 - one - other + both)
    ]
    value = np.log(cells[0]) + np.log(cells[3]) - np.log(cells[1]) - np.log(cells[2])
    return Strength(value, np.sum([1.0 / cell for cell in cells], axis=0), central.defined)
