"""The commands condition, bayes, filter and shrink, from files to files."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from bke.inference.cli import app
from typer.testing import CliRunner

QUICK = ["--kernel", "median", "--quiet"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    x = rng.uniform(-3.0, 3.0, 150)
    pairs = {"x": x, "kelvin": 273.0 + np.sin(2.0 * x) + 0.2 * rng.normal(size=150)}
    pd.DataFrame(pairs).to_csv("pairs.csv", index=False)
    pd.DataFrame({"x": [-2.0, 0.5, 30.0]}).to_csv("at.csv", index=False)
    theta = rng.normal(0.0, 2.0, 200)
    simulated = {"theta": theta, "y": theta + 0.5 * rng.normal(size=200)}
    pd.DataFrame(simulated).to_csv("simulated.csv", index=False)
    pd.DataFrame({"theta": rng.normal(1.0, 0.5, 200)}).to_csv("prior.csv", index=False)
    pd.DataFrame({"y": [0.5, 1.5, 50.0]}).to_csv("seen.csv", index=False)
    angle = np.cumsum(0.3 + 0.1 * rng.normal(size=160))
    states = np.column_stack([np.cos(angle), np.sin(angle)])
    series = np.hstack([states, states + 0.3 * rng.normal(size=states.shape)])
    table = pd.DataFrame(series, columns=["u", "v", "a", "b"])
    table[:120].to_csv("training.csv", index=False)
    table.loc[125, "a"] = 80.0
    table[120:].to_csv("new.csv", index=False)
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_condition(folder):
    done = run("condition", "pairs.csv", "--given", "x", "--of", "kelvin", "--at", "at.csv",
               *QUICK, "--out", "out")  # fmt: skip
    assert done.exit_code == 0, done.output
    table = pd.read_csv("out/conditional.csv")
    assert list(table) == ["x", "kelvin.mean", "kelvin.sd", "sum_of_weights"]
    np.testing.assert_allclose(table["kelvin.mean"][:2], 273.0 + np.sin([-4.0, 1.0]), atol=0.15)
    assert 0.1 < table["kelvin.sd"][0] < 0.35
    assert np.isnan(table["kelvin.mean"][2])  # far from all pairs
    assert "Row 3 is far from the training pairs" in done.output
    summary = json.loads((folder / "out" / "summary.json").read_text())
    assert summary["mean"][2] == [None]
    assert (folder / "out" / "picture.png").stat().st_size > 5000


def test_bayes(folder):
    done = run("bayes", "simulated.csv", "prior.csv", "seen.csv", "--hidden", "theta", "--seen",
               "y", *QUICK, "--out", "out")  # fmt: skip
    assert done.exit_code == 0, done.output
    table = pd.read_csv("out/posterior.csv")
    # Gaussian: precisions of 4 each, so half way between the prior's mean and the observation.
    np.testing.assert_allclose(table["theta.mean"][:2], [0.75, 1.25], atol=0.2)
    assert np.isnan(table["theta.mean"][2])
    assert "Observation 3 is far" in done.output


@pytest.mark.slow
def test_filter(folder):
    done = run("filter", "training.csv", "new.csv", "--states", "u,v", "--observations", "a,b",
               "--ahead", 2, *QUICK, "--out", "out")  # fmt: skip
    assert done.exit_code == 0, done.output
    table = pd.read_csv("out/states.csv")
    parts = ("filtered", "mode", "smoothed", "ahead")
    assert list(table) == ["step", *(f"{c}.{part}" for part in parts for c in "uv")]
    truth = pd.read_csv("new.csv")
    kept = np.arange(40) != 5
    seen = np.mean((truth[["a", "b"]].values - truth[["u", "v"]].values)[kept] ** 2)
    for part in ("filtered", "smoothed"):
        found = table[[f"u.{part}", f"v.{part}"]].values
        assert np.mean((found - truth[["u", "v"]].values)[kept] ** 2) < seen
    assert "Observation 6 is far from all of training and left out" in done.output
    assert json.loads((folder / "out" / "summary.json").read_text())["left_out"] == [6]


def test_shrink(folder):
    done = run("shrink", "pairs.csv", "--columns", "x", *QUICK, "--out", "out", "--json")
    assert done.exit_code == 0, done.output
    table = pd.read_csv("out/weights.csv")
    assert list(table)[:2] == ["x", "empirical"]
    np.testing.assert_allclose(table["empirical"], 1.0 / 150.0)
    assert 0.9 < table["leave-one-out"].sum() < 1.0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("condition", "pairs.csv", "--given", "x", "--of", "x"), 2, "in both"),
        (("condition", "pairs.csv", "--given", "z", "--of", "x"), 1, "z"),
        (("condition", "pairs.csv", "--given", "x"), 2, "--of"),
        (("bayes", "simulated.csv", "prior.csv", "at.csv", "--hidden", "theta", "--seen", "y"),
         1, "at.csv"),
        (("filter", "new.csv", "gone.csv", "--states", "u", "--observations", "a"), 1, "gone.csv"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence(folder, arguments, code, message):
    done = run(*arguments)
    assert done.exit_code == code
    assert message in done.output
    assert "Traceback" not in done.output
