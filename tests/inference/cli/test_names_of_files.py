"""Files with odd names: what is told of them stays on one line, and is written."""

import json
import os

import numpy as np
import pytest
from bke.inference.cli import app
from typer.testing import CliRunner

BROKEN, BYTES = "a\nb.csv", os.fsdecode(b"a\xff.csv")


def run(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments], env={"COLUMNS": "200"})


@pytest.fixture
def rows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name in (BROKEN, BYTES, "q.csv"):
        np.savetxt(name, rng.normal(size=(20, 2)), delimiter=",", header="u,v", comments="")


def test_a_test_tells_its_files_and_writes_its_summary(rows):
    name, told = BROKEN, r"a\nb.csv"
    options = ("--permutations", 19, "--out", "out")
    found = run("compare", name, "q.csv", *options)
    assert found.exit_code == 0
    assert f": {told}, 20 rows; q: q.csv, 20 rows; u, v\n" in found.stdout
    with open("out/compare.json", encoding="utf-8") as file:
        assert json.load(file)["sources"]["P"] == name  # by which the file is found again


def test_a_message_names_the_whole_file(rows):
    found = run("compare", "no\nfile.csv", "q.csv")
    assert found.exit_code == 1
    assert found.stderr == "bke: no\\nfile.csv does not exist\n"


@pytest.mark.parametrize("command", ["drift", "compare"])
def test_a_name_that_is_not_text_is_refused(rows, command):
    found = run(command, BYTES, "q.csv")
    assert found.exit_code == 1
    assert found.stderr == "bke: a\\udcff.csv has a name that is not UTF-8: rename it\n"


def test_a_warning_is_a_sentence(rows):
    with open("q.csv", "w") as file:
        file.write("0,1\n" + "1.5,2\n2.5,3\n3.5,1\n" * 5)
    found = run("compare", BROKEN, "q.csv", "--permutations", 19)
    assert found.exit_code == 0
    assert "bke: warning: q.csv: its first row, 0, 1, is read as numbers" in found.stderr
    assert "UserWarning" not in found.stderr
