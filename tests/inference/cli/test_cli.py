"""The command line: exit codes, one sentence per error, files whole or absent, parts and whole."""

import dataclasses
import enum
import hashlib
import html
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import bke.inference
import numpy as np
import pytest
import typer
import xarray as xr
from bke.inference import InputError, SamplingError, load_run
from bke.inference.cli import app, interrupt
from bke.inference.cli.commands import COMMANDS
from bke.inference.cli.options import KERNELS
from bke.inference.cli.outputs import Output
from bke.inference.cli.terminal import Terminal
from bke.inference.core.render import plain, to_json
from bke.inference.data import checks
from bke.inference.sampling.samplers import Auto
from typer.testing import CliRunner

NAMES = tuple(command.__name__ for command in COMMANDS)
TINY = ("--method", "nuts", "--chains", "2", "--warmup", "20", "--draws", "10", "--seed", "3")
WIDE = {"COLUMNS": "200", "TERMINAL_WIDTH": "200", "NO_COLOR": "1"}
FILES = {"run.nc", "comparison.png", "witness.nc", "summary.json", "samples.png", "trace.png",
         "rank.png", "profile.png", "witness.png"}  # fmt: skip
#: What every folder has beside them.
KEPT = {"bke-files.json", ".bke.lock"}
RNG = np.random.default_rng(5)
P, Q = RNG.normal(size=(20, 1)), RNG.laplace(size=(24, 1))


def bke_command(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env=WIDE)


def succeeded(*arguments):
    result = bke_command(*arguments)
    assert result.exit_code == 0, (result.stderr, result.exception)
    return result


def refusal(*arguments):
    """Standard error of a command that must end with status 1 and one sentence."""
    result = bke_command(*arguments)
    assert result.exit_code == 1, (result.exit_code, result.output, result.exception)
    sentence = result.stderr.strip()
    assert sentence.startswith("bke: ")
    assert "\n" not in sentence
    assert "Traceback" not in result.output
    return sentence


def write_csv(path, values, header=None):
    rows = [",".join(map(repr, row)) for row in np.asarray(values).tolist()]
    path.write_text("\n".join([*([header] if header else []), *rows]) + "\n")
    return path


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    folder = tmp_path_factory.mktemp("samples")
    return write_csv(folder / "P.csv", P, "height"), write_csv(folder / "Q.csv", Q, "height")


@pytest.fixture(scope="module")
def finished(samples, tmp_path_factory):
    """One run with everything, shared: its folder and what was on standard output."""
    out = tmp_path_factory.mktemp("finished") / "new" / "folder"
    page = out.parent.parent / "report.html"
    return out, succeeded("run", *samples, *TINY, "--out", out, "--html", page, "--json", "--quiet")


@pytest.fixture
def no_pictures(monkeypatch):
    monkeypatch.setattr(Output, "draw", lambda *_: {})


@pytest.fixture
def no_fit(monkeypatch):
    """What ``fit`` is called with; it stops there."""
    calls = []

    def stop(data, **options):
        calls.append({"data": data, **options})
        raise SamplingError("stopped by the test")

    monkeypatch.setattr(bke.inference, "fit", stop)
    return calls


# -- usage ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", NAMES)
def test_help_mentions_every_option(command):
    text = succeeded(command, "--help").stdout
    assert len(text.splitlines()) <= 50
    for parameter in typer.main.get_command(app).commands[command].params:
        for option in parameter.opts if parameter.param_type_name == "option" else []:
            assert option in text
        assert parameter.param_type_name == "argument" or parameter.help
    assert f"Example: bke {command}" in text


def test_help_of_the_program():
    text = succeeded("--help").stdout
    assert all(f" {command} " in text for command in NAMES)
    assert "Example: bke run" in text
    assert "Exit status" in text
    listed = [line.split()[0] for line in text.splitlines() if re.match("  [a-z]+  ", line)]
    assert listed == list(NAMES)


def test_version():
    assert re.fullmatch(r"bke \d+\.\d+\S*\n", succeeded("--version").stdout)


