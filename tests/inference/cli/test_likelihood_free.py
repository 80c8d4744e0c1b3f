"""The command abc, from files to files."""

from __future__ import annotations

import json
import sys
import textwrap

import numpy as np
import pandas as pd
import pytest
from bke.inference import load_run
from bke.inference.cli import app
from typer.testing import CliRunner

MODEL = """
    import numpy as np
    import numpyro.distributions as dist
    from bke.inference import vectorize

    print("being read")
    prior = {"a": dist.Uniform(0.0, 4.0)}

    @vectorize
    def simulate(rng, theta):
        values = theta["a"][:, None] + rng.normal(size=(len(theta["a"]), 30))
        values[theta["a"] > 3.9] = np.nan
        return values
"""
PLAIN = """
    import numpyro.distributions as dist

    prior = {"a": dist.Uniform(0.0, 4.0)}

    def simulate(rng, theta):
        return theta["a"] + rng.normal(size=12)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    values = np.random.default_rng(0).normal(2.0, 1.0, size=30)
    pd.DataFrame({"y": values, "z": 1.0}).to_csv("seen.csv", index=False)
    (tmp_path / "shift.py").write_text(textwrap.dedent(MODEL))
    (tmp_path / "plainly.py").write_text(textwrap.dedent(PLAIN))
    (tmp_path / "empty.py").write_text("prior = {}")
    (tmp_path / "wrong.py").write_text("import nothing_of_the_kind")
    (tmp_path / "json.py").write_text(textwrap.dedent(PLAIN))
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


SEEN = ("seen.csv", "--columns", "y", "--quiet")


def test_weighted(folder):
    done = run("abc", "shift.py", *SEEN, "--simulations", 800, "--epsilon", "0.02,0.2", "--out",
               "out")  # fmt: skip
    assert done.exit_code == 0, done.output
    summary = json.loads((folder / "out" / "summary.json").read_text())
    assert [line["epsilon"] for line in summary["posterior"]] == [0.2, 0.02]
    assert summary["posterior"][1]["mean"] == pytest.approx(2.0, abs=0.6)
    assert summary["failed"] > 0
    assert f"{summary['failed']} of 800 simulations failed" in summary["notes"][0]
    assert f"{summary['failed']} of 800 simulations failed" in done.output
    table = pd.read_csv("out/posterior.csv")
    assert list(table) == ["a", "squared_distance", "weight at 0.2", "weight at 0.02"]
    assert table["a"] @ table["weight at 0.02"] == pytest.approx(summary["posterior"][1]["mean"])
    kept = load_run("out/run.nc")
    np.testing.assert_allclose(kept["posterior"]["a"][0], table["a"])
    for name in ("posterior", "ess"):
        assert (folder / "out" / f"{name}.png").stat().st_size > 5000
    assert "shift" not in sys.modules


@pytest.mark.parametrize("workers", [(), ("--workers", 2)])
def test_a_simulator_that_ends_the_program_has_failed(folder, workers):
    text = textwrap.dedent(PLAIN).replace("    return", "    raise SystemExit(0)\n    return")
    (folder / "ends.py").write_text(text)
    done = run("abc", "ends.py", *SEEN, "--rows", 12, "--simulations", 50, *workers)
    assert done.exit_code == 1
    assert "simulate in ends.py raised RuntimeError: simulate ended the program by exit(0)" in (
        done.stderr
    )
    assert "while a data set was simulated for a = " in done.stderr


@pytest.mark.slow
def test_sequential_in_processes(folder):
    done = run("abc", "plainly.py", *SEEN, "--rows", 12, "--sequential",
               "--epsilon", 0.3, "--workers", 2, "--seed", 3, "--out", "out", "--json")  # fmt: skip
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["stopped"] == "epsilon was reached"
    assert told["seed"] == 3
    assert (folder / "out" / "stages.png").stat().st_size > 5000
    assert not (folder / "out" / "ess.png").exists()


def test_going_on(folder):
    arguments = ("abc", "shift.py", *SEEN, "--simulations", 600, "--checkpoint", "kept", "--json")
    first, second = run(*arguments), run(*arguments)
    assert first.exit_code == second.exit_code == 0, first.output
    one, other = (json.loads(done.stdout) for done in (first, second))
    assert one["posterior"] == other["posterior"]
    assert len(list((folder / "kept").glob("batch-*.npz"))) == 2
    assert one["files"] == {}
    again = run(*arguments, "--seed", 1)
    assert again.exit_code == 1
    assert "another run, with a different" in again.output


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("gone.py", *SEEN), 1, "gone.py: no such file"),
        (("seen.csv", *SEEN), 1, "must end in .py"),
        (("json.py", *SEEN), 1, "rename it"),
        (("wrong.py", *SEEN), 1, "cannot be run: ModuleNotFoundError"),
        (("empty.py", *SEEN), 1, "has no simulate"),
        (("shift.py", "gone.csv"), 1, "gone.csv"),
        (("shift.py", *SEEN, "--epsilon", "small"), 2, "not a list of numbers"),
        (("shift.py", *SEEN, "--epsilon", "0.1,0.1"), 1, "a number twice"),
        (("shift.py", *SEEN, "--epsilon", "0.1,0.2", "--sequential"), 2, "one --epsilon"),
        (("shift.py", *SEEN, "--workers", 2), 1, "workers are for plain functions"),
        (("shift.py", *SEEN, "--workers", 0), 1, "workers must be"),
        (("shift.py", *SEEN, "--simulations", 0), 1, "simulations must be"),
        (("shift.py", *SEEN, "--out", "seen.csv"), 1, "cannot be written"),
        (("plainly.py", *SEEN, "--simulations", 20), 1, "all 20 simulations failed"),
    ],
)
def test_bad_input_is_one_sentence(folder, arguments, code, message):
    before = sorted(folder.iterdir())
    done = run("abc", *arguments)
    assert done.exit_code == code, done.output
    assert message in done.output
    assert "Traceback" not in done.output
    assert sorted(path for path in folder.iterdir() if path.name != "__pycache__") == before


def test_help_shows_a_model():
    done = run("abc", "--help")
    assert done.exit_code == 0
    assert "def simulate(rng, theta):" in done.output


def test_errors_of_the_model_are_told_as_such(folder):
    (folder / "typo.py").write_text(textwrap.dedent(PLAIN).replace('theta["a"]', 'theta["b"]'))
    done = run("abc", "typo.py", *SEEN, "--simulations", 20)
    assert done.exit_code == 1
    assert "simulate in typo.py raised KeyError: 'b', while a data set was simulated for a =" in (
        " ".join(done.output.split())
    )
    (folder / "leaves.py").write_text("raise SystemExit(3)")
    done = run("abc", "leaves.py", *SEEN, "--simulations", 20)
    assert done.exit_code == 1
    assert "cannot be run: SystemExit" in done.output
