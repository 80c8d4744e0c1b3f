"""Two samples as pooled rows with relabellings: dealt out anew, or swapped within pairs.

What the points are hangs on the pooled rows alone, so that permutation tests on them are exact,
whatever a cell leaves out.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from ..data.canonical import canonical_order
from .bins import bin_size, cut
from .deal import Deal
from .halves import Halves
from .pair import Pair
from .relabelled import Relabelled, equal_rows

#: Points beyond which rows of one or two columns become cells, and how many these are.
MOST_POINTS = 2**13
#: Columns in which so many cells are small beside what so many rows can tell.
CELL_COLUMNS = 2
#: Points in more columns up to which each row is dealt out by itself.
MOST_SINGLE = 2**14
#: Labels of single rows that are drawn at once; beyond, those of cells are drawn themselves.
MOST_LABELS = 2**28
#: Quantiles that tell how wide a column is.
TAILS = np.array([0.01, 0.1, 0.25])


def relabelled(
    pair: Pair, permutations: int, rng: np.random.Generator, unit: np.ndarray | None = None
) -> Relabelled:
    """Pool two samples, their columns in standard deviations, and relabel them.

    Args:
        pair: the samples.
        permutations: B.
        rng: of the relabellings.
        unit: what columns (D,) are divided by; by default how wide each is.
    """
    unit = unit_of_rows(pair.pooled[pair.chosen]) if unit is None else unit
    size = bin_size(len(pair.pooled), min(pair.sizes))
    columns = pair.pooled.shape[1]
    wide = pair.many and size > 1 and columns > CELL_COLUMNS
    if wide and not pair.of_kinds(MOST_SINGLE):
        return _of_deal(pair, size, permutations, rng, unit)
    rows = pair.points
    of_first = (np.arange(len(rows)) < len(pair.first))[pair.order]
    cells, means = _many_cells(pair, unit) if pair.many else cells_of(rows, unit)
    if len(means) > MOST_SINGLE and size > 1:
        # Dealt as if Q were the first where labels are: no p-value hangs on which one is named.
        of_first ^= pair.turned
        shuffled = np.lexsort((~of_first, cells))[rng.permutation(len(rows))]
        cut_into = cut((~of_first).astype(int), size, shuffled)
        labels = _labels(of_first[cut_into.row], cut_into.rest, permutations, rng) ^ pair.turned
        ones = np.ones(len(rows), dtype=int)
        return Relabelled(rows / unit, ones, labels, unit, bins=cut_into.of_row)
    counts = np.bincount(cells, minlength=len(means))
    observed = np.bincount(cells, weights=of_first, minlength=len(means))
    return in_cells(means, counts, observed, unit, permutations, rng, turned=pair.turned)


def _of_deal(
    pair: Pair, size: int, permutations: int, rng: np.random.Generator, unit: np.ndarray
) -> Relabelled:
    """Deal many rows out in bins of a size, as they came: their order is of no importance."""
    deal = Deal(pair.sizes, pair.turned, size, int(rng.integers(2**63)))
    labels, bins = dealt_out(deal, permutations, rng), _bins(deal, pair)
    ones = np.ones(len(bins), dtype=int)
    return Relabelled(pair.pooled / unit, ones, labels, unit, bins=bins, part=pair.chosen)


def in_cells(
    means: np.ndarray,
    counts: np.ndarray,
    observed: np.ndarray,
    unit: np.ndarray,
    permutations: int,
    rng: np.random.Generator,
    *,
    turned: bool,
) -> Relabelled:
    """Deal out rows that are counted at points.

    Args:
        means: the points (C, D), scaled.
        counts: (C,), rows at each.
        observed: (C,), those of the first sample.
        unit: (D,), of the points.
        permutations: B.
        rng: of the relabellings.
        turned: deal as if the second sample were the first.
    """
    first = int(observed.sum())
    size = int(counts.sum()) - first if turned else first
    dealt = _dealt(counts, size, permutations, rng)
    if turned:
        dealt = counts[:, None].astype(dealt.dtype) - dealt
    labels = np.concatenate([observed[:, None].astype(dealt.dtype), dealt], axis=1)
    return Relabelled(means, counts, labels, unit)


def dealt_out(deal: Deal, permutations: int, rng: np.random.Generator) -> np.ndarray:
    """Labels (M, 1 + B) of the bins of a deal, of which those that are not full keep theirs."""
    rest = deal.sizes_of_bins < deal.size
    return _labels(deal.of_first, rest, permutations, rng) ^ deal.turned


def _bins(deal: Deal, pair: Pair) -> np.ndarray:
    """The bin (m + n,) of every row of both samples, one below the other."""
    return np.concatenate(
        [deal.start(sample) + deal.within(sample, pair.places[sample]) for sample in (0, 1)]
    )


def _many_cells(pair: Pair, unit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """As :func:`cells_of`, in an order and by halves and means that a part of the rows tells."""
    rows = pair.points
    cells = equal_rows(rows)
    count = int(cells[-1]) + 1
    if count > MOST_POINTS and rows.shape[1] <= CELL_COLUMNS:
        chosen = pair.pooled[pair.chosen] / unit
        halves = Halves.of(chosen, MOST_POINTS)
        return halves.cells(rows / unit), means_in(halves, chosen)
    kinds = rows[np.flatnonzero(np.diff(cells, prepend=-1))]
    order = canonical_order(kinds) if count <= MOST_SINGLE else np.arange(count)
    return np.argsort(order)[cells], kinds[order] / unit


def means_in(halves: Halves, points: np.ndarray) -> np.ndarray:
    """The mean (C, D) of the points (N, D) in each cell, of which none is empty."""
    return _means(halves.cells(points), points, halves.number)


def _means(cells: np.ndarray, points: np.ndarray, count: int) -> np.ndarray:
    sums = [np.bincount(cells, weights=column, minlength=count) for column in points.T]
    return np.asarray(np.stack(sums, axis=1) / np.bincount(cells, minlength=count)[:, None])


def _labels(
    of_first: np.ndarray, kept: np.ndarray, permutations: int, rng: np.random.Generator
) -> np.ndarray:
    """Labels (M, 1 + B) of bins that are dealt out anew, but for those ``kept`` as they are."""
    labels = np.tile(of_first.astype(np.int8), (1 + permutations, 1))
    labels[1:, ~kept] = rng.permuted(labels[1:, ~kept], axis=1)
    return np.ascontiguousarray(labels.T)


def swapped(
    pair: Pair, permutations: int, rng: np.random.Generator, unit: np.ndarray | None = None
) -> Relabelled:
    """Pool two samples whose rows belong together in pairs, and swap the labels of pairs.

    Args:
        pair: the samples, of one size.
        permutations: B.
        rng: of the swaps.
        unit: as of :func:`relabelled`.
    """
    pair.check_one_size("paired")
    labelled = pair.swapped(permutations, rng)
    unit = unit_of_rows(pair.pooled[pair.chosen]) if unit is None else unit
    order = canonical_order(labelled.rows)
    partners = np.argsort(order).reshape(2, -1).T  # rows i and m + i
    points, ones = labelled.rows[order] / unit, np.ones(len(order), dtype=int)
    return Relabelled(points, ones, labelled.labels[order].astype(np.int8), unit, partners)


def width(deviation: np.ndarray, quantiles: np.ndarray) -> np.ndarray:
    """How wide every column (D,) is: its standard deviation, 1 of one that is constant.

    Of one with outliers or heavy tails that of the normal distribution whose quantiles are as far
    apart, the farthest of three pairs.

    Args:
        deviation: (D,), the standard deviations.
        quantiles: (2, 3, D), at :data:`TAILS` and as far from 1.
    """
    low, high = quantiles
    normal = np.max((high - low) / (-2.0 * ndtri(TAILS))[:, None], axis=0)
    unit = np.where(normal > 0.0, np.minimum(deviation, normal), deviation)
    return np.where(unit > 0.0, unit, 1.0)


def unit_of_rows(points: np.ndarray) -> np.ndarray:
    """The width (D,) of every column of rows (N, D)."""
    return width(points.std(axis=0), np.quantile(points, [TAILS, 1.0 - TAILS], axis=0))


def cells_of(rows: np.ndarray, unit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The point (N,) that every sorted row (N, D) is counted at, and these points (C, D), scaled.

    Equal rows are one, or those of a cell, which is at their mean.
    """
    points, cells = rows / unit, equal_rows(rows)
    if cells[-1] >= MOST_POINTS and rows.shape[1] <= CELL_COLUMNS:
        cells = Halves.of(points, MOST_POINTS).cells(points)
        return cells, _means(cells, points, int(cells.max()) + 1)
    # No mean: it is rounded, by which equal values of different rows would not be equal any more.
    return cells, points[np.flatnonzero(np.diff(cells, prepend=-1))]


def _dealt(
    counts: np.ndarray, size: int, permutations: int, rng: np.random.Generator
) -> np.ndarray:
    """How many rows at each point are in the first sample, for every relabelling, (C, B).

    Exactly so distributed, whether single labels are dealt out or their numbers at each point.
    """
    if counts.sum() * permutations > MOST_LABELS and len(counts) < counts.sum():
        drawn = rng.multivariate_hypergeometric(counts, size, permutations, method="marginals")
        return np.asarray(drawn.T)
    labels = np.zeros((permutations, counts.sum()), dtype=np.int8)
    labels[:, :size] = 1
    rng.permuted(labels, axis=1, out=labels)
    if len(counts) == counts.sum():
        return labels.T
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    return np.add.reduceat(labels, starts, axis=1, dtype=np.int32).T
