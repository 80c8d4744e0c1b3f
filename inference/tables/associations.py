"""Associations of pairs of columns, and statistics of their changes between two tables.

The association of two encoded features is measured such that it does not depend on their marginal
distributions. A pair of columns is reported only if its association has changed, not if the columns
have changed.

- Two scores: the Fisher transform of their correlation, whose standard error depends very little
  on the marginal distributions (Fisher 1921), corrected for ties by the factor that is known for
  normal variables (Pearson 1913).
- A level and a score: the standardized mean difference between the level and a reference level
  (Cohen 1988). The correlation with an indicator would depend on the frequency of the level. The
  mean difference depends on frequencies too if the levels differ in variance.
- Two levels: the log odds ratio with their reference levels (Woolf 1955, with 1/2 added as in
  Haldane 1956), which does not depend on frequencies.

Squares of scores are compared only in the test of the tables, because they change if values become
tied or skewed. Sums are over rows with both values, and missingness is a feature of its column.
"""

from __future__ import annotations

import itertools
from typing import Literal, NamedTuple

import numpy as np

from .encoding import Coding, EncodedColumn
from .permuted_labels import PermutedLabels

Measure = Literal["correlation", "difference", "odds ratio"]
#: Variances and fractions below this are rounding errors of 0.
ROUNDING = 1e-9
#: Changes of an association below this, in standard errors, are rounding errors of 0, which would
#: decide between permutations if there is no other change.
SMALLEST_CHANGE = 1e-6
#: Largest number of sums of products, over units and pairs of features, in memory.
MAX_PRODUCTS = 50_000_000


class PairSums(NamedTuple):
    """Sums over the rows of a table that have both of two columns, broadcast to (f, g, ...).

    Attributes:
        n: number of rows.
        x: features of the first column.
        x_squared: their squares.
        y: features of the second column.
        y_squared: their squares.
        xy: products of the features.
    """

    n: np.ndarray
    x: np.ndarray
    x_squared: np.ndarray
    y: np.ndarray
    y_squared: np.ndarray
    xy: np.ndarray

    def subset(self, first: np.ndarray, second: np.ndarray) -> PairSums:
        """Select features (f',) of the first and (g',) of the second column."""
        sums = (np.broadcast_to(array, self.xy.shape) for array in self)
        return PairSums(*(array[np.ix_(first, second)] for array in sums))

    def transposed(self) -> PairSums:
        """Exchange the columns."""
        n, x, x_squared, y, y_squared, xy = (np.swapaxes(array, 0, 1) for array in self)
        return PairSums(n, y, y_squared, x, x_squared, xy)


class Association(NamedTuple):
    """Associations of features, (f, g, ...) each.

    Attributes:
        value: association, on a scale with approximately normal errors.
        variance: variance of its error.
        defined: mask of the features that both vary.
    """

    value: np.ndarray
    variance: np.ndarray
    defined: np.ndarray


def association(
    sums: PairSums,
    first: Coding,
    second: Coding,
    tie_factors: tuple[np.ndarray, np.ndarray] | None = None,
) -> Association:
    """Compute the associations of the features of two columns.

    Args:
        sums: sums over the rows of a table.
        first: coding of the first column.
        second: coding of the second column.
        tie_factors: (f, ...) and (g, ...), factors by which ties reduce correlations; 1 by default.
    """
    shape = sums.xy.shape
    factor = np.ones(shape)
    if tie_factors is not None:
        factor = np.broadcast_to(tie_factors[0][:, None] * tie_factors[1][None], shape)
    result = Association(np.zeros(shape), np.ones(shape), np.zeros(shape, dtype=bool))
    for first_levels, second_levels in itertools.product((False, True), repeat=2):
        rows = np.flatnonzero(first.is_level == first_levels)
        columns = np.flatnonzero(second.is_level == second_levels)
        if not len(rows) or not len(columns):
            continue
        block = np.ix_(rows, columns)
        part, left, right = (
            sums.subset(rows, columns),
            first.subset(rows),
            second.subset(columns),
        )
        if first_levels and second_levels:
            values = _log_odds_ratio(part, left, right)
        elif second_levels:
            transposed = _mean_difference(part.transposed(), right)
            values = Association(*(np.swapaxes(array, 0, 1) for array in transposed))
        elif first_levels:
            values = _mean_difference(part, left)
        else:
            values = _correlation(part, factor[block])
        for array, value in zip(result, values, strict=True):
            array[block] = value
    return result


