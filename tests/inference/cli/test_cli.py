"""``bke run``, ``fit``, ``diagnose``, ``witness``, ``compare`` and ``independence``."""

import dataclasses
import hashlib
import html
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from bke.inference import (
    InputError,
    SamplingError,
    compare,
    independence_test,
    load_run,
    normal_laplace,
)
from bke.inference.cli.outputs import Output
from bke.inference.cli.terminal import Terminal
from bke.inference.core.render import plain, to_json
from bke.inference.data import checks
from bke.inference.sampling.samplers import Auto

TINY = ("--method", "nuts", "--chains", "2", "--warmup", "20", "--draws", "10", "--seed", "3")
FAST = ("--permutations", "99", "--quiet")
FILES = {"run.nc", "comparison.png", "witness.nc", "summary.json", "samples.png", "trace.png",
         "rank.png", "profile.png", "witness.png"}  # fmt: skip
#: Files that every folder has as well.
LISTS = {"bke-files.json", ".bke.lock"}
RNG = np.random.default_rng(5)
P, Q = RNG.normal(size=(20, 1)), RNG.laplace(size=(24, 1))


@pytest.fixture(scope="module")
def samples(tmp_path_factory, write_csv):
    folder = tmp_path_factory.mktemp("samples")
    return write_csv(folder / "P.csv", P, "height"), write_csv(folder / "Q.csv", Q, "height")


@pytest.fixture(scope="module")
def finished(bke, samples, tmp_path_factory):
    """The folder of one run, and its standard output."""
    out = tmp_path_factory.mktemp("finished") / "new" / "folder"
    page = out.parent.parent / "report.html"
    options = ("--out", out, "--html", page, "--json", "--quiet")
    return out, bke("run", *samples, *TINY, *options).stdout


@pytest.fixture
def refusal(bke):
    """Standard error of a command that fails."""
    return lambda *arguments: bke(*arguments, status=1).stderr


@pytest.fixture
def no_pictures(monkeypatch):
    monkeypatch.setattr(Output, "draw", lambda *_: {})


@pytest.fixture
def fit_arguments(monkeypatch):
    """Record the arguments of ``fit``, and stop there."""
    calls = []

    def stop(data, **options):
        calls.append({"data": data, **options})
        raise SamplingError("stopped by the test")

    monkeypatch.setattr("bke.inference.fit", stop)
    return calls


@pytest.mark.parametrize(
    "command",
    [
        "run P.csv",
        "run --chains many",
        "run --kernel gauss",
        "run --standardize row",
        "run --noise none",
        "run --colums a",
        "run a.csv b.csv c.csv",
        "run a.csv b.csv --names a a",
        "fit",
        "fit P.npy --checkpoint part",
        "fit P.csv --noise-variance lots",
        "fit P.csv --kernel gauss",
        "diagnose",
        "diagnose run.nc --html a.txt",
        "witness run.nc P.csv",
        "density",
        "compare a.csv b.csv --min-effect 0.6",
        "compare a.csv b.csv --fail --min-effect 0.1",
        "fly",
    ],
)
def test_wrong_usage(bke, command):
    bke(*command.split(), status=2)


