"""``bke drift``: two tables on the command line."""

import json

import numpy as np
import pandas as pd
import pytest
from bke.inference import InputError, compare_tables
from bke.inference.cli import app
from scipy.stats import ks_2samp
from typer.testing import CliRunner

WIDE = {"COLUMNS": "200", "TERMINAL_WIDTH": "200", "NO_COLOR": "1"}
FAST = ("--permutations", "99", "--quiet")


def drift(*arguments):
    return CliRunner().invoke(app, ["drift", *map(str, arguments)], env=WIDE)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(0)
    paths = []
    for name, shift, n in (("may", 0.0, 90), ("june", 1.0, 110), ("july", 0.0, 100)):
        frame = pd.DataFrame(
            {
                "x": (rng.normal(size=n) + shift).round(3),
                "word": rng.choice(["a", "b"], n),
                "code": np.where(rng.uniform(size=n) < 0.1, -999, rng.integers(5, 20, n)),
                "month": name,
            }
        )
        paths.append(folder / f"{name}.csv")
        frame.to_csv(paths[-1], index=False)
    return paths


def test_a_difference_is_told_and_is_a_failure_only_if_asked_for(tables):
    may, june, july = tables
    found = drift(may, june, "--exclude", "month", *FAST)
    assert found.exit_code == 0
    assert "may and june differ (p ≤ 0.01): 1 column has changed." in found.stdout
    assert "x (number) has changed" in found.stdout
    assert "'code' is -999 in" in found.stdout
    assert drift(may, june, "--exclude", "month", "--fail", *FAST).exit_code == 3
    same = drift(may, july, "--exclude", "month", "--fail", *FAST)
    assert same.exit_code == 0
    assert "No difference between may and july was found" in same.stdout


def test_json_is_what_python_gives(tables):
    may, june, _ = tables
    found = drift(
        may, june, "--exclude", "month", "--na-value=-999", "--column-type", "word=category",
        "--json", "--names", "old", "new", *FAST,
    )  # fmt: skip
    told = json.loads(found.stdout)
    assert told["command"] == "drift"
    assert told["names"] == ["old", "new"]
    assert [column["kind"] for column in told["columns"]] == ["number", "category", "integer"]
    assert told["left_out"] == [{"name": "month", "reason": "excluded"}]
    assert told["columns"][2]["effect"]["missing"][0] == pytest.approx(0.1, abs=0.1)
    assert min(told["columns"][2]["effect"]["medians"]) >= 5


def test_markdown_has_every_column_and_no_stray_marks(tables, tmp_path):
    may, june, _ = tables
    path = tmp_path / "drift.md"
    found = drift(may, june, "--exclude", "month", "--markdown", path, *FAST)
    assert found.exit_code == 0
    text = path.read_text(encoding="utf-8")
    assert text.startswith("**may and june differ (p ≤ 0.01): 1 column has changed.**")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert [row.split(" | ")[0].strip("| ") for row in rows[:3]] == ["column", "---", "x"]
    assert len(rows) == 5
    assert all(row.replace("\\|", "").count("|") == 6 for row in rows)
    assert drift(may, june, "--markdown", tmp_path / "no" / "a.md", *FAST).exit_code == 2
    assert drift(may, june, "--markdown", "--quiet").exit_code == 2


def test_one_table_is_divided_by_a_column(tables, tmp_path):
    whole = pd.concat([pd.read_csv(path) for path in tables[:2]])
    path = tmp_path / "whole.csv"
    whole.to_csv(path, index=False)
    found = drift(path, "--by", "month", *FAST)
    assert "month june and month may differ" in found.stdout
    assert drift(path, *FAST).exit_code == 2
    assert drift(path, path, "--by", "month", *FAST).exit_code == 2
    assert drift(path, path, "--column-type", "month", *FAST).exit_code == 2
    refused = drift(path, path, "--column-type", "month:category", *FAST)
    assert "write --column-type month=category" in " ".join(refused.output.replace("│", "").split())


def test_bad_tables_are_one_sentence(tables, tmp_path):
    (tmp_path / "a.csv").write_text("x,word\n1,2,3\n")
    found = drift(tables[0], tmp_path / "a.csv", *FAST)
    assert found.exit_code == 1
    assert found.stderr.startswith("bke: ")
    assert "3 cells in line 2 but 2 columns" in found.stderr


