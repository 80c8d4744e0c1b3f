"""Associations of columns, compared with loops over all rows, and their level under changes."""

import numpy as np
import pytest
from bke.inference import compare_tables
from bke.inference.io.types import Column
from bke.inference.tables.associations import (
    ColumnLayout,
    ProductSums,
    association_changes,
    column_batches,
    feature_sums,
)
from bke.inference.tables.derived_features import derive_features
from bke.inference.tables.encoding import encode_column
from bke.inference.tables.permuted_labels import permute_labels
from bke.inference.tables.pooling import UNWEIGHTED, RowWeights

GRID = [-2.0, -1.2, -0.3, 0.2, 1.0]
QUIET = {"n_resamples": 99, "progress": False}


def columns(rng, rows):
    """Return associated numbers and levels, two of them with missing values."""
    x = rng.normal(size=rows)
    y = 0.7 * x + rng.normal(size=rows)
    level = np.digitize(x + rng.normal(size=rows), [-0.5, 0.6]).astype(float)
    other = (y + rng.normal(size=rows) > 0.3).astype(float)
    y[rng.random(rows) < 0.2] = np.nan
    level[rng.random(rows) < 0.3] = np.nan
    return [
        Column("x", "number", x),
        Column("y", "number", y),
        Column("c", "category", level, ("a", "b", "d")),
        Column("k", "category", other, ("no", "yes")),
        Column("m", "category", np.digitize(x - rng.normal(size=rows), GRID), tuple("uvwxyz")),
    ]


