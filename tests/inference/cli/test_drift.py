"""``bke drift``: two tables on the command line."""

import numpy as np
import pandas as pd
import pytest
from bke.inference import InputError, compare_tables
from scipy.stats import ks_2samp

FAST = ("--permutations", "99", "--quiet")


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Write two months of equal distribution, a different one between, and a combined table."""
    folder = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(0)
    frames = {}
    for name, shift, n in (("may", 0.0, 90), ("june", 1.0, 110), ("july", 0.0, 100)):
        frames[name] = pd.DataFrame(
            {
                "x": (rng.normal(size=n) + shift).round(3),
                "word": rng.choice(["a", "b"], n),
                "code": np.where(rng.uniform(size=n) < 0.1, -999, rng.integers(5, 20, n)),
                "month": name,
            }
        )
    frames["all"] = pd.concat(frames.values())
    for name, frame in frames.items():
        frame.to_csv(folder / f"{name}.csv", index=False)
    return [folder / f"{name}.csv" for name in frames]


@pytest.fixture(scope="module")
def small_change(tmp_path_factory):
    """Many rows: x is shifted by a tenth of a deviation, the levels of word by more."""
    folder, rng = tmp_path_factory.mktemp("gate"), np.random.default_rng(1)
    paths = []
    for name, shift, proportion in (("old", 0.0, 0.5), ("new", 0.1, 0.7)):
        frame = pd.DataFrame(
            {
                "x": (rng.normal(size=4000) + shift).round(2),
                "word": np.where(rng.uniform(size=4000) < proportion, "a", "b"),
                "same": rng.choice(["a", "b"], 4000),
            }
        )
        paths.append(folder / f"{name}.csv")
        frame.to_csv(paths[-1], index=False)
    return paths


def test_a_difference_fails_only_with_fail(bke, tables):
    may, june, july, _ = tables
    options = ("--exclude", "month", *FAST)
    text = bke("drift", may, june, *options).stdout
    assert "may and june differ (p ≤ 0.01): 1 column has changed." in text
    assert "x (number) has changed" in text
    assert "'code' is -999 in" in text
    bke("drift", may, june, *options, "--fail", status=3)
    text = bke("drift", may, july, *options, "--fail").stdout
    assert "No difference between may and july was found" in text


def test_json_equals_the_result_in_python(bke_json, tables):
    may, june, *_ = tables
    summary = bke_json(
        "drift", may, june, "--exclude", "month", "--na-value=-999",
        "--column-type", "word=category", "--names", "old", "new", *FAST,
    )  # fmt: skip
    assert summary["command"] == "drift"
    assert summary["names"] == ["old", "new"]
    assert [column["kind"] for column in summary["columns"]] == ["number", "category", "integer"]
    assert summary["left_out"] == [{"name": "month", "reason": "excluded"}]
    assert summary["columns"][2]["effect"]["missing"][0] == pytest.approx(0.1, abs=0.1)
    assert min(summary["columns"][2]["effect"]["medians"]) >= 5


def test_markdown_has_every_column_and_no_stray_marks(bke, tables, tmp_path):
    may, june, *_ = tables
    path = tmp_path / "drift.md"
    bke("drift", may, june, "--exclude", "month", "--markdown", path, *FAST)
    text = path.read_text(encoding="utf-8")
    assert text.startswith("**may and june differ (p ≤ 0.01): 1 column has changed.**")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert [row.split(" | ")[0].strip("| ") for row in rows[:3]] == ["column", "---", "x"]
    assert len(rows) == 5
    assert all(row.replace("\\|", "").count("|") == 6 for row in rows)


def test_a_page_and_groups(bke, bke_json, tables, tmp_path):
    *_, combined = tables
    page = tmp_path / "report.html"
    text = bke("drift", combined, "--by", "month", "--against", "may", "--html", page, *FAST).stdout
    assert "1 of 2 comparisons of groups of month find a difference" in text
    assert f"Written: {page}" in text
    assert page.read_text(encoding="utf-8").count("<table") == 3
    rest = bke_json("drift", combined, "--by", "month", "--rest", "--exclude", "code", *FAST)
    assert len(rest["comparisons"]) == 3
    frame = pd.read_csv(combined)
    frame[frame["month"] != "july"].to_csv(tmp_path / "two.csv", index=False)
    text = bke("drift", tmp_path / "two.csv", "--by", "month", *FAST).stdout
    assert "month june and month may differ" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("{may}", "give two tables, or one and --by"),
        ("{may} {june} --by month", "give two tables, or one and --by"),
        ("{may} {june} --rest", "about the groups of --by"),
        ("{may} {june} --column-type month", "write --column-type month=category"),
        ("{may} {june} --column-type month:category", "write --column-type month=category"),
        ("{may} {june} --names a a", "must be two different names"),
        ("{may} {june} --html report.txt", "must end in .html"),
        ("{may} {june} --markdown no/a.md", "there is no folder no for a.md"),
        ("{may} {june} --markdown --quiet", "--quiet is an option"),
        ("{may} {june} --min-effect 0.1", "--min-effect and --max-changed are for --fail"),
        ("{may} {june} --max-changed 1", "--min-effect and --max-changed are for --fail"),
        ("{may} {june} --fail --min-effect 10", "between 0 and 1, and 10 is not"),
        ("{may} {june} --fail --min-effect nan", "between 0 and 1, and nan is not"),
        ("{may} {june} --fail --max-changed -1", "--max-changed"),
    ],
)
def test_wrong_usage(bke, tables, arguments, message):
    may, june, *_ = tables
    words = [word.format(may=may, june=june) for word in arguments.split()]
    assert message in bke("drift", *words, status=2).output


def test_invalid_input(bke, tables, tmp_path):
    may, june, *_ = tables
    (tmp_path / "a.csv").write_text("x,word\n1,2,3\n")
    refused = bke("drift", may, tmp_path / "a.csv", *FAST, status=1)
    assert "3 cells in line 2 but 2 columns" in refused.stderr
    refused = bke("drift", may, june, "--freq-weights", "x", "--weights", "x", *FAST, status=1)
    assert "freq_weights or weights, not both" in refused.stderr


@pytest.mark.parametrize(
    ("gate", "status"),
    [
        ((), 3),
        (("--min-effect", "0.1"), 3),
        (("--min-effect", "0.3"), 0),
        (("--max-changed", "0"), 3),
        (("--max-changed", "1"), 3),
        (("--max-changed", "2"), 0),
        (("--min-effect", "0.1", "--max-changed", "1"), 0),
    ],
)
def test_a_gate_counts_columns_whose_effect_size_exceeds_it(bke, small_change, gate, status):
    text = bke("drift", *small_change, "--fail", *gate, *FAST, status=status).stdout
    assert "2 columns have changed" in text
    last = text.splitlines()[-1]
    assert last.startswith(("Failed: old and new", "Passed: old and new")) == bool(gate)
    if gate:
        assert last.startswith("Failed" if status else "Passed")
        assert "Effect sizes: word 0.2" in last
        assert ", x 0.0" in last


def test_python_and_json_have_the_effect_sizes_of_a_gate(bke_json, small_change):
    result = compare_tables(*small_change, n_resamples=99, progress=False)
    frame = result.to_dataframe().set_index("name")
    old, new = (pd.read_csv(path) for path in small_change)
    expected = ks_2samp(old.x, new.x, method="asymp").statistic
    np.testing.assert_allclose(frame.effect_size["x"], expected)
    difference = (new.word == "a").mean() - (old.word == "a").mean()
    np.testing.assert_allclose(frame.effect_size["word"], difference)
    assert [column.name for column in result.changed_columns()] == ["x", "word"]
    assert [column.name for column in result.changed_columns(min_effect=0.1)] == ["word"]
    with pytest.raises(InputError, match="min_effect must be between 0 and 1, and is 5"):
        result.changed_columns(5)
    summary = bke_json("drift", *small_change, "--max-changed=2", "--fail", *FAST)
    sizes = [column["effect"]["size"] for column in summary["columns"]]
    assert sizes == frame.effect_size.tolist()
    gate = [summary[name] for name in ("failed", "max_changed", "min_effect")]
    assert gate == [False, 2, None]


def test_a_gate_of_groups_counts_the_columns_of_every_comparison(bke, tables):
    arguments = ("drift", tables[-1], "--by", "month", "--against", "may", "--fail", *FAST)
    text = bke(*arguments, "--min-effect", "0.1", status=3).stdout
    assert [line.split(":")[0] for line in text.splitlines()[-2:]] == ["Passed", "Failed"]
    bke(*arguments, "--max-changed", "1")