def test_a_page_and_groups(tables, tmp_path):
    whole = tmp_path / "all.csv"
    pd.concat([pd.read_csv(path) for path in tables]).to_csv(whole, index=False)
    page = tmp_path / "report.html"
    found = drift(whole, "--by", "month", "--against", "may", "--html", page, *FAST)
    assert found.exit_code == 0, found.output
    assert "1 of 2 comparisons of groups of month find a difference" in found.stdout
    assert f"Written: {page}" in found.stdout
    assert page.read_text(encoding="utf-8").count("<table") == 3
    rest = drift(whole, "--by", "month", "--rest", "--json", "--exclude", "code", *FAST)
    assert len(json.loads(rest.stdout)["comparisons"]) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--html", "report.txt"), "must end in .html"),
        (("--rest",), "about the groups of --by"),
        (("--freq-weights", "x", "--weights", "x"), "freq_weights or weights, not both"),
    ],
)
def test_options_that_make_no_sense(tables, arguments, message):
    found = drift(*tables[:2], *arguments, *FAST)
    assert found.exit_code != 0
    assert message in " ".join(found.output.split())


@pytest.fixture(scope="module")
def small_change(tmp_path_factory):
    """Many rows: x is shifted by a tenth of a deviation, the levels of word by more."""
    folder, rng = tmp_path_factory.mktemp("gate"), np.random.default_rng(1)
    paths = []
    for name, shift, share in (("old", 0.0, 0.5), ("new", 0.1, 0.7)):
        frame = pd.DataFrame(
            {
                "x": (rng.normal(size=4000) + shift).round(2),
                "word": np.where(rng.uniform(size=4000) < share, "a", "b"),
                "same": rng.choice(["a", "b"], 4000),
            }
        )
        paths.append(folder / f"{name}.csv")
        frame.to_csv(paths[-1], index=False)
    return paths


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
def test_a_gate_counts_columns_that_have_changed_enough(small_change, gate, status):
    found = drift(*small_change, "--fail", *gate, *FAST)
    assert found.exit_code == status, found.output
    assert "2 columns have changed" in found.stdout
    last = found.stdout.splitlines()[-1]
    assert last.startswith(("Failed: old and new", "Passed: old and new")) == bool(gate)
    if gate:
        assert last.startswith("Failed" if status else "Passed")
        assert "Effect sizes: word 0.2" in last
        assert ", x 0.0" in last


def test_python_and_json_have_the_effect_sizes_of_a_gate(small_change):
    found = compare_tables(*small_change, n_resamples=99, progress=False)
    frame = found.to_dataframe().set_index("name")
    each = [pd.read_csv(path) for path in small_change]
    expected = ks_2samp(each[0].x, each[1].x, method="asymp").statistic
    np.testing.assert_allclose(frame.effect_size["x"], expected)
    share = [(one.word == "a").mean() for one in each]
    np.testing.assert_allclose(frame.effect_size["word"], share[1] - share[0])
    assert [column.name for column in found.changed_columns()] == ["x", "word"]
    assert [column.name for column in found.changed_columns(min_effect=0.1)] == ["word"]
    with pytest.raises(InputError, match="min_effect must be between 0 and 1, and is 5"):
        found.changed_columns(5)
    told = json.loads(drift(*small_change, "--json", "--max-changed=2", "--fail", *FAST).stdout)
    assert [one["effect"]["size"] for one in told["columns"]] == frame.effect_size.tolist()
    assert (told["failed"], told["max_changed"], told["min_effect"]) == (False, 2, None)
    told = json.loads(drift(*small_change, "--json", "--max-changed=1", "--fail", *FAST).stdout)
    assert told["failed"] is True


def test_a_gate_of_groups_counts_the_columns_of_each_comparison(tables, tmp_path):
    whole = tmp_path / "all.csv"
    pd.concat([pd.read_csv(path) for path in tables]).to_csv(whole, index=False)
    arguments = (whole, "--by", "month", "--against", "may", "--fail", *FAST)
    found = drift(*arguments, "--min-effect", "0.1")
    assert found.exit_code == 3
    assert [line.split(":")[0] for line in found.stdout.splitlines()[-2:]] == ["Passed", "Failed"]
    assert drift(*arguments, "--max-changed", "1").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--min-effect", "0.1"), "--min-effect and --max-changed are for --fail"),
        (("--max-changed", "1"), "--min-effect and --max-changed are for --fail"),
        (("--fail", "--min-effect", "10"), "between 0 and 1, and 10 is not"),
        (("--fail", "--min-effect", "nan"), "between 0 and 1, and nan is not"),
        (("--fail", "--max-changed", "-1"), "greater than or equal to 0"),
    ],
)
def test_a_gate_that_makes_no_sense_is_wrong_usage(tables, arguments, message):
    found = drift(*tables[:2], *arguments, *FAST)
    assert found.exit_code == 2
    assert message in " ".join(found.output.replace("│", "").split())