def encoded_columns(grouped):
    rng = np.random.default_rng(0)
    rows, first = 90, 40
    data = columns(rng, rows)
    weights = rng.uniform(0.5, 2.0, size=rows) if grouped else None
    counted = UNWEIGHTED if weights is None else RowWeights(weights=weights)
    units = None
    if grouped:
        units = Column("u", "category", np.arange(rows) // 3.0, tuple(map(str, range(30))))
    permuted = permute_labels(data, first, 9, 0, clusters=units, row_weights=counted)
    every = np.ones(rows) if weights is None else weights
    parts = [
        encode_column(column.name, derive_features(column, every), every, first, by_table=True)
        for column in data
    ]
    return parts, permuted, every


@pytest.mark.parametrize("grouped", [False, True])
def test_sums_are_over_rows_that_have_both(grouped):
    parts, permuted, every = encoded_columns(grouped)
    layout, rows = ColumnLayout(parts), np.arange(90)
    labels = np.empty((90, 10))
    labels[permuted.row] = permuted.labels[permuted.unit]
    values = [part.at(rows) for part in parts]
    has = [np.hstack([np.ones((90, 1)), part.is_known(rows)])[:, part.mask_index] for part in parts]
    sums = ProductSums(layout, range(1, 3), feature_sums(layout, permuted), permuted)
    for a, b in ((1, 2), (1, 3), (2, 3)):
        for table in (0, 1):
            pair_sums = sums.pair(a, b, table)
            shape = pair_sums.xy.shape
            for f in range(shape[0]):
                for g in range(shape[1]):
                    both = has[a][:, f] * has[b][:, g]
                    weights = (every * both)[:, None] * (labels if table == 0 else 1.0 - labels)
                    x, y = values[a][:, f], values[b][:, g]
                    twins = (0 * x + 1, x, x**2, y, y**2, x * y)
                    for part, twin in zip(pair_sums, twins, strict=True):
                        actual = np.broadcast_to(part, shape)[f, g]
                        np.testing.assert_allclose(actual, twin @ weights, atol=1e-10)


def textbook_measure(first, second):
    """Return a measure of association and its variance over complete rows of one table.

    A side is scores and the factor by which ties shrink their correlation, or masks of rows with a
    level, with its reference, and with any other level of the feature.
    """
    if isinstance(first[1], float) and isinstance(second[1], float):
        factor = first[1] * second[1]
        observed = np.corrcoef(first[0], second[0])[0, 1]
        correlation, error = observed / factor, (1.0 - observed**2) / (len(first[0]) - 3) ** 0.5
        return np.arctanh(correlation), (error / factor / (1.0 - correlation**2)) ** 2
    if not isinstance(first[1], float) and not isinstance(second[1], float):
        counts = [
            0.5 + (row_mask & column_mask).sum()
            for row_mask in first[:2]
            for column_mask in second[:2]
        ]
        return np.log(counts[0] * counts[3] / counts[1] / counts[2]), (1.0 / np.array(counts)).sum()
    levels, score = (second, first[0]) if isinstance(first[1], float) else (first, second[0])
    groups = [mask for mask in (*levels[:2], *levels[2]) if mask.any()]
    groups.append(~np.any(groups, axis=0))
    within = sum(mask.sum() * score[mask].var() for mask in groups if mask.any()) / len(score)
    mean_difference = score[levels[0]].mean() - score[levels[1]].mean()
    sizes = 1.0 / levels[0].sum() + 1.0 / levels[1].sum()
    return mean_difference / within**0.5, sizes + 0.5 * mean_difference**2 / within / len(score)


def measure_inputs(part, values, f, selected, fraction):
    """Return a side for :func:`textbook_measure`; fraction: of rows of the first table."""
    if not part.coding.is_level[f]:
        tied = (
            fraction / part.tie_factors[0, f] ** 2 + (1.0 - fraction) / part.tie_factors[1, f] ** 2
        ) ** -0.5
        return values[selected, f], float(tied)
    same = np.flatnonzero(part.coding.source == part.coding.source[f])
    masks = {g: values[selected, g] > 0.0 for g in same}
    at = part.coding.reference[f]
    reference = ~np.any(list(masks.values()), axis=0) if at < 0 else masks[at]
    return masks[f], reference, [masks[g] for g in same if g not in (f, at)]


def changes_of(part, other, values, other_values, both, of_row):
    """Return the change over its error for all pairs of features; 0 if a level has no rows."""
    changes = np.zeros((values.shape[1], other_values.shape[1]))
    first = np.arange(len(of_row)) < 40
    for f in range(changes.shape[0]):
        for g in range(changes.shape[1]):
            pieces = []
            for table in (of_row, ~of_row):
                fraction, selected = first[table].mean(), both(f, g) & table
                first_side, second_side = (
                    measure_inputs(part, values, f, selected, fraction),
                    measure_inputs(other, other_values, g, selected, fraction),
                )
                levels = [
                    mask
                    for x in (first_side, second_side)
                    if not isinstance(x[1], float)
                    for mask in x[:2]
                ]
                if len(levels) == 4:  # rows that have one of two levels on both sides
                    inside = (levels[0] | levels[1]) & (levels[2] | levels[3])
                    levels = [mask & inside for mask in levels]
                if all(mask.any() for mask in levels):
                    pieces.append(textbook_measure(first_side, second_side))
            if (
                len(pieces) == 2
                and f != part.coding.reference[f]
                and g != other.coding.reference[g]
            ):
                (was, error), (now, its) = pieces
                changes[f, g] = abs(was - now) / (error + its) ** 0.5
    return changes


def test_a_pair_has_changed_by_the_largest_change_of_a_measure_over_its_error():
    """Check all features of numbers and levels with missing values, for all permutations.

    The association of a number and a level is the smaller change of those by scores and by values;
    that of two numbers uses only scores.
    """
    parts, permuted, _ = encoded_columns(grouped=False)
    result = association_changes(parts, permuted)
    rows = np.arange(90)
    values = [part.at(rows) for part in parts]
    has = [np.hstack([np.ones((90, 1)), part.is_known(rows)])[:, part.mask_index] for part in parts]
    of_row = np.empty((90, 10), dtype=bool)
    of_row[permuted.row] = permuted.labels[permuted.unit] == 1
    assert (parts[4].coding.reference >= 0).all()
    for link, statistic in zip(result.pairs, result.statistics, strict=True):
        a, b = ("xyckm".index(name) for name in link.columns)
        for of in range(10):
            changes = changes_of(
                parts[a],
                parts[b],
                values[a],
                values[b],
                lambda f, g, a=a, b=b: (has[a][:, f] * has[b][:, g]) > 0,
                of_row[:, of],
            )
            smallest = []
            levels = [parts[index].coding.is_level for index in (a, b)]
            for f, g in np.ndindex(changes.shape):
                if parts[a].score_index[f] < 0 and parts[b].score_index[g] < 0:
                    # A score's own number is the feature after it.
                    further = [changes[f, g]]
                    if levels[1][g] and f + 1 in np.flatnonzero(parts[a].score_index >= 0):
                        further.append(changes[f + 1, g])
                    if levels[0][f] and g + 1 in np.flatnonzero(parts[b].score_index >= 0):
                        further.append(changes[f, g + 1])
                    smallest.append(min(further))
            changes = np.array(smallest)
            np.testing.assert_allclose(statistic[of], changes.max(), rtol=1e-8)


def test_the_size_of_batches_does_not_change_the_result(monkeypatch):
    parts, permuted, _ = encoded_columns(grouped=True)
    single_batch = association_changes(parts, permuted)
    monkeypatch.setattr("bke.inference.tables.associations.MAX_PRODUCTS", 1)
    assert column_batches(ColumnLayout(parts).widths, 30) == [range(at, at + 1) for at in range(4)]
    piecewise = association_changes(parts, permuted)
    assert [link.columns for link in piecewise.pairs] == [
        link.columns for link in single_batch.pairs
    ]
    np.testing.assert_allclose(piecewise.statistics, single_batch.statistics, atol=1e-9)


def correlated(rng, rows):
    x = rng.normal(size=rows)
    return x, 0.8 * x + 0.6 * rng.normal(size=rows)


def change_missing_values(rng, rows):
    """Return tables of which the second has missing values in half of a column."""
    (x, y), (u, v) = correlated(rng, rows), correlated(rng, rows)
    return (x, y), (np.where(rng.random(rows) < 0.5, np.nan, u), v)


def change_proportions(rng, rows):
    """Return tables in which a level falls from half of the rows to a tenth."""
    level, other = rng.random(rows) < 0.5, rng.random(rows) < 0.1
    first, second = ((y, 3.0 * y + rng.normal(size=rows)) for y in (level, other))
    return tuple((np.where(mask, "a", "b"), y) for mask, y in (first, second))


def change_levels(rng, rows):
    """Return tables with different proportions of five levels."""
    tables = []
    for probabilities in ([0.4, 0.2, 0.2, 0.1, 0.1], [0.1, 0.2, 0.1, 0.3, 0.3]):
        level = rng.choice(5, rows, p=probabilities)
        y = np.array([0.0, 1.0, 2.0, 3.0, -1.0])[level] + rng.normal(size=rows)
        tables.append((np.array(list("abcde"))[level], y))
    return tuple(tables)


def change_ties(rng, rows):
    """Return tables of which the second has a column clipped in four of five rows."""
    (x, y), (u, v) = correlated(rng, rows), correlated(rng, rows)
    return (x, y), (np.maximum(u, 0.8), v)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changed", [change_missing_values, change_proportions, change_levels, change_ties]
)
def test_changes_of_single_columns_are_no_change_of_their_association(changed):
    """12 data sets of 200 + 200 rows, at 0.05 each: more than 3 are named in 1 of 400 runs."""
    named = 0
    for seed in range(12):
        before, after = changed(np.random.default_rng(seed), 200)
        tables = (dict(zip("xy", table, strict=True)) for table in (before, after))
        result = compare_tables(*tables, **QUIET)
        assert result["x"].reject
        named += any(pair.reject for pair in result.pairs)
    assert named <= 3


def test_associations_of_binary_columns_are_odds_ratios():
    rng = np.random.default_rng(3)
    first, second = (rng.random((2, 400)) < 0.4 for _ in range(2))
    second[1] = np.where(rng.random(400) < 0.7, second[0], second[1])
    before, after = ({"first": part[0], "second": part[1]} for part in (first, second))
    (pair,) = compare_tables(before, after, **QUIET).pairs
    assert pair.reject
    assert pair.measure == "odds ratio"
    was, now = (max(ratio, 1 / ratio) for ratio in pair.strengths)
    assert was < 2.0
    assert now > 8.0


def test_columns_constant_in_a_table_have_no_association():
    rng = np.random.default_rng(4)
    x = rng.normal(size=80)
    result = compare_tables({"x": x, "y": x > 0.0}, {"x": x + 1.0, "y": x > 9.0}, **QUIET)
    (pair,) = result.pairs
    assert not pair.reject
    was, now = pair.to_dict()["strengths"]
    assert was > 1.0
    assert now is None