def test_nothing_slow_is_imported_for_help():
    program = (
        "import sys\n"
        "from bke.inference.cli import app\n"
        "try:\n"
        "    app(['run', '--help'])\n"
        "except SystemExit as end:\n"
        "    assert end.code == 0\n"
        "slow = {'jax', 'numpyro', 'matplotlib', 'xarray', 'pandas', 'scipy', 'arviz_stats'}\n"
        "assert not slow & set(sys.modules), slow & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


def test_a_comparison_needs_no_jax(tmp_path):
    """Arrow imports pandas where it converts arrays."""
    for name, shift in (("a", 0.0), ("b", 0.5)):
        rows = np.random.default_rng(0).normal(size=(60, 2)) + shift
        np.savetxt(tmp_path / f"{name}.csv", rows, delimiter=",", header="u,v", comments="")
    program = (
        "import sys\n"
        "from bke.inference.cli import app\n"
        "try:\n"
        "    app(['compare', 'a.csv', 'b.csv'])\n"
        "except SystemExit as end:\n"
        "    assert end.code == 0\n"
        "slow = {'jax', 'numpyro', 'matplotlib', 'xarray', 'scipy.stats'}\n"
        "assert not slow & set(sys.modules), slow & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, cwd=tmp_path)


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "P.csv"),
        ("run", "--chains", "many"),
        ("run", "--kernel", "gauss"),
        ("run", "--standardize", "row"),
        ("run", "--noise", "none"),
        ("run", "--colums", "a"),
        ("run", "a.csv", "b.csv", "c.csv"),
        ("fit",),
        ("fit", "P.npy", "--checkpoint", "part"),
        ("fit", "P.csv", "--noise-variance", "lots"),
        ("density",),
        ("fit", "P.csv", "--kernel", "gauss"),
        ("diagnose",),
        ("witness", "run.nc", "P.csv"),
        ("fly",),
    ],
)
def test_usage(arguments):
    result = bke_command(*arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.output


# -- bad input ------------------------------------------------------------------------------------


def table(*rows, header=""):
    return header + "".join(f"{row}\n" for row in rows)


GOOD = table(1.5, 2.25, 3.1, 4.7, header="a\n")
BAD_FILES = {
    "missing": (table(1.5, "", 3.1, header="a\n"), "'a' has a missing value in line 3"),
    "nan": (table(1.5, "nan", header="a\n"), "'a' has a missing value in line 3"),
    "infinite": (table(1.5, 2, "inf", header="a\n"), "'a' has an infinite value (inf) in line 4"),
    "one row": (table(1.5, header="a\n"), "Q.csv needs at least two rows, and has 1"),
    "equal rows": (table(2, 2, 2, header="a\n"), "Q.csv has 3 rows and all are equal"),
    "constant": (table("1,2", "1,3", header="a,b\n"), "same value (1) in every row of column 'a'"),
    "columns": (table("1,2", "3,5", header="a,b\n"), "P.csv has the column a and "),
    "text": (table(1.5, "tall", header="a\n"), "Q.csv: column 'a' has 'tall' in line 3"),
    "empty": ("", "Q.csv is empty"),
    "only a header": ("a\n", "Q.csv has columns and no rows"),
    "ragged": (table("1,2", "3", header="a,b\n"), "Q.csv has 1 cell in line 3 but 2 columns"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_file(case, tmp_path):
    content, said = BAD_FILES[case]
    (tmp_path / "P.csv").write_text(GOOD)
    (tmp_path / "Q.csv").write_text(content)
    out = tmp_path / "out"
    assert said in refusal("run", tmp_path / "P.csv", tmp_path / "Q.csv", "--out", out)
    assert not out.exists()
    if case != "columns":
        assert said in refusal("fit", tmp_path / "Q.csv", "--out", out / "run.nc")
        assert not out.exists()


def test_files_that_cannot_be_read(tmp_path, samples):
    out = tmp_path / "out"
    (tmp_path / "P.doc").write_bytes(b"PK")
    (tmp_path / "P.npy").write_bytes(b"no array")
    (tmp_path / "P.parquet").write_bytes(b"no table")
    for name, said in {
        "absent.csv": "does not exist",
        "P.doc": "has the suffix '.doc'",
        "P.npy": "not a valid NPY file",
        "P.parquet": "not readable as Parquet",
        ".": "is not readable as Parquet",
    }.items():
        assert said in refusal("run", tmp_path / name, samples[1], "--out", out)
        assert said in refusal("witness", "run.nc", samples[0], tmp_path / name, "--out", out)
        assert not out.exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--chains", 1001), "chains must be from 1 to 1000, got 1001"),
        (("--chains", 0), "chains must be from 1 to 1000, got 0"),
        (("--method", "nuts", "--warmup", 5), "--warmup must be at least 20"),
        (("--method", "nuts", "--draws", 0), "--draws must be at least 4"),
        (("--warmup", 500), "--warmup is for --method nuts, and the method is auto here"),
        (("--seed", -1), "seed must be from 0"),
        (("--prior-shape", 0), "--prior-shape must be a positive number"),
        (("--prior-rate", -1), "--prior-rate must be a positive number"),
        (("--prior-rate", "inf"), "--prior-rate must be a positive number"),
        (("--noise-variance", 0), "--noise-variance must be a positive number"),
        (("--noise-variance", "nan"), "--noise-variance must be a positive number"),
        (("--noise", -0.1), "--noise must be a positive number"),
        (("--level", 1), "--level must be between 0 and 1"),
        (("--level", "nan"), "--level must be between 0 and 1"),
        (("--columns", "weight"), "no column 'weight'"),
        (("--columns", "height,height"), "a column is chosen twice"),
        (("--at", "absent.csv"), "absent.csv does not exist"),
        (("--landmarks", "2.5"), "--landmarks 2.5 is neither a whole number nor a file"),
        (
            ("--likelihood", "landmark", "--landmarks", "0"),
            "the number of landmarks must be at least 1, one for each column, and at most 44",
        ),
    ],
)
def test_bad_option(options, said, samples, tmp_path):
    out = tmp_path / "a" / "b"
    assert said in refusal("run", *samples, *options, "--out", out)
    assert not (tmp_path / "a").exists()


def test_points_with_other_columns(samples, tmp_path):
    at = write_csv(tmp_path / "at.csv", [[0.0, 1.0]])
    out = tmp_path / "out"
    said = refusal("run", *samples, "--at", at, "--out", out)
    assert "at.csv has 2 columns, but the samples have 1" in said


def test_columns_in_another_order(tmp_path, no_fit):
    X = RNG.normal(size=(9, 2))
    first = write_csv(tmp_path / "P.csv", X, "a,b")
    second = write_csv(tmp_path / "Q.csv", X[:, ::-1], "b,a")
    out = ("--out", tmp_path / "out")
    assert "stopped" in refusal("run", first, second, *out)
    np.testing.assert_array_equal(no_fit[0]["data"], np.concatenate([X, X]))
    third = write_csv(tmp_path / "R.csv", X, "a,c")
    assert "choose columns of both, in one order, with --columns" in refusal(
        "run", first, third, *out
    )
    more = write_csv(tmp_path / "S.csv", RNG.normal(size=(9, 3)), "a,b,c")
    for command in (("run", first, more, *out), ("compare", first, more)):
        assert "has the columns a, b and " in refusal(*command)
    unnamed = tmp_path / "T.csv"
    unnamed.write_text("1,2,3\n4,5,6\n7,8,10\n")
    assert "P.csv has 2 columns and" in refusal("run", first, unnamed, *out)
    absent = tmp_path / "absent.csv"
    assert f"{absent} does not exist" in refusal("run", write_text(tmp_path), absent, *out)


def write_text(folder):
    path = folder / "text.csv"
    path.write_text("a,b\nx,1\ny,2\n")
    return path


def test_output_that_cannot_be_written(samples, tmp_path, no_fit):
    (tmp_path / "file").write_text("")
    (tmp_path / "taken" / "run.nc").mkdir(parents=True)
    for out in ("file", "file/deeper"):
        said = refusal("run", *samples, "--out", tmp_path / out)
        assert "the output folder" in said
        assert "cannot be written" in said
    for command in (
        ("run", *samples, "--out", tmp_path / "taken"),
        ("fit", *samples, "--out", tmp_path / "taken" / "run.nc"),
    ):
        assert "run.nc is a folder" in refusal(*command)
    assert not no_fit
    assert (tmp_path / "file").read_text() == ""


def test_more_than_the_memory(samples, tmp_path, monkeypatch, no_fit):
    monkeypatch.setattr(checks, "available_memory", lambda: 1000)
    said = refusal("run", *samples, "--out", tmp_path / "out")
    assert "GiB of memory" in said
    assert not no_fit


@pytest.mark.parametrize("command", [("diagnose",), ("witness",)])
def test_something_that_is_no_run(command, samples, tmp_path):
    files = samples if command == ("witness",) else ()
    assert "no such file" in refusal(*command, tmp_path / "absent.nc", *files, "--out", tmp_path)
    (tmp_path / "text.nc").write_text("x")
    assert "text.nc" in refusal(*command, tmp_path / "text.nc", *files, "--out", tmp_path)


# -- failures while computing ---------------------------------------------------------------------


def raising(error):
    def fail(*_, **__):
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (SamplingError("no start was found"), "no start was found"),
        (InputError("X is bad"), "X is bad"),
        (ValueError("first\nsecond"), "first"),
        (OSError(28, "No space left on device"), "bke: No space left on device"),
        (OSError(28, "No space left on device", "a.nc"), "bke: a.nc: No space left on device"),
        (RuntimeError("XLA is broken\nstack"), "unexpected failure (RuntimeError: XLA is broken)"),
        (MemoryError("Unable to allocate 3 MiB"), "not enough memory (Unable to allocate 3 MiB)"),
        (
            RuntimeError("RESOURCE_EXHAUSTED: Out of memory"),
            "bke: there is not enough memory (RESOURC",
        ),
    ],
)
def test_failure(error, said, samples, tmp_path, monkeypatch):
    monkeypatch.setattr(bke.inference, "fit", raising(error))
    assert said in refusal("run", *samples, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    result = bke_command("run", *samples, "--out", tmp_path / "out", "--debug")
    assert result.exception is error


def test_interruption(samples, tmp_path, monkeypatch):
    monkeypatch.setattr(bke.inference, "fit", raising(KeyboardInterrupt()))
    result = bke_command("run", *samples, "--out", tmp_path / "out")
    assert result.exit_code == 130
    assert "Traceback" not in result.output
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_failure_while_a_picture_is_written(finished, tmp_path, monkeypatch):
    from matplotlib.figure import Figure

    def half(self, path, **_):
        Path(path).write_bytes(b"half a picture")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Figure, "savefig", half)
    out = tmp_path / "out"
    assert "No space left" in refusal("diagnose", finished[0] / "run.nc", "--out", out)
    assert not out.exists()


