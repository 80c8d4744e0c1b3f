"""``bke density``, from files to files."""

import json

import numpy as np
import pandas as pd
import pytest


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    pd.DataFrame({"mm": rng.normal(1000.0, 2.0, 25)}).to_csv("usual.csv", index=False)
    pd.DataFrame({"mm": [1000.0, 1040.0]}).to_csv("new.csv", index=False)
    pd.DataFrame(rng.normal(size=(20, 3)), columns=list("abc")).to_csv("wide.csv", index=False)
    return tmp_path


@pytest.mark.slow
def test_density(bke, folder):
    output = bke("density", "usual.csv", "--at", "new.csv", "--out", "out").output
    assert "1 of 2 rows of new.csv have a typicality of at most 0.05: the least" in output
    assert "row 2 (mm " in output
    assert "1 row(s) are outside the box [" in output
    table = pd.read_csv("out/density.csv")
    assert list(table) == ["mm", "log_density", "typicality"]
    assert table["log_density"][0] == pytest.approx(np.log(0.4 / 2.0), abs=0.7)
    assert table["log_density"][1] == -np.inf  # outside the box
    assert table["typicality"][1] == pytest.approx(1.0 / 26.0)
    summary = json.loads((folder / "out" / "summary.json").read_text())
    assert summary["normalized"] is True
    assert summary["log_density"][1] is None
    assert (folder / "out" / "picture.png").stat().st_size > 5000


@pytest.mark.slow
def test_density_of_several_columns(bke_json, folder):
    summary = bke_json("density", "wide.csv", "--quiet")
    assert summary["normalized"] is False
    assert len(summary["typicality"]) == 20
    assert min(summary["typicality"]) == 1.0 / 20.0  # of rows among themselves


def test_invalid_input(bke, folder):
    bke("density", "none.csv", status=1)
    bke("density", "usual.csv", "--kernel", "best", status=2)
    assert "mm" in bke("density", "usual.csv", "--at", "wide.csv", "--quiet", status=1).stderr