BAD_FILES = {
    "missing": ("a\n1.5\n\n3.1\n", "'a' has a missing value in line 3"),
    "nan": ("a\n1.5\nnan\n", "'a' has a missing value in line 3"),
    "infinite": ("a\n1.5\n2\ninf\n", "'a' has an infinite value (inf) in line 4"),
    "one row": ("a\n1.5\n", "Q.csv needs at least two rows, and has 1"),
    "equal rows": ("a\n2\n2\n2\n", "Q.csv has 3 rows and all are equal"),
    "constant": ("a,b\n1,2\n1,3\n", "same value (1) in every row of column 'a'"),
    "columns": ("a,b\n1,2\n3,5\n", "P.csv has the column a and "),
    "text": ("a\n1.5\ntall\n", "Q.csv: column 'a' has 'tall' in line 3"),
    "empty": ("", "Q.csv is empty"),
    "only a header": ("a\n", "Q.csv has columns and no rows"),
    "ragged": ("a,b\n1,2\n3\n", "Q.csv has 1 cell in line 3 but 2 columns"),
    "a long name": ("a" * 200_000 + "\n1.5\n2\n", "Q.csv cannot be read at line 1: field larger"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_file(case, refusal, tmp_path):
    content, message = BAD_FILES[case]
    (tmp_path / "P.csv").write_text("a\n1.5\n2.25\n3.1\n4.7\n")
    (tmp_path / "Q.csv").write_text(content)
    out = tmp_path / "out"
    assert message in refusal("run", tmp_path / "P.csv", tmp_path / "Q.csv", "--out", out)
    if case != "columns":
        assert message in refusal("fit", tmp_path / "Q.csv", "--out", out / "run.nc")
    assert not out.exists()


def test_files_that_cannot_be_read(tmp_path, samples, refusal):
    out = tmp_path / "out"
    for name in ("P.doc", "P.npy", "P.parquet", "text.nc"):
        (tmp_path / name).write_bytes(b"text")
    for name, message in {
        "absent.csv": "does not exist",
        "P.doc": "has the suffix '.doc'",
        "P.npy": "not a valid NPY file",
        "P.parquet": "not readable as Parquet",
        ".": "is not readable as Parquet",
    }.items():
        assert message in refusal("run", tmp_path / name, samples[1], "--out", out)
        assert message in refusal("witness", "run.nc", samples[0], tmp_path / name, "--out", out)
        assert not out.exists()
    for name, message in {"absent.nc": "no such file", "text.nc": "text.nc"}.items():
        assert message in refusal("diagnose", tmp_path / name, "--out", out)
        assert message in refusal("witness", tmp_path / name, *samples, "--out", out)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--chains 1001", "chains must be from 1 to 1000, got 1001"),
        ("--chains 0", "chains must be from 1 to 1000, got 0"),
        ("--method nuts --warmup 5", "--warmup must be at least 20"),
        ("--method nuts --draws 0", "--draws must be at least 4"),
        ("--warmup 500", "--warmup is for --method nuts, and the method is auto here"),
        ("--seed -1", "seed must be from 0"),
        ("--prior-shape 0", "--prior-shape must be a positive number"),
        ("--prior-rate -1", "--prior-rate must be a positive number"),
        ("--prior-rate inf", "--prior-rate must be a positive number"),
        ("--noise-variance 0", "--noise-variance must be a positive number"),
        ("--noise-variance nan", "--noise-variance must be a positive number"),
        ("--noise -0.1", "--noise must be a positive number"),
        ("--level 1", "--level must be between 0 and 1"),
        ("--level nan", "--level must be between 0 and 1"),
        ("--columns weight", "no column 'weight'"),
        ("--columns height,height", "a column is chosen twice"),
        ("--at absent.csv", "absent.csv does not exist"),
        ("--at {wide}", "wide.csv has 2 columns, but the samples have 1"),
        ("--likelihood landmark --landmarks 2.5",
         "--landmarks 2.5 is neither a whole number nor a file"),
        ("--likelihood landmark --landmarks 0",
         "the number of landmarks must be at least 1, one for each column, and at most 44"),
    ],
)  # fmt: skip
def test_bad_option(options, message, samples, tmp_path, refusal, write_csv):
    wide = write_csv(tmp_path / "wide.csv", [[0.0, 1.0]], "a,b")
    words = options.format(wide=wide).split()
    assert message in refusal("run", *samples, *words, "--out", tmp_path / "a" / "b")
    assert not (tmp_path / "a").exists()


def test_bad_input_to_tests(samples, tmp_path, refusal):
    for arguments, message in (
        (("compare", *samples, "--permutations", "9"), "cannot reject"),
        (("compare", tmp_path / "P.csv", samples[1]), "P.csv"),
        (("compare", *samples, "--paired"), "samples of one size"),
        (("independence", samples[0], "--x", "height", "--y", "weight"), "no column"),
    ):
        assert message in refusal(*arguments)