@pytest.mark.slow
def test_a_run_that_ends_early_leaves_the_older_files_and_what_it_had_finished(
    finished, samples, tmp_path, monkeypatch
):
    out = tmp_path / "out"
    shutil.copytree(finished[0], out)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    run = bke.inference.load_run(out / "run.nc")
    monkeypatch.setattr(bke.inference, "fit", lambda *_, **__: run)
    monkeypatch.setattr(bke.inference, "sample_witness", raising(KeyboardInterrupt()))
    result = bke_command("run", *samples, *TINY, "--out", out)
    assert result.exit_code == 130
    told = result.stderr.strip().splitlines()
    assert told == [
        f"bke: interrupted; what was finished is in {out / 'bke-unfinished'}, until a command "
        "writes there again"
    ]
    assert {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()} == before
    assert {path.name for path in (out / "bke-unfinished").iterdir()} == {"run.nc", ".of-bke"}
    left = out / "bke-unfinished" / "run.nc"
    assert "is what an interrupted command has left" in refusal("diagnose", left, "--out", out)
    bke.inference.load_run(out / "bke-unfinished" / "run.nc")  # is whole
    succeeded("diagnose", out / "run.nc", "--out", out)
    assert not (out / "bke-unfinished").exists()


def _xla_gc_callback():
    interrupt.interrupt(signal.SIGINT, sys._getframe())


