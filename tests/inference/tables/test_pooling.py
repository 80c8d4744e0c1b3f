"""Rows with frequencies and weights, compared with rows that are repeated."""

import numpy as np
import pandas as pd
import pytest
from bke.inference import InputError, compare_tables
from bke.inference.io.types import Column
from bke.inference.tables.derived_features import derive_features
from bke.inference.tables.effects import column_effect
from bke.inference.tables.permuted_labels import permute_labels
from bke.inference.tables.pooling import RowWeights
from bke.inference.tables.statistics import marginal_statistics

QUIET = {"n_resamples": 99, "progress": False}


def counted_table(rng, n, shift=0.0):
    return pd.DataFrame(
        {
            "x": np.round(rng.normal(size=n) + shift, 1),
            "c": rng.choice(["a", "b"], size=n),
            "skewed": np.round(rng.gamma(0.5, size=n) ** 3, 2),
            "level": rng.geometric(0.01, size=n).astype(str),
            "note": [" ".join(rng.choice(list("abcdefgh"), size=4)) for _ in range(n)],
            "times": rng.integers(0, 4, size=n),
        }
    )


def repeated(table):
    return table.loc[table.index.repeat(table["times"])].drop(columns="times")


def test_counts_are_rows_that_are_repeated():
    """Tables with more values, levels and words than are distinguished, and with outliers."""
    rng = np.random.default_rng(0)
    before, after = counted_table(rng, 700), counted_table(rng, 600, 0.5)
    options = {"column_types": {"level": "category", "note": "text"}, **QUIET}
    result = compare_tables(before, after, freq_weights="times", **options)
    twin = compare_tables(repeated(before), repeated(after), **options)
    # Joint distributions are compared at other nodes.
    assert abs(result.pvalue - twin.pvalue) < 0.03
    assert result.sizes == twin.sizes
    for weighted, duplicated in zip(result.columns, twin.columns, strict=True):
        assert weighted.pvalue == duplicated.pvalue
        assert str(weighted) == str(duplicated)
        if weighted.histogram is not None:
            np.testing.assert_allclose(
                weighted.histogram.proportions, duplicated.histogram.proportions
            )
    assert [pair.pvalue for pair in result.pairs] == [pair.pvalue for pair in twin.pairs]
    for weighted, duplicated in zip(result.pairs, twin.pairs, strict=True):
        np.testing.assert_allclose(weighted.strengths, duplicated.strengths)


def test_weights_count_rows_for_more():
    """Weights of 1 and 2 give the effects of repeated rows, with wider intervals."""
    rng = np.random.default_rng(1)
    x, c = np.round(rng.normal(size=90), 1), rng.integers(0, 3, size=90).astype(float)
    times = rng.integers(1, 3, size=90)
    of, rows = np.repeat(np.arange(90), times), int(times[:40].sum())
    weights = times / times.sum() * 80.0
    for column in (Column("x", "number", x), Column("c", "category", c, ("a", "b", "c"))):
        weighted = permute_labels([column], 40, 9, 0, row_weights=RowWeights(weights=weights))
        marginals = [
            marginal_statistics(feature, weighted) for feature in derive_features(column, weights)
        ]
        effect = column_effect(column, marginals, 40, 0.05, weights)
        long = column._replace(values=column.values[of])
        permuted = permute_labels([long], rows, 9, 0)
        twin = column_effect(
            long,
            [
                marginal_statistics(feature, permuted)
                for feature in derive_features(long, permuted.row_weights)
            ],
            rows,
            0.05,
            permuted.row_weights,
        )
        assert effect.medians == twin.medians
        assert [level.level for level in effect.shares] == [level.level for level in twin.shares]
        for first, second in zip(effect.shares, twin.shares, strict=True):
            np.testing.assert_allclose(first[1:3], second[1:3])
        if twin.auc is not None:
            np.testing.assert_allclose(effect.auc, twin.auc)
            assert np.ptp(effect.auc_interval) > np.ptp(twin.auc_interval)


@pytest.mark.slow
def test_weighted_tables_of_equal_distributions_are_rejected_at_the_level():
    """60 pairs, weights by a column's value; above 8 with probability 0.003."""
    rejected = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        tables = []
        for n in (40, 60):
            x = rng.normal(size=n)
            tables.append(pd.DataFrame({"x": x, "w": np.exp(0.5 * x), "k": rng.poisson(2.0, n)}))
        tables[1]["w"] *= 1000.0  # a different scale
        rejected += compare_tables(*tables, weights="w", n_resamples=59, progress=False).reject
    assert rejected <= 8