def test_columns_of_two_files(tmp_path, refusal, write_csv, fit_arguments):
    X = RNG.normal(size=(9, 3))
    names = ("a,b", "b,a", "a,c", "a,b,c", "x0,x1,x2")
    first, second, third, more, unnamed = (
        write_csv(tmp_path / f"{i}.csv", X[:, : len(header.split(","))], header)
        for i, header in enumerate(names)
    )
    write_csv(second, X[:, [1, 0]], "b,a")
    unnamed.write_text("1,2,3\n4,5,6\n7,8,10\n")
    absent = tmp_path / "absent.csv"
    out = ("--out", tmp_path / "out")
    assert "stopped" in refusal("run", first, second, *out)
    np.testing.assert_array_equal(fit_arguments[0]["data"], np.concatenate([X, X])[:, :2])
    for command, message in (
        (("run", first, third, *out), "choose columns of both, in one order, with --columns"),
        (("run", first, more, *out), "has the columns a, b and "),
        (("compare", first, more), "has the columns a, b and "),
        (("run", first, unnamed, *out), "0.csv has 2 columns and"),
        (("run", first, absent, *out), f"{absent} does not exist"),
    ):
        assert message in refusal(*command)


def test_output_that_cannot_be_saved(samples, tmp_path, refusal, fit_arguments, monkeypatch):
    (tmp_path / "file").write_text("")
    (tmp_path / "taken" / "run.nc").mkdir(parents=True)
    for out in ("file", "file/deeper"):
        message = refusal("run", *samples, "--out", tmp_path / out)
        assert "the output folder" in message
        assert "cannot be written" in message
    occupied = tmp_path / "taken"
    for command in (
        ("run", *samples, "--out", occupied),
        ("fit", *samples, "--out", occupied / "run.nc"),
    ):
        assert "run.nc is a folder" in refusal(*command)
    assert (tmp_path / "file").read_text() == ""
    monkeypatch.setattr(checks, "available_memory", lambda: 1000)
    assert "GiB of memory" in refusal("run", *samples, "--out", tmp_path / "out")
    assert not fit_arguments


def raising(error):
    def fail(*_, **__):
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (SamplingError("no start was found"), "no start was found"),
        (InputError("X is bad"), "X is bad"),
        (ValueError("first\nsecond"), "first"),
        (OSError(28, "No space left on device"), "bke: No space left on device"),
        (OSError(28, "No space left on device", "a.nc"), "bke: a.nc: No space left on device"),
        (RuntimeError("XLA is broken\nstack"), "unexpected failure (RuntimeError: XLA is broken)"),
        (MemoryError("Unable to allocate 3 MiB"), "not enough memory (Unable to allocate 3 MiB)"),
        (RuntimeError("RESOURCE_EXHAUSTED: Out of"), "bke: there is not enough memory (RESOURCE"),
    ],
)
def test_failure(error, message, samples, tmp_path, monkeypatch, refusal, bke):
    monkeypatch.setattr("bke.inference.fit", raising(error))
    command = ("run", *samples, "--out", tmp_path / "out")
    assert message in refusal(*command)
    assert not (tmp_path / "out").exists()
    with pytest.raises(AssertionError) as raised:
        bke(*command, "--debug")
    assert type(error).__name__ in str(raised.value)


@pytest.mark.slow
def test_failure_while_a_picture_is_saved(finished, tmp_path, monkeypatch, refusal):
    from matplotlib.figure import Figure

    def half(self, path, **_):
        Path(path).write_bytes(b"half a picture")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Figure, "savefig", half)
    out = tmp_path / "out"
    assert "No space left" in refusal("diagnose", finished[0] / "run.nc", "--out", out)
    assert not out.exists()


@pytest.mark.slow
def test_without_files_the_experiment_of_the_paper(bke, tmp_path, fit_arguments):
    out = ("--out", tmp_path / "out")
    text = bke("run", *out, status=1).stdout
    assert "300 rows of a normal and 300 of a Laplace mixture" in text
    assert "normal and Laplace differ (permutation test: p = 0.003" in text
    bke("run", "--standardize", "pooled", "--draws", "30", *out, status=1)
    bke("run", "--method", "smc", *out, status=1)
    default, options, smc = fit_arguments
    np.testing.assert_array_equal(default["data"], np.concatenate(normal_laplace(seed=0)))
    assert default["standardize"] is None
    method = default["method"]
    assert (method.num_chains, method.num_warmup, method.num_samples) == (8, 200, 500)
    assert options["standardize"] == "pooled"
    assert options["method"] == dataclasses.replace(method, num_samples=30)
    assert smc["method"].name == "smc"


