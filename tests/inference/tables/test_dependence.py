"""How columns go together, beside loops over all rows, and where that must not seem to change."""

import numpy as np
import pytest
from bke.inference import compare_tables
from bke.inference.tables.aspects import aspects
from bke.inference.tables.association import Sums, strength
from bke.inference.tables.counted import NOT_COUNTED, Counted
from bke.inference.tables.dealing import labelling
from bke.inference.tables.dependence import _some, dependence
from bke.inference.tables.features import features
from bke.inference.tables.kinds import Column
from bke.inference.tables.moments import Layout, Pairwise, Whole

QUIET = {"permutations": 99, "progress": False}


def columns(rng, rows):
    """Numbers and levels that go together, two of them with holes of their own."""
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
    ]


def made(grouped):
    rng = np.random.default_rng(0)
    rows, first = 90, 40
    found = columns(rng, rows)
    weights = rng.uniform(0.5, 2.0, size=rows) if grouped else None
    counted = NOT_COUNTED if weights is None else Counted(weights=weights)
    units = None
    if grouped:
        units = Column("u", "category", np.arange(rows) // 3.0, tuple(map(str, range(30))))
    dealt = labelling(found, first, 9, 0, units=units, counted=counted)
    every = np.ones(rows) if weights is None else weights
    parts = [features(one.name, aspects(one, every), every, first, apart=True) for one in found]
    return parts, dealt, every


@pytest.mark.parametrize("grouped", [False, True])
def test_sums_are_over_rows_that_have_both(grouped):
    parts, dealt, every = made(grouped)
    layout, rows = Layout(parts), np.arange(90)
    labels = np.empty((90, 10))
    labels[dealt.row] = dealt.labels[dealt.unit]
    values = [part.at(rows) for part in parts]
    has = [np.hstack([np.ones((90, 1)), part.known(rows)])[:, part.holes] for part in parts]
    sums = Pairwise(layout, range(1, 3), Whole.of(layout, dealt), dealt)
    for a, b in ((1, 2), (1, 3), (2, 3)):
        for table in (0, 1):
            found = sums.of(a, b, table)
            shape = found.product.shape
            for f in range(shape[0]):
                for g in range(shape[1]):
                    both = has[a][:, f] * has[b][:, g]
                    mine = (every * both)[:, None] * (labels if table == 0 else 1.0 - labels)
                    one, other = values[a][:, f], values[b][:, g]
                    twins = (0 * one + 1, one, one**2, other, other**2, one * other)
                    for part, twin in zip(found, twins, strict=True):
                        seen = np.broadcast_to(part, shape)[f, g]
                        np.testing.assert_allclose(seen, twin @ mine, atol=1e-10)


def test_measures_are_those_of_textbooks():
    """The correlation, the difference of means over the deviation within, odds over odds."""
    rng = np.random.default_rng(1)
    score, other = rng.normal(size=(2, 200))
    other += 0.6 * score
    level, second = score + rng.normal(size=200) > 0.5, other > 0.2
    ends = np.array([[np.nan, np.nan], [-0.8, 1.9]])
    one = np.stack([score, np.where(level, 1.9, -0.8)])
    two = np.stack([other, np.where(second, 1.9, -0.8)])
    sums = Sums(
        np.full((1, 1), 200.0),
        one.sum(axis=1)[:, None],
        (one**2).sum(axis=1)[:, None],
        two.sum(axis=1)[None],
        (two**2).sum(axis=1)[None],
        one @ two.T,
    )
    found = strength(sums, (ends, ends))
    assert found.defined.all()
    assert np.tanh(found.value[0, 0]) == pytest.approx(np.corrcoef(score, other)[0, 1])
    assert found.variance[0, 0] == pytest.approx(1 / 197)
    for value, variance, by, of in (
        (found.value[1, 0], found.variance[1, 0], level, other),
        (found.value[0, 1], found.variance[0, 1], second, score),
    ):
        apart = of[by].mean() - of[~by].mean()
        within = (by.sum() * of[by].var() + (~by).sum() * of[~by].var()) / 200
        d = apart / within**0.5
        assert value == pytest.approx(d)
        twin = 1 / by.sum() + 1 / (~by).sum() + d**2 / 400
        assert variance == pytest.approx(twin)
    cells = [
        [(level & second).sum(), (level & ~second).sum()],
        [(~level & second).sum(), (~level & ~second).sum()],
    ]
    table = np.array(cells) + 0.5
    odds = table[0, 0] * table[1, 1] / table[0, 1] / table[1, 0]
    assert found.value[1, 1] == pytest.approx(np.log(odds))
    assert found.variance[1, 1] == pytest.approx((1 / table).sum())


def of_textbooks(one, other, levels):
    """A measure and its variance, of the rows of one table that have both."""
    if levels == (False, False):
        return np.arctanh(np.corrcoef(one, other)[0, 1]), 1.0 / (len(one) - 3)
    if levels == (True, True):
        by, of = one > 0.0, other > 0.0
        cells = 0.5 + np.array([(by & of).sum(), (~by & ~of).sum(), (by & ~of).sum()])
        cells = np.append(cells, 0.5 + (~by & of).sum())
        return np.log(cells[0] * cells[1] / cells[2] / cells[3]), (1.0 / cells).sum()
    by, of = (one > 0.0, other) if levels[0] else (other > 0.0, one)
    within = (by.sum() * of[by].var() + (~by).sum() * of[~by].var()) / len(of)
    d = (of[by].mean() - of[~by].mean()) / within**0.5
    return d, 1.0 / by.sum() + 1.0 / (~by).sum() + 0.5 * d**2 / len(of)


def test_a_pair_has_changed_by_the_largest_change_of_a_measure_over_its_error():
    """Of every feature of numbers and levels with holes, by every relabelling."""
    parts, dealt, _ = made(grouped=False)
    found = dependence(parts, dealt)
    rows = np.arange(90)
    values = [part.at(rows) for part in parts]
    has = [np.hstack([np.ones((90, 1)), part.known(rows)])[:, part.holes] for part in parts]
    levels = [~np.isnan(part.ends[:, 0]) for part in parts]
    of_row = np.empty((90, 10), dtype=bool)
    of_row[dealt.row] = dealt.labels[dealt.unit] == 1
    for link, statistic in zip(found.links, found.statistics, strict=True):
        a, b = link.columns
        for labelling_ in range(10):
            changes = []
            for f in range(values[a].shape[1]):
                for g in range(values[b].shape[1]):
                    which = bool(levels[a][f]), bool(levels[b][g])
                    square = bool(parts[a].squares[f]), bool(parts[b].squares[g])
                    if (which[0] and square[1]) or (square[0] and which[1]):
                        continue
                    both = (has[a][:, f] * has[b][:, g]) > 0
                    (was, error), (now, its) = (
                        of_textbooks(values[a][mine, f], values[b][mine, g], which)
                        for mine in (both & of_row[:, labelling_], both & ~of_row[:, labelling_])
                    )
                    changes.append(abs(was - now) / (error + its) ** 0.5)
            np.testing.assert_allclose(statistic[labelling_], max(changes), rtol=1e-8)


def test_no_memory_changes_what_is_found(monkeypatch):
    parts, dealt, _ = made(grouped=True)
    whole = dependence(parts, dealt)
    monkeypatch.setattr("bke.inference.tables.dependence.MOST_PRODUCTS", 1)
    assert _some(Layout(parts).widths, 30) == [range(0, 1), range(1, 2), range(2, 3)]
    piecewise = dependence(parts, dealt)
    assert [link.columns for link in piecewise.links] == [link.columns for link in whole.links]
    np.testing.assert_allclose(piecewise.statistics, whole.statistics, atol=1e-9)


def test_a_column_of_one_value_in_a_table_goes_with_nothing():
    rng = np.random.default_rng(2)
    x = rng.normal(size=80)
    holes = np.where((np.arange(80) < 40) | (x < 0.0), 0.0, np.nan) + rng.normal(size=80)
    found = [Column("x", "number", x), Column("y", "number", holes)]
    dealt = labelling(found, 40, 9, 0)
    parts = [
        features(one.name, aspects(one, np.ones(80)), np.ones(80), 40, apart=True) for one in found
    ]
    (link,) = dependence(parts, dealt).links
    assert "y missing" not in link.features  # in the first table none is


def correlated(rng, rows):
    x = rng.normal(size=rows)
    return x, 0.8 * x + 0.6 * rng.normal(size=rows)


@pytest.mark.parametrize("what", ["holes", "shares"])
def test_holes_and_shares_that_change_are_no_change_of_how_columns_go_together(what):
    """Half of a column gone at random, or a level from half of the rows to a tenth.

    20 data sets of 100 + 100 rows, at 0.05 each: more than 4 are named in 1 of 400 runs.
    """
    named = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        (x, y), (u, v) = correlated(rng, 100), correlated(rng, 100)
        if what == "holes":
            u[rng.random(100) < 0.5] = np.nan
        else:
            x, u = np.where(x > 0.0, "a", "b"), np.where(u > 1.2816, "a", "b")
        found = compare_tables({"x": x, "y": y}, {"x": u, "y": v}, **QUIET)
        assert found["x"].differ
        named += any(pair.differ for pair in found.pairs)
    assert named <= 4


def test_what_two_levels_have_to_do_with_each_other_is_named_by_odds():
    rng = np.random.default_rng(3)
    first, second = (rng.random((2, 400)) < 0.4 for _ in range(2))
    second[1] = np.where(rng.random(400) < 0.7, second[0], second[1])
    before, after = ({"one": part[0], "other": part[1]} for part in (first, second))
    (pair,) = compare_tables(before, after, **QUIET).pairs
    assert pair.differ
    assert pair.measure == "odds ratio"
    was, now = (max(ratio, 1 / ratio) for ratio in pair.strengths)
    assert was < 2.0
    assert now > 8.0