class Hashed:
    def __hash__(self):
        interrupt.interrupt(signal.SIGINT, sys._getframe())
        return 0


class Numbered(enum.Enum):
    ONE = 1

    @classmethod
    def _missing_(cls, value):
        interrupt.interrupt(signal.SIGINT, sys._getframe())
        return cls.ONE


@pytest.mark.parametrize(
    "deaf",
    [_xla_gc_callback, lambda: hash(Hashed()), lambda: Numbered(2)],
    ids=["garbage", "hash", "enum"],
)
def test_interruption_where_it_would_be_lost(deaf, monkeypatch):
    """JAX collects garbage through a callback, and Python swallows what is raised in there.

    Bindings of C++ hash keys and make members of enumerations, and end the process at exceptions.
    """
    sent = []
    monkeypatch.setattr(interrupt.os, "kill", lambda *arguments: sent.append(arguments))
    deaf()
    time.sleep(20 * interrupt.RETRY_SECONDS)
    assert sent == [(os.getpid(), signal.SIGINT)]
    with pytest.raises(KeyboardInterrupt):
        interrupt.interrupt(signal.SIGINT, sys._getframe())


def test_sigterm_is_heard_where_there_is_a_checkpoint(tmp_path, monkeypatch):
    """Elsewhere nothing could be saved, and it kills at once."""
    heard = []

    def terminated(*_, **__):
        heard.append(signal.getsignal(signal.SIGTERM))
        if heard[-1] is not signal.SIG_DFL:
            try:
                signal.raise_signal(signal.SIGTERM)
            finally:
                signal.raise_signal(signal.SIGTERM)  # again, amid the saving
        raise SamplingError("stopped by the test")

    monkeypatch.setattr(bke.inference, "fit", terminated)
    np.save(tmp_path / "p.npy", RNG.normal(size=(30, 1)))
    streamed = ("--stream", "--likelihood", "landmark", "--method", "quadrature")
    told = ["fit", tmp_path / "p.npy", *streamed, "--out", tmp_path / "made.nc"]
    assert bke_command(*told, "--checkpoint", tmp_path / "part").exit_code == 143
    assert "stopped by the test" in refusal(*told)
    assert heard == [interrupt.interrupt, signal.SIG_DFL]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.slow