@pytest.mark.slow
def test_the_built_in_experiment_prints_twenty_lines_of_its_numbers(bke, tmp_path):
    """With seed 0: two modes, and the numbers of the summary.

    Zeros of the density divide the short mode, so that its bulk ESS depends on the processor: 96
    and 136 were seen. That of the long mode was 1244.
    """
    out = tmp_path / "out"
    text = bke("run", "--out", out, "--quiet").stdout.replace(str(out), "bke-run")
    lines = [part for line in text.splitlines() for part in textwrap.wrap(line, 80) or [""]]
    assert len(lines) <= 20
    summary = json.loads((out / "summary.json").read_text())
    assert summary["answer"]["sentence"].startswith(lines[1].removesuffix(")."))
    modes, witness = summary["diagnosis"]["modes"], summary["witness"]
    assert len(modes) == 2
    assert modes[0]["ess_bulk"] > 60
    assert modes[1]["ess_bulk"] > 600
    assert "divide the short mode" in text
    posterior = load_run(out / "run.nc")["posterior"]["lengthscale"]
    table = [line.split() for line in text.splitlines() if line.startswith("  ")]
    for row, mode in zip(table[1:3], modes, strict=True):
        draws = posterior.sel(chain=list(mode["chains"])).values
        expected = [f"{draws.mean():.3g}", f"({draws.std():.2g})", f"{int(mode['ess_bulk'])}"]
        assert [row[4], row[5], row[-1]] == expected
    assert f"about 1e{round(np.log10(modes[0]['mass']))}" in text
    assert float(table[2][6]) == pytest.approx(modes[1]["mass"], abs=1e-3)
    for row, part in zip(table[3:], [*witness["modes"], witness["by_chain"]], strict=True):
        for end, at in (("largest", len(row) - 10), ("smallest", len(row) - 5)):
            numbers = [float(word.strip("(),")) for word in [row[at], *row[at + 2 : at + 5]]]
            value = part[end]
            expected = [value["mean"], value["at"]["x"], value["lower"], value["upper"]]
            assert numbers == pytest.approx(expected, abs=6e-4, rel=0.06)
    # No chain is stuck, so that the average by chain is that of all draws.
    mean = xr.load_dataset(out / "witness.nc")["witness"].mean(("chain", "draw"))
    assert witness["by_chain"]["largest"]["mean"] == pytest.approx(float(mean.max()))
    report = bke("diagnose", out / "run.nc", "--verbose").stdout
    assert "divergences" in report
    assert all(line in report for line in summary["diagnosis"]["verdict"].splitlines())


def test_samples_of_the_user_print_the_method_and_how_to_run_chains(
    bke, samples, tmp_path, no_pictures
):
    out = tmp_path / "out"
    command = ("run", *samples, "--method", "quadrature", "--draws", "40", "--quiet", "--out", out)
    text = bke(*command).stdout
    assert "Posterior of the lengthscale by quadrature; --method nuts runs chains." in text
    assert "Cross-validated AUC" not in text
    assert len(text.splitlines()) <= 20
    verbose = bke(*command, "--verbose").stdout
    assert "Cross-validated AUC" in verbose
    assert json.loads((out / "summary.json").read_text())["diagnosis"]["verdict"] in verbose


@pytest.mark.slow
def test_names_of_samples(bke, tmp_path, write_csv, fit_arguments):
    calm, windy, other = (
        write_csv(tmp_path / name, X, "height")
        for name, X in (("calm.csv", P), ("windy.csv", Q), ("calm.txt", Q))
    )
    run = bke("run", calm, windy, "--out", tmp_path / "out", status=1)
    for text in (run.stdout, bke("compare", calm, windy).stdout):
        assert "calm and windy" in text
        assert "P and Q" not in text
    text = bke("compare", calm, windy, "--names", "June", "dry July").stdout
    assert "June and dry July" in text
    assert "Mean difference of height, dry July - June:" in text
    assert "P and Q" in bke("compare", calm, other).stdout


