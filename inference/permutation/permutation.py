"""Permutation nulls: all relabellings of a pooled sample in one matrix product.

A statistic of B relabellings and of the labels as they are is one row of 1 + B numbers, the
observed one first. Under P = Q its columns are exchangeable over the draw of the relabellings, and
stay so under anything that treats all columns alike: that is what makes the tests exact, whatever
was learned from the pooled sample.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from threading import Event
from typing import NamedTuple

import numpy as np

from ..core.errors import InputError
from ..core.machine import cores, side_by_side

#: Bytes of a batch of columns with its product, per core.
BATCH_BYTES = 2**27
#: Less than this in all is done sooner than threads start.
SMALL_BYTES = 2**20
#: A permuted value this little below the observed one, relative to the spread, is its equal: the
#: same relabelling gives values that differ by rounding.
TIE = 1e-9
#: What is smaller than this, over the entries that it was computed from, is rounding.
RESOLUTION = 1e-13
NOT_FINITE = (
    "the test statistic is not a finite number: values of the data are too large or too small; "
    "leave out outliers, or divide each column by its largest value"
)
#: Parts of the permutations that are left out in turn.
PARTS = 10


def relabellings(sizes: tuple[int, int], count: int, rng: np.random.Generator) -> np.ndarray:
    """Label rows as of the first sample or not, (N, 1 + count) of bool; at first as they are.

    The other columns are drawn uniformly from all ways to choose as many rows.
    """
    first, total = sizes[0], sum(sizes)
    # Column by column in memory, as they are drawn: several times faster.
    columns = np.zeros((1 + count, total), dtype=bool)
    columns[:, :first] = True
    rng.permuted(columns[1:], axis=1, out=columns[1:])
    return columns.T


def pair_swaps(size: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Label pairs, rows i and size + i: the two of a pair change places or do not."""
    swapped = rng.integers(2, size=(size, count), dtype=np.int8).astype(bool)
    observed = np.ones((size, 1), dtype=bool)
    upper = np.concatenate([observed, ~swapped], axis=1)
    return np.concatenate([upper, ~upper])