def test_ctrl_c_on_a_real_run(tmp_path):
    # Where the tests run in the background of a shell, the signal is ignored and inherited so.
    heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    program = [sys.executable, "-c", heard + "from bke.inference.cli import main; main()", "run"]
    process = subprocess.Popen(
        [*program, "--draws", "100000", "--out", str(tmp_path / "out")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while process.poll() is None and not (tmp_path / "out").exists():
        time.sleep(0.1)
    time.sleep(3)
    process.send_signal(signal.SIGINT)
    try:
        _, errors = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert not (tmp_path / "out").exists()


# -- options reach the computation ----------------------------------------------------------------


@pytest.mark.slow
def test_without_files_the_experiment_of_the_paper(tmp_path, no_fit):
    result = bke_command("run", "--out", tmp_path / "out")
    assert "300 rows of a normal and 300 of a Laplace mixture" in result.stdout
    assert "normal and Laplace differ (permutation test: p = 0.003" in result.stdout
    expected = np.concatenate(bke.inference.normal_laplace(seed=0))
    np.testing.assert_array_equal(no_fit[0]["data"], expected)
    assert no_fit[0]["standardize"] is None
    method = no_fit[0]["method"]
    assert (method.num_chains, method.num_warmup, method.num_samples) == (8, 200, 500)
    bke_command("run", "--standardize", "pooled", "--draws", "30", "--out", tmp_path / "out")
    assert no_fit[1]["standardize"] == "pooled"
    assert no_fit[1]["method"] == dataclasses.replace(method, num_samples=30)
    bke_command("run", "--method", "smc", "--out", tmp_path / "out")
    assert no_fit[2]["method"] == bke.inference.Smc()


@pytest.mark.slow
def test_the_built_in_experiment_prints_twenty_lines_of_its_numbers(tmp_path):
    """With seed 0: two modes, and the numbers of the summary.

    Zeros of the density divide the short mode, so that its bulk ESS depends on the processor: 96
    and 136 were seen. That of the long mode was 1244.
    """
    out = tmp_path / "out"
    text = succeeded("run", "--out", out, "--quiet").stdout.replace(str(out), "bke-run")
    lines = [part for line in text.splitlines() for part in textwrap.wrap(line, 80) or [""]]
    assert len(lines) <= 20
    summary = json.loads((out / "summary.json").read_text())
    assert summary["answer"]["sentence"].startswith(lines[1].removesuffix(")."))
    modes, witness = summary["diagnosis"]["modes"], summary["witness"]
    assert [mode["ess_bulk"] > least for mode, least in zip(modes, (60, 600), strict=True)] == [
        True,
        True,
    ]
    assert "divide the short mode" in text
    posterior = load_run(out / "run.nc")["posterior"]["lengthscale"]
    table = [line.split() for line in text.splitlines() if line.startswith("  ")]
    for row, mode in zip(table[1:3], modes, strict=True):
        draws = posterior.sel(chain=list(mode["chains"])).values
        expected = [f"{draws.mean():.3g}", f"({draws.std():.2g})", f"{int(mode['ess_bulk'])}"]
        assert [row[4], row[5], row[-1]] == expected
    assert f"about 1e{round(np.log10(modes[0]['mass']))}" in text
    assert float(table[2][6]) == pytest.approx(modes[1]["mass"], abs=1e-3)
    parts = [*witness["modes"], witness["by_chain"]]
    for row, part in zip(table[3:], parts, strict=True):
        for end, at in (("largest", len(row) - 10), ("smallest", len(row) - 5)):
            found = part[end]
            numbers = [float(word.strip("(),")) for word in [row[at], *row[at + 2 : at + 5]]]
            given = [found["mean"], found["at"]["x"], found["lower"], found["upper"]]
            assert numbers == pytest.approx(given, abs=6e-4, rel=0.06)
    # No chain is stuck, so that the average by chain is that of all draws.
    drawn = xr.load_dataset(out / "witness.nc")["witness"].mean(("chain", "draw"))
    assert witness["by_chain"]["largest"]["mean"] == pytest.approx(float(drawn.max()))
    everything = succeeded("diagnose", out / "run.nc", "--verbose").stdout
    assert "divergences" in everything
    assert all(line in everything for line in summary["diagnosis"]["verdict"].splitlines())


def test_own_samples_print_the_method_and_how_to_run_chains(samples, tmp_path, no_pictures):
    options = ("--method", "quadrature", "--draws", "40")
    out = tmp_path / "out"
    text = succeeded("run", *samples, *options, "--out", out, "--quiet").stdout
    assert "Posterior of the lengthscale by quadrature; --method nuts runs chains." in text
    assert "Cross-validated AUC" not in text
    verbose = succeeded("run", *samples, *options, "--out", out, "--quiet", "--verbose").stdout
    assert "Cross-validated AUC" in verbose
    assert len(text.splitlines()) <= 20
    assert json.loads((out / "summary.json").read_text())["diagnosis"]["verdict"] in verbose


@pytest.mark.slow
def test_samples_are_called_as_their_files_or_as_asked(tmp_path, samples, no_fit):
    calm, windy = (write_csv(tmp_path / f"{name}.csv", X, "height")
                   for name, X in (("calm", P), ("windy", Q)))  # fmt: skip
    for command in (
        ("compare",),
        ("run", "--out", tmp_path / "out"),
    ):
        told = bke_command(*command[:1], calm, windy, *command[1:]).stdout
        assert "calm and windy" in told
        assert "P and Q" not in told
    told = bke_command("compare", calm, windy, "--names", "June", "dry July").stdout
    assert "June and dry July" in told
    assert "Mean difference of height, dry July - June:" in told
    other = write_csv(tmp_path / "calm.txt", Q, "height")
    assert "P and Q" in bke_command("compare", calm, other).stdout
    refused = bke_command("compare", calm, windy, "--names", "a", "a")
    assert refused.exit_code == 2
    assert "must be two different names" in " ".join(refused.output.replace("│", " ").split())


def test_defaults(samples, tmp_path, no_fit):
    bke_command("run", *samples, "--out", tmp_path / "out")
    options = no_fit[0]
    assert (options["method"], options["seed"]) == (Auto(), 0)
    assert options["standardize"] == "column"
    assert options["noise_variance"] == 0.1
    assert options["columns"] == ["height"]
    assert (options["prior"].concentration, options["prior"].rate) == (1.0, 1.0)
    np.testing.assert_array_equal(options["data"], np.concatenate([P, Q]))


@pytest.mark.parametrize("kernel", KERNELS)
def test_kernels(kernel, samples, tmp_path, no_fit):
    bke_command("fit", *samples, "--kernel", kernel, "--out", tmp_path / "run.nc")
    assert type(no_fit[0]["kernel"]).__name__ == KERNELS[kernel][0]


def test_model_options(tmp_path, no_fit):
    X = RNG.normal(size=(9, 3))
    files = [write_csv(tmp_path / name, X, "a,b,c") for name in ("P.csv", "Q.csv")]
    bke_command(
        "fit", *files, "--columns", "c,0", "--ard", "--prior-shape", 2, "--prior-rate", 3,
        "--noise-variance", 0.2, "--standardize", "none", "--out", tmp_path / "run.nc", "--quiet",
    )  # fmt: skip
    (options,) = no_fit
    assert options["columns"] == ["c", "a"]
    np.testing.assert_array_equal(options["data"], np.concatenate([X, X])[:, [2, 0]])
    assert options["prior"].shape() == (2,)
    assert (options["noise_variance"], options["standardize"]) == (0.2, None)
    assert options["progress"] is False


@pytest.mark.parametrize("noise", ["clt", "heteroscedastic"])
def test_the_noise_by_name(noise, samples, tmp_path, no_fit):
    bke_command("fit", *samples, "--noise-variance", noise, "--out", tmp_path / "run.nc")
    assert no_fit[0]["noise_variance"] == noise


# -- the whole job and its parts ------------------------------------------------------------------


def test_run_writes_every_file(finished):
    out, result = finished
    assert {path.name for path in out.iterdir()} == FILES | KEPT  # and no temporary file
    for picture in out.glob("*.png"):
        assert picture.read_bytes().startswith(b"\x89PNG")
    assert result.stderr == ""


def test_json_is_the_summary(finished):
    out, result = finished
    summary = json.loads(result.stdout)
    assert summary == json.loads((out / "summary.json").read_text())
    assert {Path(path).name for path in summary["files"].values()} == FILES | {"report.html"}
    steps_of_run = {"compare", "fit", "weigh", "diagnose", "witness", "pictures", "page", "total"}
    assert set(summary["timings"]) == steps_of_run
    assert summary["answer"]["pvalue"] <= 1.0
    assert summary["answer"]["columns"] == ["height"]
    assert summary["settings"]["num_chains"] == 2
    assert summary["settings"]["columns"] == ["height"]
    assert summary["versions"]["jax"]
    draws = load_run(out / "run.nc")["posterior"]["lengthscale"].values
    modes = [mode for mode in summary["posterior"]["modes"] if mode["draws"]]
    assert len(summary["posterior"]["modes"]) == len(summary["diagnosis"]["modes"])
    assert sum(mode["draws"] for mode in modes) <= draws.size
    for mode in modes:
        found = mode["hyperparameters"]["lengthscale"]
        assert draws.min() <= found["q10"] <= found["q50"] <= found["q90"] <= draws.max()
    for mode in summary["witness"]["modes"]:
        for part in mode.get("intervals", []):
            assert part["from"] <= part["to"]
            assert part["witness"] in ("above zero", "below zero")


def test_pages_say_what_the_summary_says(finished, tmp_path):
    out, result = finished
    summary = json.loads(result.stdout)
    diagnosed = tmp_path / "diagnosis.html"
    succeeded("diagnose", out / "run.nc", "--html", diagnosed, "--quiet")
    for path, pictures in ((out.parent.parent / "report.html", 6), (diagnosed, 3)):
        page = path.read_text(encoding="utf-8")
        assert page.count('<img src="data:image/webp;base64,') == pictures
        assert len(page) < 500_000
        for words in summary["diagnosis"]["verdict"].splitlines():
            assert html.escape(words) in page
        for mode in summary["posterior"]["modes"]:
            for found in mode["hyperparameters"].values():
                assert all(f">{found[key]:.4g}</td>" in page for key in ("mean", "sd", "q10"))
    refused = bke_command("diagnose", out / "run.nc", "--html", "a.txt")
    assert refused.exit_code == 2
    assert "must end in .html" in " ".join(refused.output.split())


def test_terminal_and_json_agree(finished):
    run = finished[0] / "run.nc"
    text = succeeded("diagnose", run).stdout
    summary = json.loads(succeeded("diagnose", run, "--json").stdout)
    assert summary["diagnosis"] == json.loads(finished[1].stdout)["diagnosis"]
    for mode in summary["posterior"]["modes"]:
        for found in mode["hyperparameters"].values():
            assert f"{found['mean']:.3g} ({found['sd']:.2g})" in text
    whole = succeeded("diagnose", run, "--verbose").stdout
    assert f"R-hat {summary['diagnosis']['rhat']:.3f}" in whole
    assert all(line in whole for line in summary["diagnosis"]["verdict"].splitlines())


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["npy", "parquet"])
def test_other_files_and_the_same_seed(suffix, finished, tmp_path, no_pictures):
    files = [tmp_path / f"{name}.{suffix}" for name in "PQ"]
    for file, values in zip(files, (P, Q), strict=True):
        if suffix == "npy":
            np.save(file, values)
        else:
            pytest.importorskip("pyarrow")
            pd = pytest.importorskip("pandas")
            pd.DataFrame({"height": values[:, 0]}).to_parquet(file)
    succeeded("run", *files, *TINY, "--out", tmp_path / "out", "--quiet")
    for name in ("run.nc", "witness.nc"):
        assert same_numbers(finished[0] / name, tmp_path / "out" / name)


@pytest.mark.slow
def test_parts_give_the_same_as_run(finished, samples, tmp_path, no_pictures):
    run = tmp_path / "new" / "run.nc"
    fitted = succeeded("fit", *samples, *TINY, "--out", run, "--json", "--quiet")
    assert same_numbers(finished[0] / "run.nc", run)
    whole = json.loads(finished[1].stdout)
    assert json.loads(fitted.stdout)["posterior"] == whole["posterior"]
    out = tmp_path / "witness"
    drawn = succeeded("witness", run, *samples, "--seed", 3, "--out", out, "--json", "--quiet")
    assert same_numbers(finished[0] / "witness.nc", out / "witness.nc")
    summary = json.loads(drawn.stdout)
    assert summary["witness"] == whole["witness"]
    assert summary["notes"] == []


@pytest.mark.slow
def test_another_seed_and_other_samples(finished, samples, tmp_path, no_pictures):
    succeeded("fit", *samples, *TINY[:-1], "4", "--out", tmp_path / "run.nc", "--quiet")
    assert not same_numbers(finished[0] / "run.nc", tmp_path / "run.nc")
    at = write_csv(tmp_path / "at.csv", [[1.0], [0.0], [-1.0]], "height")
    options = ("--at", at, "--noise", 0.1, "--level", 0.5, "--out", tmp_path, "--json", "--quiet")
    result = succeeded("witness", tmp_path / "run.nc", samples[0], samples[0], *options)
    summary = json.loads(result.stdout)
    assert "not the 44 rows that this run was fitted to: 20 rows of P and Q" in summary["notes"][0]
    assert "bke: warning: P and Q together are not the 44 rows" in result.stderr
    weights = write_csv(tmp_path / "weights.csv", [[1.0], [0.5], [-1.0]], "weight")
    told = refusal("witness", tmp_path / "run.nc", weights, weights, "--out", tmp_path)
    assert "3 rows of P (3 in all) and 3 rows of Q (3) are not among the 44 rows" in told
    assert (summary["witness"]["points"], summary["witness"]["level"]) == (3, 0.5)
    assert summary["witness"]["noise"] == "0.1"


def same_numbers(first, second):
    """Whether two files hold the same values; the names of the columns may differ."""
    import xarray as xr

    def read(path):
        with xr.open_datatree(path, engine="h5netcdf") as tree:
            return tree.load().map_over_datasets(lambda d: d.drop_vars("column", errors="ignore"))

    return read(first).equals(read(second))


# -- what is printed ------------------------------------------------------------------------------


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


@pytest.mark.slow
def test_ozone_example(tmp_path):
    script = Path(__file__).parents[3] / "examples" / "ozone.py"
    result = subprocess.run(
        [sys.executable, str(script), "--quick", "--out", str(tmp_path)],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "MPLBACKEND": "Agg"},
    )
    assert "calm days" in result.stdout
    assert "Ozone is rounded to 1" in result.stdout
    assert {path.suffix for path in tmp_path.iterdir()} == {".nc", ".png"}
    assert (tmp_path / "temp-hum-witness.png").is_file()