def test_defaults_and_model_options(bke, samples, tmp_path, write_csv, fit_arguments):
    out = tmp_path / "run.nc"
    X = RNG.normal(size=(9, 3))
    files = [write_csv(tmp_path / name, X, "a,b,c") for name in ("P.csv", "Q.csv")]
    bke("run", *samples, "--out", tmp_path / "out", status=1)
    bke(
        "fit", *files, "--columns", "c,0", "--ard", "--prior-shape", 2, "--prior-rate", 3,
        "--noise-variance", 0.2, "--standardize", "none", "--out", out, "--quiet", status=1,
    )  # fmt: skip
    for noise in ("clt", "heteroscedastic"):
        bke("fit", *files, "--noise-variance", noise, "--out", out, status=1)
    default, options, *named = fit_arguments
    assert (default["method"], default["seed"]) == (Auto(), 0)
    assert (default["noise_variance"], default["standardize"]) == (0.1, "column")
    assert (default["prior"].concentration, default["prior"].rate) == (1.0, 1.0)
    assert default["columns"] == ["height"]
    np.testing.assert_array_equal(default["data"], np.concatenate([P, Q]))
    assert options["columns"] == ["c", "a"]
    np.testing.assert_array_equal(options["data"], np.concatenate([X, X])[:, [2, 0]])
    assert options["prior"].shape() == (2,)
    assert (options["noise_variance"], options["standardize"]) == (0.2, None)
    assert options["progress"] is False
    assert [call["noise_variance"] for call in named] == ["clt", "heteroscedastic"]


def test_run_writes_every_file_and_prints_its_summary(finished):
    out, printed = finished
    assert {path.name for path in out.iterdir()} == FILES | LISTS  # and no temporary file
    for picture in out.glob("*.png"):
        assert picture.read_bytes().startswith(b"\x89PNG")
    summary = json.loads(printed)
    assert summary == json.loads((out / "summary.json").read_text())
    assert {Path(path).name for path in summary["files"].values()} == FILES | {"report.html"}
    steps = {"compare", "fit", "weigh", "diagnose", "witness", "pictures", "page", "total"}
    assert set(summary["timings"]) == steps
    assert summary["answer"]["pvalue"] <= 1.0
    assert summary["answer"]["columns"] == summary["settings"]["columns"] == ["height"]
    assert summary["settings"]["num_chains"] == 2
    assert summary["versions"]["jax"]
    draws = load_run(out / "run.nc")["posterior"]["lengthscale"].values
    modes = [mode for mode in summary["posterior"]["modes"] if mode["draws"]]
    assert len(summary["posterior"]["modes"]) == len(summary["diagnosis"]["modes"])
    assert sum(mode["draws"] for mode in modes) <= draws.size
    for mode in modes:
        value = mode["hyperparameters"]["lengthscale"]
        assert draws.min() <= value["q10"] <= value["q50"] <= value["q90"] <= draws.max()
    for mode in summary["witness"]["modes"]:
        for part in mode.get("intervals", []):
            assert part["from"] <= part["to"]
            assert part["witness"] in ("above zero", "below zero")


def test_pages_and_text_have_the_numbers_of_the_summary(bke, bke_json, finished, tmp_path):
    out, printed = finished
    diagnosed = tmp_path / "diagnosis.html"
    text = bke("diagnose", out / "run.nc", "--html", diagnosed, "--quiet").stdout
    summary = bke_json("diagnose", out / "run.nc")
    assert summary["diagnosis"] == json.loads(printed)["diagnosis"]
    verdict = summary["diagnosis"]["verdict"].splitlines()
    verbose = bke("diagnose", out / "run.nc", "--verbose").stdout
    assert f"R-hat {summary['diagnosis']['rhat']:.3f}" in verbose
    assert all(line in verbose for line in verdict)
    values = [
        value
        for mode in summary["posterior"]["modes"]
        for value in mode["hyperparameters"].values()
    ]
    assert all(f"{value['mean']:.3g} ({value['sd']:.2g})" in text for value in values)
    for path, pictures in ((out.parent.parent / "report.html", 6), (diagnosed, 3)):
        page = path.read_text(encoding="utf-8")
        assert page.count('<img src="data:image/webp;base64,') == pictures
        assert len(page) < 500_000
        assert all(html.escape(line) in page for line in verdict)
        for value in values:
            assert all(f">{value[key]:.4g}</td>" in page for key in ("mean", "sd", "q10"))


