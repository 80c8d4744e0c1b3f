"""Messages: one sentence in the words of the command line, with the name that was meant."""

import json
import os

import numpy as np
import pandas as pd
import pytest
import typer
from bke.inference import InputError, causal_graph, fit, two_sample_test
from bke.inference.cli.terminal import exit_codes
from bke.inference.core.errors import nearest

BROKEN, BYTES = "a\nb.csv", os.fsdecode(b"a\xff.csv")


@pytest.fixture
def rows(tmp_path, monkeypatch, write_csv):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name in (BROKEN, BYTES, "q.csv"):
        write_csv(name, rng.normal(size=(20, 3)), "Ozone,Temp,Wind")


@pytest.mark.parametrize(
    ("message", "printed"),
    [
        ("no\nfile: use method='smc'", "no\\nfile: use --method smc"),
        ("noise_variance='clt' with it", "--noise-variance clt with it"),
        ("got 'smc', x=3 and name=None", "got 'smc', x=3 and name=None"),
        ("", "InputError"),
    ],
)
def test_an_error_is_a_single_sentence_with_names_of_the_command_line(message, printed, capsys):
    with pytest.raises(typer.Exit) as ended, exit_codes(False):
        raise InputError(message)
    assert ended.value.exit_code == 1
    assert capsys.readouterr().err == f"bke: {printed}\n"


def test_names_of_files_stay_on_a_single_line(bke, rows):
    options = ("--permutations", 19, "--out", "out")
    result = bke("compare", BROKEN, "q.csv", *options)
    assert r": a\nb.csv, 20 rows; q: q.csv, 20 rows; Ozone, Temp, Wind" in result.stdout
    with open("out/compare.json", encoding="utf-8") as file:
        assert json.load(file)["sources"]["P"] == BROKEN  # by which the file is found again
    refused = bke("compare", "no\nfile.csv", "q.csv", status=1)
    assert refused.stderr == "bke: no\\nfile.csv does not exist\n"
    for command in ("drift", "compare"):
        refused = bke(command, BYTES, "q.csv", status=1)
        assert refused.stderr == "bke: a\\udcff.csv has a name that is not UTF-8: rename it\n"


def test_a_warning_is_a_sentence(bke, rows):
    with open("q.csv", "w") as file:
        file.write("0,1,2\n" + "1.5,2,1\n2.5,3,2\n3.5,1,4\n" * 5)
    result = bke("compare", BROKEN, "q.csv", "--permutations", 19)
    assert "bke: warning: q.csv: its first row, 0, 1, 2, is read as numbers" in result.stderr
    assert "UserWarning" not in result.stderr


@pytest.mark.parametrize(
    ("name", "known", "message"),
    [
        ("Temprature", ["Ozone", "Temp", "Wind"], "; did you mean 'Temp'?"),
        ("OZONE", ["Temp", "Ozone"], "; did you mean 'Ozone'?"),
        ("weight", ["height", "width"], "; did you mean 'height'?"),
        ("zz", ["Ozone", "Temp"], ""),
        ("", ["Ozone"], ""),
        ("Ozone", [], ""),
        (3, ["3"], ""),
        ("pooled", (None, "pooled ", "column"), "; did you mean 'pooled '?"),
    ],
)
def test_the_nearest_name(name, known, message):
    assert nearest(name, known) == message


@pytest.mark.parametrize(
    ("command", "status", "message"),
    [
        ("comapre", 2, "Did you mean 'compare'"),
        ("compare q.csv q.csv --permutation 99", 2, "--permutations"),
        ("fit q.csv --kernel matren32", 2, "; did you mean 'matern32'?"),
        ("fit q.csv --method nutz", 2, "'nutz' is not one of 'auto', 'nuts', 'quadrature'"),
        ("compare q.csv q.csv --columns Temprature", 1, "; did you mean 'Temp'?"),
        ("independence q.csv --x ozon --y Temp", 1, "; did you mean 'Ozone'?"),
        ("drift q.csv --by Winds", 1, "; did you mean 'Wind'?"),
        ("drift q.csv q.csv --column-type Temp=txt", 1, "; did you mean 'text'?"),
        ("drift q.csv q.csv --exclude zzz", 1, "'Wind'\n"),
    ],
)
def test_commands_suggest_the_nearest_name(bke, rows, command, status, message):
    assert message in bke(*command.split(), status=status).stderr


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda X: two_sample_test(X, X, kernel="mutliscale"), "; did you mean 'multiscale'?"),
        (lambda X: two_sample_test(X, X, method="spectral"), "; did you mean 'spectrum'?"),
        (lambda X: fit(X, standardize="columns"), "; did you mean 'column'?"),
        (lambda X: fit(X, method="quadratur"), "; did you mean 'quadrature'?"),
        (lambda X: fit(X, method=None), "got None$"),
        (lambda X: causal_graph(pd.DataFrame(X, columns=["a1", "b", "c"]), columns=["a", "b", "c"]),
         "; did you mean 'a1'?"),
    ],
    ids=range(6),
)  # fmt: skip
def test_functions_suggest_the_nearest_name(call, message):
    with pytest.raises(InputError, match=message.replace("?", r"\?")):
        call(np.random.default_rng(0).normal(size=(8, 3)))
