"""Tests of resumed runs and their dates in ``benchmarks/abc_runs.py``."""

import argparse
import json

import pytest


@pytest.fixture(scope="module")
def runs(load):
    return load("abc_runs")


@pytest.mark.parametrize(
    ("argument", "computed"),
    [
        ([], {(0, "long"), (1, "short"), (1, "long")}),
        (["--only", "long"], {(0, "long")}),
        (["--only", "short"], set()),
    ],
)
def test_only_missing_methods_are_computed(runs, tmp_path, monkeypatch, argument, computed):
    recorded = {
        "machine": {"date": "then"},
        "settings": {},
        "rows": [{"data": 0, "side": "short"}],
    }
    (tmp_path / "some.json").write_text(json.dumps(recorded))
    parser = argparse.ArgumentParser()
    runs.add_options(parser, 2, 100)
    options = parser.parse_args(["--resume", "--results", str(tmp_path), *argument])

    class Pool:
        def __init__(self, *_):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def submit(self, function, *arguments):
            return argparse.Namespace(result=lambda: function(*arguments))

    monkeypatch.setattr(runs, "ProcessPoolExecutor", Pool)
    monkeypatch.setattr(runs, "as_completed", list)
    rows = runs.fill(
        "some",
        "Some",
        lambda seed, _, wanted: [{"data": seed, "side": side} for side in wanted],
        ("short", "long"),
        lambda *_: "",
        {},
        options,
    )
    assert {(row["data"], row["side"]) for row in rows if row["date"] != "then"} == computed
    assert [row["side"] for row in rows if row["date"] == "then"] == ["short"]


def test_only_requires_resume(runs, tmp_path):
    parser = argparse.ArgumentParser()
    runs.add_options(parser, 2, 100)
    options = parser.parse_args(["--only", "long", "--results", str(tmp_path)])
    with pytest.raises(SystemExit, match="--resume"):
        runs.fill("some", "Some", None, ("short", "long"), None, {}, options)


def test_dates_of_several_runs(runs):
    rows = [{"side": side, "date": date} for side, date in (("a", "1"), ("b", "1"), ("c", "2"))]
    assert runs.dates(rows, "abcd") == "Computed in the run of 2: `c`. All the others are of 1."
    assert runs.dates(rows[:2], "abcd") == ""