def same_numbers(first, second):
    """Whether two files hold the same values; the names of the columns may differ."""

    def read(path):
        with xr.open_datatree(path, engine="h5netcdf") as tree:
            return tree.load().map_over_datasets(lambda d: d.drop_vars("column", errors="ignore"))

    return read(first).equals(read(second))


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["npy", "parquet"])
def test_other_files_and_the_same_seed(suffix, bke, finished, tmp_path, no_pictures):
    files = [tmp_path / f"{name}.{suffix}" for name in "PQ"]
    for file, values in zip(files, (P, Q), strict=True):
        if suffix == "npy":
            np.save(file, values)
        else:
            pd.DataFrame({"height": values[:, 0]}).to_parquet(file)
    bke("run", *files, *TINY, "--out", tmp_path / "out", "--quiet")
    for name in ("run.nc", "witness.nc"):
        assert same_numbers(finished[0] / name, tmp_path / "out" / name)


@pytest.mark.slow
def test_fit_and_witness_give_the_same_as_run(bke_json, finished, samples, tmp_path, no_pictures):
    run, out = tmp_path / "new" / "run.nc", tmp_path / "witness"
    full_run = json.loads(finished[1])
    fitted = bke_json("fit", *samples, *TINY, "--out", run, "--quiet")
    assert same_numbers(finished[0] / "run.nc", run)
    assert fitted["posterior"] == full_run["posterior"]
    summary = bke_json("witness", run, *samples, "--seed", 3, "--out", out, "--quiet")
    assert same_numbers(finished[0] / "witness.nc", out / "witness.nc")
    assert summary["witness"] == full_run["witness"]
    assert summary["notes"] == []


@pytest.mark.slow
def test_another_seed_and_other_samples(
    bke, refusal, finished, samples, tmp_path, write_csv, no_pictures
):
    run = tmp_path / "run.nc"
    bke("fit", *samples, *TINY[:-1], "4", "--out", run, "--quiet")
    assert not same_numbers(finished[0] / "run.nc", run)
    at = write_csv(tmp_path / "at.csv", [[1.0], [0.0], [-1.0]], "height")
    options = ("--at", at, "--noise", 0.1, "--level", 0.5, "--out", tmp_path, "--json", "--quiet")
    result = bke("witness", run, samples[0], samples[0], *options)
    summary = json.loads(result.stdout)
    assert "not the 44 rows that this run was fitted to: 20 rows of P and Q" in summary["notes"][0]
    assert "bke: warning: P and Q together are not the 44 rows" in result.stderr
    assert (summary["witness"]["points"], summary["witness"]["level"]) == (3, 0.5)
    assert summary["witness"]["noise"] == "0.1"
    weights = write_csv(tmp_path / "weights.csv", [[1.0], [0.5], [-1.0]], "weight")
    message = "3 rows of P (3 in all) and 3 rows of Q (3) are not among the 44 rows"
    assert message in refusal("witness", run, weights, weights, "--out", tmp_path)


@pytest.mark.slow
def test_rows_that_stay_on_disk(bke, bke_json, tmp_path):
    X = np.random.default_rng(0).gamma(2.0, size=(500, 2))
    path, out = tmp_path / "rows.npy", tmp_path / "run.nc"
    np.save(path, X)
    options = ["--likelihood", "landmark", "--landmarks", "6", "--method", "quadrature"]
    options += ["--draws", "40", "--quiet", "--out", out]
    settings = bke_json("fit", path, "--stream", *options)["settings"]
    assert settings["rows"] == 500
    assert settings["data_sha256"] == hashlib.sha256(X.tobytes()).hexdigest()
    bke("diagnose", out, "--quiet")


def test_several_modes_cannot_be_missed(capsys):
    """Nor with --json --quiet."""
    Terminal(json=True, quiet=True).lines(["Multimodal: 2 modes."], warning=True)
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "\nMultimodal: 2 modes.\n")


def test_numbers_that_json_does_not_have():
    summary = {
        "rhat": np.float64("nan"),
        "barrier": float("inf"),
        "modes": (np.array([1.0, -np.inf]), np.int64(3), True, None),
        "path": Path("a"),
    }
    expected = {"rhat": None, "barrier": None, "modes": [[1.0, None], 3, True, None], "path": "a"}
    assert plain(summary) == expected
    assert json.loads(to_json(summary)) == expected


def test_json_has_codes_for_characters_that_a_terminal_obeys():
    names = {"names": ["\u202eq\u2066", "\x9b31m", "\x7f\x1b[0m\n", "ü \udcff"]}
    text = to_json(names)
    assert json.loads(text) == names
    assert all(character.isprintable() for character in text.replace("\n", ""))
    assert "ü" in text


