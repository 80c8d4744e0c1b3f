"""``bke abc``, from files to files."""

import json
import sys
import textwrap

import numpy as np
import pandas as pd
import pytest
from bke.inference import load_run

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
    models = {
        "shift": MODEL,
        "plainly": PLAIN,
        "json": PLAIN,
        "empty": "prior = {}",
        "wrong": "import nothing_of_the_kind",
        "leaves": "raise SystemExit(3)",
        "typo": PLAIN.replace('theta["a"]', 'theta["b"]'),
        "ends": PLAIN.replace("    return", "    raise SystemExit(0)\n        return"),
    }
    for name, text in models.items():
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
    return tmp_path


OBSERVED = ("seen.csv", "--columns", "y", "--quiet")


def test_weighted(bke, folder):
    output = bke(
        "abc", "shift.py", *OBSERVED, "--simulations", 800, "--epsilon", "0.02,0.2", "--out", "out"
    ).output
    summary = json.loads((folder / "out" / "summary.json").read_text())
    assert [line["epsilon"] for line in summary["posterior"]] == [0.2, 0.02]
    assert summary["posterior"][1]["mean"] == pytest.approx(2.0, abs=0.6)
    assert summary["failed"] > 0
    note = f"{summary['failed']} of 800 simulations failed"
    assert note in summary["notes"][0]
    assert note in output
    table = pd.read_csv("out/posterior.csv")
    assert list(table) == ["a", "squared_distance", "weight at 0.2", "weight at 0.02"]
    assert table["a"] @ table["weight at 0.02"] == pytest.approx(summary["posterior"][1]["mean"])
    np.testing.assert_allclose(load_run("out/run.nc")["posterior"]["a"][0], table["a"])
    for name in ("posterior", "ess"):
        assert (folder / "out" / f"{name}.png").stat().st_size > 5000
    assert "shift" not in sys.modules


@pytest.mark.slow
def test_sequential_in_processes(bke_json, folder):
    summary = bke_json(
        "abc", "plainly.py", *OBSERVED, "--rows", 12, "--sequential", "--epsilon", 0.3,
        "--workers", 2, "--seed", 3, "--out", "out",
    )  # fmt: skip
    assert summary["stopped"] == "epsilon was reached"
    assert summary["seed"] == 3
    assert (folder / "out" / "stages.png").stat().st_size > 5000
    assert not (folder / "out" / "ess.png").exists()


def test_a_checkpoint_is_continued(bke, bke_json, folder):
    arguments = ("abc", "shift.py", *OBSERVED, "--simulations", 600, "--checkpoint", "part")
    first, second = bke_json(*arguments), bke_json(*arguments)
    assert first["posterior"] == second["posterior"]
    assert len(list((folder / "part").glob("batch-*.npz"))) == 2
    assert first["files"] == {}
    refused = bke(*arguments, "--seed", 1, status=1)
    assert "another run, with a different" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("gone.py", *OBSERVED), 1, "gone.py: no such file"),
        (("seen.csv", *OBSERVED), 1, "must end in .py"),
        (("json.py", *OBSERVED), 1, "rename it"),
        (("wrong.py", *OBSERVED), 1, "cannot be run: ModuleNotFoundError"),
        (("leaves.py", *OBSERVED), 1, "cannot be run: SystemExit"),
        (("empty.py", *OBSERVED), 1, "has no simulate"),
        (("shift.py", "gone.csv"), 1, "gone.csv"),
        (("shift.py", *OBSERVED, "--epsilon", "small"), 2, "not a list of numbers"),
        (("shift.py", *OBSERVED, "--epsilon", "0.1,0.1"), 1, "a number twice"),
        (("shift.py", *OBSERVED, "--epsilon", "0.1,0.2", "--sequential"), 2, "one --epsilon"),
        (("shift.py", *OBSERVED, "--workers", 2), 1, "workers are for plain functions"),
        (("shift.py", *OBSERVED, "--workers", 0), 1, "workers must be"),
        (("shift.py", *OBSERVED, "--simulations", 0), 1, "simulations must be"),
        (("shift.py", *OBSERVED, "--out", "seen.csv"), 1, "cannot be written"),
        (("plainly.py", *OBSERVED, "--simulations", 20), 1, "all 20 simulations failed"),
        (("typo.py", *OBSERVED), 1,
         "simulate in typo.py raised KeyError: 'b', while a data set was simulated for a ="),
        (("ends.py", *OBSERVED), 1, "raised RuntimeError: simulate ended the program by exit(0)"),
        (("ends.py", *OBSERVED, "--rows", 12, "--simulations", 50, "--workers", 2), 1,
         "raised RuntimeError: simulate ended the program by exit(0)"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_in_a_single_sentence(bke, folder, arguments, status, message):
    before = sorted(folder.iterdir())
    assert message in bke("abc", *arguments, status=status).output
    assert sorted(path for path in folder.iterdir() if path.name != "__pycache__") == before


def test_help_shows_a_model(bke):
    assert "def simulate(rng, theta):" in bke("abc", "--help").output