def weighted_table(rng, rows, deviation):
    weight = np.exp(deviation * rng.normal(size=rows))
    return pd.DataFrame({"x": rng.normal(size=rows), "w": weight})


def test_weights_have_no_unit_and_equal_weights_do_not_matter():
    rng = np.random.default_rng(4)
    tables = [weighted_table(rng, rows, 0.5) for rows in (60, 80)]
    larger = [
        table.assign(w=factor * table["w"])
        for table, factor in zip(tables, (7.0, 0.3), strict=True)
    ]
    text, twin = (str(compare_tables(*pair, weights="w", **QUIET)) for pair in (tables, larger))
    assert text == twin
    equal = [table.assign(w=factor) for table, factor in zip(tables, (7.0, 0.3), strict=True)]
    result = compare_tables(*equal, weights="w", **QUIET)
    plain = compare_tables(*tables, exclude=["w"], **QUIET)
    assert (result.pvalue, result["x"].pvalue) == (plain.pvalue, plain["x"].pvalue)


@pytest.mark.slow
def test_weights_of_unequal_variation_are_noted_and_intervals_use_those_of_each_table():
    """The shift between tables of one distribution is in 0.95 of the intervals.

    50 data sets of 600 + 150 rows: fewer than 42 in 1 of 1000 runs.
    """
    covered, rng = 0, np.random.default_rng(5)
    for _ in range(50):
        tables = [weighted_table(rng, 600, 1.2), weighted_table(rng, 150, 0.1)]
        result = compare_tables(*tables, weights="w", n_resamples=19, alpha=0.05, progress=False)
        low, high = result["x"].effect.mean_difference_interval
        covered += low <= 0.0 <= high
        assert any("if weights vary more in one table" in note for note in result.notes)
    assert covered >= 42


def test_weights_can_undo_a_difference_and_make_one():
    """Rows of one table with x > 0 are twice as many, with half the weight or the same."""
    rng = np.random.default_rng(2)
    before, after = rng.normal(size=600), rng.normal(size=900)
    after = after[(after > 0) | (rng.uniform(size=900) < 0.5)]
    tables = [
        pd.DataFrame({"x": before, "w": 1.0}),
        pd.DataFrame({"x": after, "w": np.where(after > 0, 0.5, 1.0)}),
    ]
    assert not compare_tables(*tables, weights="w", **QUIET).reject
    assert compare_tables(*[table[["x"]] for table in tables], **QUIET).reject


@pytest.mark.parametrize(
    ("column", "role", "message"),
    [
        ([1.0, -1.0, 2.0], "weights", "'w' has a negative number in row 2 of the first"),
        ([1.0, np.nan, 2.0], "weights", "'w' has no number in row 2 of the first"),
        ([0.0, 0.0, 0.0], "weights", "'w' is 0 in all rows of the first"),
        ([True, True, True], "weights", "'w' has one truth value in all rows"),
        ([1.0, 1.5, 2.0], "freq_weights", "'w' holds 1.5, and counts must be whole numbers"),
        ([1.0, 1e9, 2.0], "freq_weights", "counts 1e.09 rows"),
    ],
)
def test_invalid_counts_and_weights_are_refused(column, role, message):
    table = pd.DataFrame({"x": [1.0, 2.0, 4.0], "w": column})
    other = pd.DataFrame({"x": [1.0, 3.0, 4.0], "w": [1.0, 1.0, 1.0]})
    with pytest.raises(InputError, match=message):
        compare_tables(table, other, **{role: "w"}, **QUIET)


def test_counts_and_weights_are_not_both():
    table = {"x": [1.0, 2.0], "w": [1, 1], "v": [1, 1]}
    with pytest.raises(InputError, match="not both"):
        compare_tables(table, table, freq_weights="w", weights="v", **QUIET)


@pytest.mark.parametrize("unequal", [False, True])
def test_rows_of_zero_weight_are_ignored(unequal):
    rng = np.random.default_rng(0)
    before, after = (pd.DataFrame({"x": rng.normal(size=n)}) for n in (200, 100))
    weight = np.arange(60.0) % 4 + 1.0 if unequal else np.ones(60)
    zeros = before.assign(w=np.concatenate([weight, np.zeros(140)])), after.assign(w=1.0)
    without = before[:60].assign(w=weight), after.assign(w=1.0)
    result, twin = (compare_tables(*tables, weights="w", **QUIET) for tables in (zeros, without))
    assert result.pvalue == twin.pvalue
    assert result["x"].effect == twin["x"].effect
    assert result.sizes == twin.sizes