def _variance(sums: np.ndarray, squared: np.ndarray, n: np.ndarray) -> np.ndarray:
    return np.maximum(squared / n - (sums / n) ** 2, 0.0)


def _correlation(sums: PairSums, tie_factor: np.ndarray, largest: float = 0.9995) -> Association:
    """Compute the Fisher transform of the correlation, corrected for ties.

    Args:
        sums: sums over scores.
        tie_factor: (f, g, ...), factor by which ties reduce the correlation.
        largest: absolute value at which correlations are clipped, because rounding can make them 1.
    """
    n = np.maximum(sums.n, 1.0)
    x_variance = _variance(sums.x, sums.x_squared, n)
    y_variance = _variance(sums.y, sums.y_squared, n)
    defined = np.asarray(np.minimum(x_variance, y_variance) > ROUNDING)
    covariance = sums.xy / n - sums.x / n * (sums.y / n)
    zero = np.zeros(covariance.shape)
    observed = np.divide(covariance, np.sqrt(x_variance * y_variance), out=zero, where=defined)
    corrected = np.clip(observed / tie_factor, -largest, largest)
    # Delta method: the error is that of the correlation over the factor, and 1 without ties.
    slope = (1.0 - np.clip(observed, -largest, largest) ** 2) / tie_factor / (1.0 - corrected**2)
    return Association(np.arctanh(corrected), slope**2 / np.maximum(n - 3.0, 1.0), defined)


def _mean_difference(sums: PairSums, levels: Coding) -> Association:
    """Compute the mean difference of scores between levels and references, standardized within."""
    level_n = levels.level_sums(sums.x, sums.n)
    level_score = levels.level_sums(sums.xy, sums.y)
    reference_n = levels.reference_sums(level_n, sums.n)
    remainder_n = levels.remainder_sums(level_n, sums.n)
    remainder_score = levels.remainder_sums(level_score, sums.y)
    positive_n = [np.maximum(part, ROUNDING) for part in (level_n, reference_n, remainder_n)]
    reference_mean = levels.reference_sums(level_score, sums.y) / positive_n[1]
    difference = level_score / positive_n[0] - reference_mean
    between = np.where(remainder_n > ROUNDING, remainder_score**2 / positive_n[2], 0.0)
    same = (levels.source[:, None] == levels.source).astype(float)
    between += np.tensordot(same, level_score**2 / positive_n[0], axes=1)
    n = np.maximum(sums.n, 1.0)
    within = np.maximum((sums.y_squared - between) / n, ROUNDING)
    value = difference / np.sqrt(within)
    # Errors of both means and of the standard deviation (Hedges and Olkin 1985).
    variance = 1.0 / positive_n[0] + 1.0 / positive_n[1] + 0.5 * value**2 / n
    varies = _variance(sums.y, sums.y_squared, n) > ROUNDING
    defined = varies & (np.minimum(level_n, reference_n) > ROUNDING * n)
    return Association(value, variance, defined)


def _log_odds_ratio(sums: PairSums, first: Coding, second: Coding) -> Association:
    """Compute the log odds ratio of two levels and their references."""
    shape = sums.xy.shape

    def second_sums(level: np.ndarray, total: np.ndarray, method: str) -> np.ndarray:
        """Apply a method of the second coding to sums (f, g, ...)."""
        arrays = (np.swapaxes(np.broadcast_to(part, shape), 0, 1) for part in (level, total))
        return np.swapaxes(getattr(second, method)(*arrays), 0, 1)

    n = np.broadcast_to(sums.n, shape)
    first_n = first.level_sums(np.broadcast_to(sums.x, shape), n)
    second_n = second_sums(np.broadcast_to(sums.y, shape), n, "level_sums")
    first_y = first.level_sums(sums.xy, np.broadcast_to(sums.y, shape))
    both = second_sums(first_y, first_n, "level_sums")
    only_second = first.reference_sums(both, second_n)
    only_first = second_sums(both, first_n, "reference_sums")
    second_reference_n = second_sums(second_n, n, "reference_sums")
    neither = first.reference_sums(only_first, second_reference_n)
    counts = [np.maximum(part, 0.0) + 0.5 for part in (both, neither, only_first, only_second)]
    value = np.log(counts[0]) + np.log(counts[1]) - np.log(counts[2]) - np.log(counts[3])
    smallest = np.minimum(
        np.minimum(both + only_first, neither + only_second),
        np.minimum(both + only_second, neither + only_first),
    )
    variance = np.sum([1.0 / count for count in counts], axis=0)
    return Association(value, variance, smallest > ROUNDING * n)


