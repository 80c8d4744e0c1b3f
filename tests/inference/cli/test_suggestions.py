"""A mistyped name is answered with the one that was meant, where there is one like it."""

import numpy as np
import pandas as pd
import pytest
from bke.inference import InputError, causal_graph, fit, two_sample_test
from bke.inference.cli import app
from bke.inference.core.errors import nearest
from typer.testing import CliRunner


@pytest.mark.parametrize(
    ("name", "known", "told"),
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
def test_the_nearest_of_the_names_that_there_are(name, known, told):
    assert nearest(name, known) == told


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(12, 3)), columns=["Ozone", "Temp", "Wind"])
    frame.to_csv(tmp_path / "rows.csv", index=False)
    return tmp_path / "rows.csv"


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (("comapre",), 2, "Did you mean 'compare'"),
        (("compare", "{}", "{}", "--permutation", "99"), 2, "--permutations"),
        (("fit", "{}", "--kernel", "matren32"), 2, "; did you mean 'matern32'?"),
        (("fit", "{}", "--method", "nutz"), 2, "'nutz' is not one of 'auto', 'nuts', 'quadrature'"),
        (("compare", "{}", "{}", "--columns", "Temprature"), 1, "; did you mean 'Temp'?"),
        (("independence", "{}", "--x", "ozon", "--y", "Temp"), 1, "; did you mean 'Ozone'?"),
        (("drift", "{}", "--by", "Winds"), 1, "; did you mean 'Wind'?"),
        (("drift", "{}", "{}", "--column-type", "Temp=txt"), 1, "; did you mean 'text'?"),
        (("drift", "{}", "{}", "--exclude", "zzz"), 1, "'Wind'\n"),
    ],
)
def test_the_command_line_tells_what_was_meant(arguments, status, told, table):
    given = [table if each == "{}" else each for each in arguments]
    done = CliRunner().invoke(app, [str(each) for each in given], env={"COLUMNS": "300"})
    assert done.exit_code == status
    assert told in done.stderr


@pytest.mark.parametrize(
    ("call", "told"),
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
def test_so_does_the_library(call, told):
    with pytest.raises(InputError, match=told.replace("?", r"\?")):
        call(np.random.default_rng(0).normal(size=(8, 3)))


def test_a_parameter_of_a_posterior(tmp_path):
    import arviz_base

    rng = np.random.default_rng(1)
    tree = arviz_base.from_dict({"posterior": {"theta": rng.normal(size=(2, 40))}})
    tree.to_netcdf(tmp_path / "draws.nc", engine="h5netcdf")
    asked = ["chains", str(tmp_path / "draws.nc"), "--parameters", "teta"]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 1
    assert "there are theta; did you mean 'theta'?" in done.stderr