@pytest.mark.slow
def test_ozone_example(tmp_path):
    script = Path(__file__).parents[3] / "examples" / "ozone.py"
    done = subprocess.run(
        [sys.executable, str(script), "--quick", "--out", str(tmp_path)],
        check=True, capture_output=True, text=True, env={**os.environ, "MPLBACKEND": "Agg"},
    )  # fmt: skip
    assert "calm days" in done.stdout
    assert "Ozone is rounded to 1" in done.stdout
    assert {path.suffix for path in tmp_path.iterdir()} == {".nc", ".png"}
    assert (tmp_path / "temp-hum-witness.png").is_file()


def test_two_samples_are_compared(bke, bke_json, samples, tmp_path):
    """The terminal, JSON and the picture show the result of the function."""
    out = tmp_path / "out"
    command = ("compare", *samples, *FAST, "--seed", "3", "--alpha", "0.1")
    options = {"n_resamples": 99, "seed": 3, "alpha": 0.1, "columns": ["height"]}
    expected = compare(P, Q, **options, progress=False)
    assert bke_json(*command, "--out", out)["answer"] == expected.to_dict()
    assert json.loads((out / "compare.json").read_text())["answer"] == expected.to_dict()
    assert {path.name for path in out.iterdir()} == {"comparison.png", "compare.json"} | LISTS
    assert (out / "comparison.png").stat().st_size > 5000
    assert str(expected) in bke(*command).stdout


def test_a_difference_fails_only_with_fail_and_if_it_is_large(bke, bke_json, tmp_path, write_csv):
    rng = np.random.default_rng(8)
    rows = (rng.normal(size=300), rng.normal(size=300), rng.normal(0.6, 1.0, size=300))
    first, same, other = (
        write_csv(tmp_path / f"{name}.csv", X[:, None], "x")
        for name, X in zip("abc", rows, strict=True)
    )
    bke("compare", first, other, *FAST)
    bke("compare", first, same, "--fail", *FAST)
    bke("compare", first, other, "--fail", *FAST, status=3)
    auc = compare(rows[0], rows[2], n_resamples=99).auc
    assert 0.6 < auc < 0.7
    for least, status in ((0.6, 3), (0.7, 0)):
        command = ("compare", first, other, "--fail", "--min-effect", least, *FAST)
        text = bke(*command, status=status).stdout
        assert f"{'Failed' if status else 'Passed'}: the AUC, {auc:.3f}, is" in text
        answer = bke_json(*command, status=status)
        assert (answer["failed"], answer["min_effect"]) == (status == 3, least)


def test_pairs_are_tested_for_independence(bke, bke_json, tmp_path, write_csv):
    x = RNG.normal(size=40)
    path = write_csv(tmp_path / "p.csv", np.column_stack([x, RNG.normal(size=40), x**2]), "a,b,c")
    command = ("independence", path, "--x", "a", "--y", "c", *FAST)
    summary = bke_json(*command)
    options = {"n_resamples": 99, "progress": False}
    expected = independence_test(x, x**2, **options)
    assert (summary["pvalue"], summary["statistic"]) == (expected.pvalue, expected.statistic)
    assert summary["pvalue"] == 0.01
    assert bke_json("independence", path, "--x", "a,b", "--y", "2", *FAST)["y"] == ["c"]
    bke(*command, "--fail", status=3)


@pytest.mark.slow
def test_conditional_independence(bke_json, tmp_path, write_csv):
    z, out = np.random.default_rng(3).normal(size=(3, 60)), tmp_path / "out"
    table = np.column_stack([z[0] + 0.3 * z[1], z[0] + 0.3 * z[2], z[0]])
    path = write_csv(tmp_path / "three.csv", table, "a,b,c")
    command = ("independence", path, "--x", "a", "--y", "b", "--permutations", "39", "--quiet")
    assert bke_json(*command, "--out", out)["reject"]
    assert (out / "witness.png").stat().st_size > 5000
    conditional = bke_json(*command, "--given", "c")
    assert not conditional["reject"]
    assert conditional["given"] == ["c"]
    assert "a and b given c" in conditional["test"]