class ColumnLayout:
    """Concatenation of the features of several columns, and of their missing-value masks.

    Attributes:
        columns: encoded columns.
        ends: (K + 1,), index of the first feature of each column.
        mask_ends: (K + 1,), index of the first mask of each column.
        mask_index: (F,), mask of each feature, from 1; 0 if all rows have the feature.
    """

    def __init__(self, columns: list[EncodedColumn]) -> None:
        self.columns = columns
        self.ends = np.cumsum([0, *(len(column.weights) for column in columns)])
        self.mask_ends = np.cumsum([0, *(len(column.incomplete) for column in columns)])
        self.mask_index = np.concatenate(
            [
                np.where(column.mask_index > 0, column.mask_index + start, 0)
                for column, start in zip(columns, self.mask_ends, strict=False)
            ]
        )

    @property
    def widths(self) -> np.ndarray:
        """Number of product sums of each column with a feature, (K,)."""
        return np.diff(self.ends) + 2 * np.diff(self.mask_ends)

    def features(self, rows: np.ndarray, subset: slice = slice(None)) -> np.ndarray:
        """Return the features (r, F) of rows (r,) in a subset of the columns."""
        return np.concatenate([column.at(rows) for column in self.columns[subset]], axis=1)

    def masks(self, rows: np.ndarray, subset: slice = slice(None)) -> np.ndarray:
        """Return the masks (r, H) of rows (r,) in a subset of the columns."""
        return np.concatenate([column.is_known(rows) for column in self.columns[subset]], axis=1)