# The tests


def test_two_samples_are_compared(samples, tmp_path):
    """One answer on the terminal, in JSON and in the picture: that of the function."""
    out = tmp_path / "out"
    arguments = ("--permutations", "99", "--seed", "3", "--alpha", "0.1", "--quiet")
    printed = succeeded("compare", *samples, *arguments, "--json", "--out", out).stdout
    expected = bke.inference.compare(
        P, Q, n_resamples=99, seed=3, alpha=0.1, columns=["height"], progress=False
    )
    assert json.loads(printed)["answer"] == expected.to_dict()
    assert json.loads((out / "compare.json").read_text())["answer"] == expected.to_dict()
    assert {path.name for path in out.iterdir()} == {"comparison.png", "compare.json"} | KEPT
    assert (out / "comparison.png").stat().st_size > 5000
    assert str(expected) in succeeded("compare", *samples, *arguments).stdout


def test_a_difference_of_two_samples_fails_where_it_is_asked_for_and_is_large_enough(tmp_path):
    rng = np.random.default_rng(8)
    rows = (rng.normal(size=300), rng.normal(size=300), rng.normal(0.6, 1.0, size=300))
    first, same, other = (
        write_csv(tmp_path / f"{name}.csv", one[:, None], "x")
        for name, one in zip("abc", rows, strict=True)
    )
    fast = ("--permutations", "99", "--quiet")
    assert bke_command("compare", first, other, *fast).exit_code == 0
    assert bke_command("compare", first, same, "--fail", *fast).exit_code == 0
    assert bke_command("compare", first, other, "--fail", *fast).exit_code == 3
    auc = bke.inference.compare(rows[0], rows[2], n_resamples=99, progress=False).auc
    assert 0.6 < auc < 0.7
    for least, status in ((0.6, 3), (0.7, 0)):
        found = bke_command("compare", first, other, "--fail", "--min-effect", least, *fast)
        assert found.exit_code == status
        gate = ("--fail", "--min-effect", least, "--json")
        answer = json.loads(bke_command("compare", first, other, *gate, *fast).stdout)
        assert (answer["failed"], answer["min_effect"]) == (status == 3, least)
        assert f"{'Failed' if status else 'Passed'}: the AUC, {auc:.3f}, is" in found.stdout
    for wrong in (("--min-effect", 0.6), ("--fail", "--min-effect", 0.1)):
        assert bke_command("compare", first, other, *wrong, *fast).exit_code == 2


