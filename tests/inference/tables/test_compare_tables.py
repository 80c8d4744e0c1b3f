"""Two tables compared: what has changed is named, and what two draws have in common is not."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from bke.inference import InputError, compare, compare_tables
from bke.inference.io.types import Column
from bke.inference.permutation.step_down import step_down
from bke.inference.tables.aspects import aspects
from bke.inference.tables.dealing import labelling
from bke.inference.tables.dependence import dependence
from bke.inference.tables.features import features
from bke.inference.tables.marginal import residuals

QUIET = {"permutations": 199, "progress": False}


def table(rng, n=300, **changed):
    x = rng.normal(size=n)
    hours = pd.to_timedelta(rng.integers(0, 28 * 24, n), unit="h")
    made = {
        "x": x,
        "y": 0.6 * x + 0.8 * rng.normal(size=n),
        "k": rng.poisson(3.0, n),
        "c": rng.choice(["a", "b", "c"], p=[0.6, 0.3, 0.1], size=n).astype(object),
        "when": pd.Timestamp("2024-01-01") + hours,
    }
    return pd.DataFrame(
        {**made, **{name: change(rng, n, made) for name, change in changed.items()}}
    )


CHANGES = {
    "shift": ("x", lambda rng, n, made: rng.normal(0.5, 1.0, size=n)),
    "share": ("c", lambda rng, n, made: rng.choice(["a", "b", "c"], p=[0.4, 0.3, 0.3], size=n)),
    "new level": ("c", lambda rng, n, made: np.where(rng.uniform(size=n) < 0.05, "new", made["c"])),
    "missing": ("k", lambda rng, n, made: np.where(rng.uniform(size=n) < 0.1, np.nan, made["k"])),
    "weekday": (
        "when",
        lambda rng, n, made: made["when"] - pd.to_timedelta(
            (made["when"].day_of_week == 6) * 1, unit="D"
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGES)
def test_a_column_that_has_changed_is_named_alone(what):
    name, change = CHANGES[what]
    rng = np.random.default_rng(11)
    found = compare_tables(table(rng, 500), table(rng, 500, **{name: change}), **QUIET)
    assert found.differ
    assert [column.name for column in found.columns if column.differ] == [name]
    assert str(found).splitlines()[1].strip().startswith(f"{name} (")


def test_a_correlation_that_flips_is_a_pair_and_no_column():
    rng = np.random.default_rng(2)
    flipped = table(rng, y=lambda rng, n, made: -0.6 * made["x"] + 0.8 * rng.normal(size=n))
    found = compare_tables(table(rng), flipped, **QUIET)
    assert not any(column.differ for column in found.columns)
    (pair,) = (pair for pair in found.pairs if pair.differ)
    assert pair.columns == ("x", "y")
    was, now = pair.strengths
    assert was > 0.4
    assert now < -0.4


@pytest.mark.slow
def test_columns_that_change_alone_go_together_as_before():
    """Seeds 0 to 11: x is moved and stretched, its correlation with y is not."""
    named = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        after = table(rng)
        after["x"] = 3.0 * after["x"] + 1.0
        found = compare_tables(table(rng), after, **(QUIET | {"permutations": 99}))
        assert found["x"].differ
        named += any(pair.differ for pair in found.pairs)
    assert named <= 3  # at a chance of 0.05 more with probability 0.003


@pytest.mark.slow
def test_tables_of_one_distribution_are_told_apart_as_often_as_is_said():
    """60 pairs of tables with ties, holes and heavy tails; above 8 with probability 0.003."""
    rejected = named = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        tables = []
        for n in (30, 45):
            z = rng.standard_t(2, size=n)
            z[rng.uniform(size=n) < 0.2] = np.nan
            words = rng.choice(["a", "b", "c", "d"], size=n, p=[0.7, 0.2, 0.08, 0.02])
            tables.append(pd.DataFrame({"z": z, "k": rng.poisson(1.0, n), "c": words}))
        found = compare_tables(*tables, permutations=59, progress=False)
        rejected += found.differ
        named += any(one.differ for one in (*found.columns, *found.pairs))
        assert found.differ or not any(one.differ for one in (*found.columns, *found.pairs))
    assert rejected <= 8
    assert named <= rejected


def test_one_column_of_numbers_is_compared_as_compare_does():
    """The same statistic by other permutations: p-values differ by their Monte Carlo error."""
    rng = np.random.default_rng(3)
    P, Q = rng.normal(size=120), rng.normal(0.2, 1.0, size=150)
    options = {"permutations": 999, "progress": False}
    one, other = compare_tables({"x": P}, {"x": Q}, **options), compare(P, Q, **options)
    error = (2.0 * other.pvalue * (1.0 - other.pvalue) / 999) ** 0.5
    assert abs(one.pvalue - other.pvalue) < 4.0 * error
    assert one["x"].pvalue == one.pvalue


def test_no_order_of_rows_columns_or_tables_matters_nor_whose_frame_it_is():
    rng = np.random.default_rng(4)
    before, after = table(rng, 80), table(rng, 90)
    one = compare_tables(before, after, **QUIET)
    shuffled = before.sample(frac=1.0, random_state=0)[["c", "y", "when", "x", "k"]]
    other = compare_tables(shuffled, pa.Table.from_pandas(after), **QUIET)
    turned = compare_tables(after, before, **QUIET)
    assert one.pvalue == other.pvalue == turned.pvalue
    for column in one.columns:
        assert column.pvalue == other[column.name].pvalue == turned[column.name].pvalue
    assert [pair.pvalue for pair in one.pairs] == [pair.pvalue for pair in turned.pairs]
    assert one["x"].effect.shift == pytest.approx(-turned["x"].effect.shift)


def test_dependence_is_the_difference_of_fisher_transforms():
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(2, 60))
    columns = [Column("x", "number", x), Column("y", "number", y)]
    dealt = labelling(columns, 25, 9, 0)
    seen = [
        features(column.name, aspects(column, dealt.weights), dealt.weights, 25)
        for column in columns
    ]
    found = dependence(seen, dealt)
    values = [one.at(np.arange(60)) for one in seen]
    labels = dealt.labels[dealt.unit] == 1
    for b in range(10):
        changes = []
        for f in range(2):
            for g in range(2):
                r, s = (
                    np.corrcoef(values[0][rows, f], values[1][rows, g])[0, 1]
                    for rows in (labels[:, b], ~labels[:, b])
                )
                changes.append((np.arctanh(r) - np.arctanh(s)) / np.sqrt(1 / 22 + 1 / 32))
        np.testing.assert_allclose(found.statistics[0, b], np.abs(changes).max())


def test_residuals_are_those_of_a_table_of_counts():
    """With chi^2 of the table times (n - 1) / n as the sum of squares times 1 - n_a / n."""
    labels = np.array([[10, 12], [5, 3], [5, 5]])
    counts = np.array([16, 14, 10])
    found = residuals(counts, labels, 40, labels.sum(axis=0))
    for b in range(2):
        observed = np.stack([labels[:, b], counts - labels[:, b]])
        expected = observed.sum(axis=1, keepdims=True) * observed.sum(axis=0) / observed.sum()
        chi = np.sum((observed - expected) ** 2 / expected)
        np.testing.assert_allclose(np.sum(found[:, b] ** 2 * (1 - counts / 40)), chi * 39 / 40)
    assert found[0, 0] > 0.0


def test_step_down_is_that_of_a_loop():
    statistics = np.random.default_rng(6).exponential(size=(4, 50))
    statistics[2, 0] = 6.0
    adjusted = step_down(statistics)
    order, largest = np.argsort(-statistics[:, 0]), 0.0
    for rank, one in enumerate(order):
        rivals = statistics[order[rank:]].max(axis=0)
        largest = max(largest, np.mean(rivals >= statistics[one, 0]))
        assert adjusted[one] == largest


def test_json_and_words_tell_the_same():
    rng = np.random.default_rng(1)
    found = compare_tables(table(rng), table(rng, x=CHANGES["shift"][1]), **QUIET)
    told = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert told["schema"] == 1
    assert told["differ"] == found.differ == (told["pvalue"] <= 0.05)
    assert [one["name"] for one in told["columns"]] == ["x", "y", "k", "c", "when"]
    (named,) = (one for one in told["columns"] if one["differ"])
    assert named["effect"]["shift"] == pytest.approx(0.5, abs=0.3)
    assert named["effect"]["auc"] > 0.55
    assert all(place["sign"] in (-1, 1) for place in named["places"])
    assert told["sentence"] == str(found).splitlines()[0]


def test_a_column_divides_one_table():
    rng = np.random.default_rng(7)
    whole = pd.concat([table(rng, 100).assign(month="may"), table(rng, 120).assign(month="june")])
    found = compare_tables(whole, by="month", **QUIET)
    assert found.names == ("month june", "month may")
    assert found.sizes == (120, 100)
    more = pd.concat([whole, whole[:3].assign(month="unknown")])
    notes = compare_tables(more, by="month", na_values=["unknown"], **QUIET).notes
    assert notes[0] == "3 rows without a value of 'month' left out."
    assert "month" not in [column.name for column in found.columns]


@pytest.mark.parametrize(
    ("before", "after", "options", "message"),
    [
        ({"x": [1, 2]}, {"y": [1, 2]}, {}, "'x' is only in before, 'y' is only in after"),
        (
            {"x": [1, 2]},
            {"x": ["a", "b"]},
            {},
            "holds numbers in before and words such as 'a' in after",
        ),
        ({"x": [1, 1]}, {"x": [1, 1]}, {}, "it has one value in all rows"),
        ({"x": [None, None]}, {"x": [None, None]}, {}, "it has no values"),
        ({"x": [1, 2]}, {"x": [1, 2]}, {"exclude": ["z"]}, "there is no column 'z'"),
        ({"x": [1, 2]}, {"x": [1, 2]}, {"column_types": {"x": "float"}}, "the type of"),
        ({"x": [1, 2]}, None, {}, "give two tables"),
        ({"x": [1, 2]}, None, {"by": "x", "exclude": ["x"]}, "no column can be compared"),
        (3.0, {"x": [1, 2]}, {}, "a data frame or the path of a file"),
        ({"x": []}, {"x": [1, 2]}, {}, "no rows"),
        (
            {"x": [float("inf"), 1.0], "y": [[1], [2]]},
            {"x": [1.0, 2.0], "y": [[1], [2]]},
            {},
            "2 columns: column 'x' has an infinite value .*; column 'y' holds list",
        ),
    ],
)
def test_tables_that_make_no_sense(before, after, options, message):
    with pytest.raises(InputError, match=message):
        compare_tables(before, after, progress=False, **options)


def test_codes_and_identifiers_are_left_in_or_out_as_asked():
    rng = np.random.default_rng(8)

    def made(n, start):
        x = np.round(rng.normal(50.0, 10.0, size=n), 1)
        x[::20] = -999.0
        return pd.DataFrame({"x": x, "id": [f"{start}{index:05d}" for index in range(n)]})

    tables = made(100, "A"), made(120, "B")
    found = compare_tables(*tables, **QUIET)
    assert "'x' is -999 in 5.0% of the rows" in found.notes[0]
    assert "--na-value=-999 (na_values=) or --sentinels missing" in found.notes[0]
    assert found["x"].effect.missing == (0.0, 0.0)
    assert [name for name, _ in found.left_out] == ["id"]
    found = compare_tables(*tables, sentinels="missing", identifiers=True, **QUIET)
    assert "read as missing" in found.notes[0]
    assert found["x"].effect.missing == (0.05, 0.05)
    assert found["id"].differ
    assert "with 'a00" in str(found["id"]) or "with 'b00" in str(found["id"])
    twin = compare_tables(*tables, na_values=["-999"], identifiers=True, **QUIET)
    assert twin.pvalue == found.pvalue


def test_small_tables_without_holes_are_compared():
    """All of five values far from all of a hundred: no relabelling empties a table."""
    rng = np.random.default_rng(0)
    before, after = rng.normal(size=5), rng.normal(size=100) + 100.0
    found = compare_tables({"x": before}, {"x": after}, **QUIET)
    assert found["x"].differ
    assert found["x"].pvalue == 0.005


def test_tables_that_weights_may_empty_are_compared():
    rng = np.random.default_rng(1)
    w = np.r_[np.ones(4), np.zeros(16)]
    tables = [
        pd.DataFrame({"x": rng.normal(size=20) + s, "y": rng.normal(size=20) + s, "w": w})
        for s in (0.0, 50.0)
    ]
    assert compare_tables(*tables, weights="w", permutations=999, progress=False).differ


def test_no_correlation_is_no_change_of_one():
    rng = np.random.default_rng(2)
    before = table(rng, 100)
    after = table(rng, 100)
    after["x"] = 1.0
    found = compare_tables(before, after, **QUIET)
    assert found["x"].differ
    assert not any(pair.differ for pair in found.pairs if "x" in pair.columns)


def test_long_whole_numbers_are_not_merged():
    start = 1234567890123456789
    users = np.repeat(np.arange(60), 3)
    x = np.random.default_rng(3).normal(size=180) + (users >= 30)

    def halves(ids):
        frame = pd.DataFrame({"x": x, "user": ids})
        return frame[:90], frame[90:]

    found = compare_tables(*halves(start + users), clusters="user", **QUIET)
    twin = compare_tables(*halves([f"u{one:02d}" for one in users]), clusters="user", **QUIET)
    assert found.pvalue == twin.pvalue
    told = "rows of one 'user' are kept together, so that effects have no intervals"
    assert found.design == (told,)
    assert found["x"].effect.auc_interval is None


def test_dates_of_several_kinds_go_together():
    days = pd.date_range("2024-01-01", periods=40, freq="7h")
    before = pa.table({"when": pa.array(days.to_numpy().astype("datetime64[s]"))})
    after = pa.table({"when": pa.array(days + pd.Timedelta(1, "ns"))})
    found = compare_tables(before, after, **QUIET)
    assert found["when"].kind == "datetime"
    assert found.pvalue == 1.0


@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize("start", ["1603-06-01", "1895-06-03", "1961-01-02", "2021-06-07"])
def test_births_on_weekdays_are_not_births_on_all_days(start, as_text):
    """Of 700 days those from Monday to Friday, whatever the century."""
    days = pd.Series(np.datetime64(start, "s") + np.arange(700) * np.timedelta64(86_400, "s"))
    some = pd.DataFrame({"born": days[days.dt.day_of_week < 5]})
    every = pd.DataFrame({"born": days})
    if as_text:
        some, every = (frame.astype({"born": str}) for frame in (some, every))
    found = compare_tables(some, every, **QUIET)
    assert found.pvalue <= 0.01
    assert [one.aspect.what for one in found["born"].marginals] == ["weekday"]


@pytest.mark.parametrize(("gap", "told"), [(0, False), (7, False), (42, True), (140, True)])
def test_dates_that_lie_apart_are_told(gap, told):
    """Forty days in each, of which 33 or none at all lie among the other's 40."""
    first = pd.DataFrame({"when": pd.date_range("2024-01-01", periods=40)})
    second = pd.DataFrame({"when": first.when + pd.Timedelta(gap, "D")})
    found = compare_tables(first, second, names=("old", "new"), **QUIET)
    assert found.pvalue == 1.0
    notes = [note for note in found.notes if "not when they are" in note]
    assert len(notes) == told
    if told:
        assert "'when' are from 2024-01-01 to 2024-02-09 in old and from 2024-0" in notes[0]


def test_a_shuffle_changes_nothing_with_weights():
    rng = np.random.default_rng(4)
    frame = table(rng, 80).assign(w=rng.uniform(0.1, 3.0, size=80))
    one = compare_tables(frame[:40], frame[40:], weights="w", **QUIET)
    order = rng.permutation(40)
    other = compare_tables(frame[:40].iloc[order], frame[40:], weights="w", **QUIET)
    assert one.pvalue == other.pvalue