def in_batches(one: Callable[[slice], np.ndarray], count: int, bytes_each: int) -> np.ndarray:
    """Work on slices of ``count`` columns on all cores, and join them along the last axis.

    Args:
        one: of a slice.
        count: how many columns there are.
        bytes_each: memory that one column needs.
    """
    most = max(1, BATCH_BYTES // bytes_each)
    small = count * bytes_each < SMALL_BYTES
    parts = 1 if small else max(cores(), -(-count // most))
    edges = np.linspace(0, count, min(parts, count) + 1).astype(int)
    slices = [slice(a, b) for a, b in itertools.pairwise(edges)]
    results = side_by_side(lambda index: one(slices[index]), len(slices), Event())
    return np.concatenate(results, axis=-1)


def standardised(rows: np.ndarray, *, centred: bool = False, alone: int = 0) -> np.ndarray:
    """Standardise every row (..., 1 + B) by its mean and deviation over all columns alike.

    A row that is constant, of a kernel that tells no two relabellings apart, becomes zero.

    Args:
        rows: see above.
        centred: their mean is known to be zero.
        alone: so many of the first columns come one at a time, see :func:`with_each`.
    """
    others = rows[..., alone:]
    mean = np.zeros_like(others[..., :1]) if centred else others.mean(axis=-1, keepdims=True)
    deviation = np.sqrt(np.mean(np.square(others - mean), axis=-1, keepdims=True))
    if alone:
        found = Moments(mean, deviation, np.zeros_like(mean))
        mean, deviation, _ = with_each(rows, found, alone, centred=centred)
    flat = deviation <= TIE * np.abs(rows).max(axis=-1, keepdims=True)
    return np.where(flat, 0.0, (rows - mean) / np.where(flat, 1.0, deviation))


class Moments(NamedTuple):
    """Moments of rows of statistics: of all columns of a row, (..., 1), or of each its own."""

    mean: np.ndarray
    deviation: np.ndarray
    skewness: np.ndarray


def with_each(rows: np.ndarray, others: Moments, alone: int, *, centred: bool = False) -> Moments:
    """Moments by which each of the first columns is held against the others, without one another.

    As if each were tested by itself among the same relabellings, but for one thing: what it adds to
    the moments by which the others are told is left out, so that these are told once for all.

    Args:
        rows: statistics (..., C).
        others: moments of those that are not ``alone``.
        alone: how many of the first columns come one at a time.
        centred: the mean is known to be zero.

    Returns:
        Moments (..., C): of each of the first columns, of itself with the others; of the others,
        theirs.
    """
    count = rows.shape[-1] - alone
    apart = rows[..., :alone] - others.mean
    step = np.zeros_like(apart) if centred else apart / (count + 1)
    square = (count * others.deviation**2 + apart**2) / (count + 1)
    cube = (count * others.skewness * others.deviation**3 + apart**3) / (count + 1)
    variance = np.maximum(square - step**2, 0.0)
    deviation = np.sqrt(variance)
    third = cube - 3.0 * step * square + 2.0 * step**3
    skewness = third / np.where(variance > 0.0, variance * deviation, 1.0)
    first = Moments(others.mean + step, deviation, skewness)
    shape = (*rows.shape[:-1], count)
    both = [(one, np.broadcast_to(rest, shape)) for one, rest in zip(first, others, strict=True)]
    return Moments(*(np.concatenate(pair, axis=-1) for pair in both))


def without_rounding(row: np.ndarray, magnitude: float) -> np.ndarray:
    """Make a row of statistics constant where it varies by no more than rounding.

    Else that rounding would decide which permutations exceed the observed value.

    Args:
        row: (1 + B,).
        magnitude: of the numbers whose differences the statistics are.
    """
    if np.ptp(row) <= RESOLUTION * magnitude:
        return np.full_like(row, row.mean())
    return row


def exceedances(row: np.ndarray) -> np.ndarray:
    """Count for every column of (1 + B,) how many, itself and ties with them, are as large.

    Raises:
        InputError: a value is not finite, which cannot be compared with others.
    """
    if not np.isfinite(row).all():
        raise InputError(NOT_FINITE)
    tolerance = TIE * (row.std() or 1.0)
    ordered = np.sort(row)
    return len(row) - np.searchsorted(ordered, row - tolerance, side="left")


def p_in_words(pvalue: float, permutations: int, tests: int = 1) -> str:
    """Tell a p-value, or that it is at most the least that so many permutations can show.

    Args:
        pvalue: of a test, or the least of several, times their number.
        permutations: of each; 0 of a null in closed form.
        tests: how many.
    """
    least = permutations > 0 and pvalue <= tests * (1.0 + TIE) / (1 + permutations)
    return f"p {'≤' if least else '='} {pvalue:.3g}"


def p_alone(pvalue: float, permutations: int) -> str:
    """Tell a p-value where a heading says that it is one."""
    return p_in_words(pvalue, permutations).removeprefix("p ").removeprefix("= ")


def p_with_error(pvalue: float, error: float, permutations: int) -> str:
    """Tell a p-value with the standard error that so many random permutations leave in it."""
    told = p_in_words(pvalue, permutations)
    return told if error == 0.0 or told.startswith("p ≤") else f"{told} ± {error:.1g}"


def p_value(row: np.ndarray) -> float:
    """The p-value (1 + #{permuted >= observed}) / (1 + B) of a row (1 + B,), the observed first."""
    return float(exceedances(row)[0] / len(row))


def share_error(pvalue: float, permutations: int) -> float:
    """The standard error of a share of random permutations, of a statistic that has none of them.

    Zero of a null in closed form, which has none.
    """
    return math.sqrt(pvalue * (1.0 - pvalue) / (1 + permutations)) if permutations else 0.0


def monte_carlo_error(
    statistic: Callable[[np.ndarray], np.ndarray], pvalue: float, labellings: int
) -> float:
    """The standard error of a p-value of which the statistic itself hangs on the permutations.

    Rows that are standardised by their permutations, or told by how surprising they are among them,
    move with the draw of these, which adds to the error of a share. By a jackknife over parts of
    the permutations (Shao and Tu 1995, section 2.3); at least that of a share.

    Args:
        statistic: maps indices (1 + b,) of labellings, 0 the observed one first, to the statistic
            of these alone, (1 + b,).
        pvalue: by all of them.
        labellings: 1 + B.
    """
    every = np.arange(labellings)
    part = (every - 1) % PARTS

    def without(one: int) -> float:
        return p_value(statistic(every[(part != one) | (every == 0)]))

    spread = (PARTS - 1.0) * float(np.var(side_by_side(without, PARTS, Event())))
    return max(math.sqrt(spread), share_error(pvalue, labellings - 1))