def test_pairs_are_tested_for_independence(tmp_path):
    x = RNG.normal(size=40)
    table = np.column_stack([x, RNG.normal(size=40), x**2])
    path = write_csv(tmp_path / "pairs.csv", table, "a,b,c")
    arguments = ("--permutations", "99", "--quiet", "--json")
    found = json.loads(succeeded("independence", path, "--x", "a", "--y", "c", *arguments).stdout)
    expected = bke.inference.independence_test(x, x**2, n_resamples=99, progress=False)
    assert (found["pvalue"], found["statistic"]) == (expected.pvalue, expected.statistic)
    assert found["pvalue"] == 0.01
    both = succeeded("independence", path, "--x", "a,b", "--y", "2", *arguments)
    assert json.loads(both.stdout)["y"] == ["c"]
    failed = bke_command("independence", path, "--x", "a", "--y", "c", *arguments, "--fail")
    assert failed.exit_code == 3


@pytest.mark.slow
def test_conditional_independence_on_the_command_line(tmp_path):
    rng = np.random.default_rng(3)
    z = rng.normal(size=60)
    table = np.column_stack([z + 0.3 * rng.normal(size=60), z + 0.3 * rng.normal(size=60), z])
    path = write_csv(tmp_path / "three.csv", table, "a,b,c")
    arguments = ("--permutations", "39", "--quiet", "--json")
    plain = json.loads(
        succeeded(
            "independence", path, "--x", "a", "--y", "b", *arguments, "--out", tmp_path / "o"
        ).stdout
    )
    assert plain["reject"]
    assert (tmp_path / "o" / "witness.png").stat().st_size > 5000
    given = json.loads(
        succeeded("independence", path, "--x", "a", "--y", "b", "--given", "c", *arguments).stdout
    )
    assert not given["reject"]
    assert given["given"] == ["c"]
    assert "a and b given c" in given["test"]


def test_bad_input_to_the_tests(samples, tmp_path):
    assert "cannot reject" in refusal("compare", *samples, "--permutations", "9")
    assert "P.csv" in refusal("compare", tmp_path / "P.csv", samples[1])
    assert "no column" in refusal("independence", samples[0], "--x", "height", "--y", "weight")
    assert "samples of one size" in refusal("compare", *samples, "--paired")


@pytest.mark.slow
def test_rows_that_stay_on_disk(tmp_path):
    X = np.random.default_rng(0).gamma(2.0, size=(500, 2))
    path, out = tmp_path / "rows.npy", tmp_path / "run.nc"
    np.save(path, X)
    options = ["--likelihood", "landmark", "--landmarks", "6", "--method", "quadrature"]
    small = ["--draws", "40", "--quiet", "--json"]
    said = succeeded("fit", path, "--stream", *options, *small, "--out", out)
    summary = json.loads(said.stdout)
    assert summary["settings"]["rows"] == 500
    assert summary["settings"]["data_sha256"] == hashlib.sha256(X.tobytes()).hexdigest()
    succeeded("diagnose", out, "--quiet")