def feature_sums(
    layout: ColumnLayout, labels: PermutedLabels
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sum features over all rows of each table, for all permutations.

    Returns:
        The sums of features (2, F, 1 + B), of their squares (2, F, 1 + B), and of rows and of masks
        (2, 1 + H, 1 + B).
    """

    def evaluate(rows: np.ndarray) -> np.ndarray:
        features = layout.features(rows)
        ones = np.ones((len(rows), 1))
        return np.concatenate([features, features**2, ones, layout.masks(rows)], axis=1)

    sums, count = _table_sums(labels.unit_sums(evaluate), labels), layout.ends[-1]
    return sums[:, :count], sums[:, count : 2 * count], sums[:, 2 * count :]


class ProductSums:
    """Sums of products of a subset of the columns with all columns, for all permutations.

    Sums over rows with both values are products with masks. Without missing values they are sums
    over all rows.

    Args:
        layout: all columns.
        subset: indices of the first columns of the pairs.
        totals: sums over all rows, see :func:`feature_sums`.
        labels: permuted labels.
    """

    def __init__(
        self,
        layout: ColumnLayout,
        subset: range,
        totals: tuple[np.ndarray, np.ndarray, np.ndarray],
        labels: PermutedLabels,
    ) -> None:
        columns = slice(subset.start, subset.stop)

        def evaluate(rows: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
            x, y = layout.features(rows, columns), layout.features(rows)
            x_mask, y_mask = layout.masks(rows, columns), layout.masks(rows)
            left = np.concatenate([x, x**2, x_mask], axis=1)
            return [(x, y), (left, y_mask), (x_mask, np.hstack([y, y**2]))]

        (start, stop), masks = (
            (ends[subset.start], ends[subset.stop]) for ends in (layout.ends, layout.mask_ends)
        )
        x_features, x_masks = slice(start, stop), slice(1 + masks[0], 1 + masks[1])
        self.xy, left, right = (
            _table_sums(unit_sums, labels) for unit_sums in labels.unit_products(evaluate)
        )
        count = stop - start
        x, x_squared, n = np.split(left, [count, 2 * count], axis=1)
        # Mask 0 has all rows.
        self.x, self.x_squared = (
            np.concatenate([total[:, x_features, None], part], axis=2)
            for total, part in zip(totals[:2], (x, x_squared), strict=True)
        )
        self.y, self.y_squared = (
            np.concatenate([total[:, None], part], axis=1)
            for total, part in zip(totals[:2], np.split(right, 2, axis=2), strict=True)
        )
        n = np.concatenate([totals[2][:, x_masks, None], n], axis=2)
        self.n = np.concatenate([totals[2][:, None], n], axis=1)
        self.layout, self.start, self.mask_start = layout, start, masks[0]

    def pair(self, a: int, b: int, table: int) -> PairSums:
        """Return the sums of columns ``a`` and ``b`` in a table, broadcast to (f, g, 1 + B)."""
        ends, mask_index = self.layout.ends, self.layout.mask_index
        first, second = slice(ends[a], ends[a + 1]), slice(ends[b], ends[b + 1])
        x = slice(first.start - self.start, first.stop - self.start)
        x_mask, y_mask = mask_index[first], mask_index[second]
        x_mask = np.where(x_mask > 0, x_mask - self.mask_start, 0)
        return PairSums(
            n=self.n[table][np.ix_(x_mask, y_mask)],
            x=self.x[table, x][:, y_mask],
            x_squared=self.x_squared[table, x][:, y_mask],
            y=self.y[table][x_mask][:, second],
            y_squared=self.y_squared[table][x_mask][:, second],
            xy=self.xy[table, x, second],
        )


def _table_sums(unit_sums: np.ndarray, labels: PermutedLabels) -> np.ndarray:
    """Add up sums over units (M, ...) to sums over each table, (2, ..., 1 + B)."""
    flat = unit_sums.reshape(len(unit_sums), -1)
    first = labels.first_sums(flat)
    sums = np.stack([first, flat.sum(axis=0)[:, None] - first])
    return sums.reshape(2, *unit_sums.shape[1:], first.shape[1])


class PairChange(NamedTuple):
    """Association of two columns in both tables, for the features with the largest change.

    Attributes:
        columns: names of the columns.
        features: names of the features.
        measure: measure of association.
        strengths: association in the first and in the second table; NaN if a feature is constant. A
            difference is the mean of the second feature for the level that is the first feature,
            minus that for the reference level.
    """

    columns: tuple[str, str]
    features: tuple[str, str]
    measure: Measure
    strengths: tuple[float, float]


class AssociationChanges(NamedTuple):
    """Changes of the associations of all pairs of columns.

    Attributes:
        pairs: observed change of each pair, (p,).
        statistics: (p, 1 + B), largest change over the features of a pair, in standard errors.
    """

    pairs: list[PairChange]
    statistics: np.ndarray


def association_changes(columns: list[EncodedColumn], labels: PermutedLabels) -> AssociationChanges:
    """Compare the associations of all pairs of columns between the tables."""
    pairs: list[PairChange] = []
    statistics: list[np.ndarray] = []
    if len(columns) > 1:
        layout = ColumnLayout(columns)
        totals, origin = feature_sums(layout, labels), _origin(columns[0].n_first, labels)
        for subset in column_batches(layout.widths, len(labels.labels)):
            sums = ProductSums(layout, subset, totals, labels)
            for a in subset:
                for b in range(a + 1, len(columns)):
                    pair, statistic = _pair_change(sums, a, b, origin)
                    pairs.append(pair)
                    statistics.append(statistic)
    return AssociationChanges(pairs, np.array(statistics).reshape(-1, labels.labels.shape[1]))


def column_batches(widths: np.ndarray, n_units: int) -> list[range]:
    """Split columns into ranges whose products with all features fit into memory."""
    ends, n_columns = np.cumsum([0, *widths]), len(widths)
    max_width = max(1, int(MAX_PRODUCTS // (n_units * max(ends[-1], 1))))
    batches, start = [], 0
    while start < n_columns - 1:
        stop = int(np.searchsorted(ends, ends[start] + max_width, side="right")) - 1
        stop = min(max(stop, start + 1), n_columns - 1)
        batches.append(range(start, stop))
        start = stop
    return batches


def _origin(n_first: int, labels: PermutedLabels) -> np.ndarray:
    """Compute the fraction of rows that are observed in the first table, (2, 1 + B)."""
    unit_sums = labels.unit_sums(
        lambda row: np.stack([row < n_first, row >= 0], axis=1).astype(float)
    )
    sums = _table_sums(unit_sums, labels)
    return np.asarray(sums[:, 0] / np.maximum(sums[:, 1], ROUNDING))


def _pair_change(
    sums: ProductSums, a: int, b: int, origin: np.ndarray
) -> tuple[PairChange, np.ndarray]:
    """Return the observed change of a pair, and the largest change in standard errors, (1 + B,)."""
    first, second = sums.layout.columns[a], sums.layout.columns[b]
    before, after = (
        association(
            sums.pair(a, b, table),
            first.coding,
            second.coding,
            (_tie_factors(first, origin[table]), _tie_factors(second, origin[table])),
        )
        for table in (0, 1)
    )
    # The change of a feature that is constant in a table is unknown.
    changes = np.where(
        before.defined & after.defined & _is_compared(first, second)[..., None],
        np.abs(before.value - after.value) / np.sqrt(before.variance + after.variance),
        0.0,
    )
    changes = np.where(changes > SMALLEST_CHANGE, changes, 0.0)
    changes = _require_both(changes, first, second.coding.is_level)
    changes = np.swapaxes(changes, 0, 1)
    changes = np.swapaxes(_require_both(changes, second, first.coding.is_level), 0, 1)
    f, g = np.unravel_index(np.argmax(changes[..., 0]), changes.shape[:2])
    names = (first.names[f], second.names[g])
    is_level = bool(first.coding.is_level[f]), bool(second.coding.is_level[g])
    if is_level == (False, True):
        names = names[::-1]
    measures: tuple[Measure, ...] = ("correlation", "difference", "odds ratio")
    measure = measures[sum(is_level)]

    def strength(values: Association) -> float:
        if not values.defined[f, g, 0]:
            return float("nan")
        value = float(values.value[f, g, 0])
        if measure == "difference":
            return value
        return float(np.tanh(value) if measure == "correlation" else np.exp(value))

    strengths = (strength(before), strength(after))
    pair = PairChange((first.name, second.name), names, measure, strengths)
    return pair, changes.max(axis=(0, 1))


def _tie_factors(column: EncodedColumn, origin: np.ndarray) -> np.ndarray:
    """Return the tie factors (f, 1 + B) of rows a fraction of which is from the first table."""
    inverse = 1.0 / column.tie_factors**2
    return np.asarray(
        1.0 / np.sqrt(np.outer(inverse[0], origin) + np.outer(inverse[1], 1.0 - origin))
    )


def _require_both(changes: np.ndarray, column: EncodedColumn, is_level: np.ndarray) -> np.ndarray:
    """Return changes (f, g, ...) with levels (g,) as the smaller one of scores and of numbers.

    Ranks change if a level becomes rarer in a table, and numbers change with their scale. Changes
    of the association of a number and a level are visible in both.
    """
    changes = changes.copy()
    for index in np.flatnonzero(column.score_index >= 0):
        scores = changes[column.score_index[index]]
        scores[is_level] = np.minimum(scores, changes[index])[is_level]
        changes[index] = 0.0
    return changes


def _is_compared(first: EncodedColumn, second: EncodedColumn) -> np.ndarray:
    """Return the mask (f, g) of pairs of features that are compared.

    Squares are not compared with levels, because their association changes with the frequency of
    the level. Numbers that also have scores are compared only with levels.
    """
    levels = [column.coding.is_level for column in (first, second)]
    squares = np.outer(levels[0], second.is_square) | np.outer(first.is_square, levels[1])
    numbers = np.outer(first.score_index >= 0, ~levels[1]) | np.outer(
        ~levels[0], second.score_index >= 0
    )
    return np.asarray(~squares & ~numbers)
