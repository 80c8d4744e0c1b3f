"""Interrupted and killed commands, and two that write to one folder: no files are mixed or lost."""

import enum
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from bke.inference import InputError, SamplingError, fit, load_run, save_run
from bke.inference.cli import interrupt
from bke.inference.core.staging import check_in_place

#: Seeds of the two commands whose files the folder may hold.
SEEDS = ("1", "2")
KILLS, PAIRS = 20, 10
MAIN = "from bke.inference.cli import main; main()"


@pytest.fixture(scope="module")
def rows(tmp_path_factory, write_csv):
    folder, rng = tmp_path_factory.mktemp("rows"), np.random.default_rng(0)
    for name, shift in (("p", 0.0), ("q", 1.0)):
        write_csv(folder / f"{name}.csv", rng.normal(shift, 1, (20, 1)), "u")
    return folder


def command(rows, out, seed, program=MAIN):
    files = [str(rows / "p.csv"), str(rows / "q.csv")]
    options = ["--permutations", "19", "--seed", seed, "--quiet", "--out", str(out)]
    return [sys.executable, "-c", program, "compare", *files, *options]


def started(arguments):
    return subprocess.Popen(arguments, stdout=-1, stderr=-1, text=True)


def seconds(arguments):
    """Time of a command that succeeds."""
    start = time.perf_counter()
    subprocess.run(arguments, check=True, capture_output=True)
    return time.perf_counter() - start


def seed_of_files(out):
    """The seed of the files in a folder, all of one command."""
    check_in_place(out / "compare.json")
    for name, known in json.loads((out / "bke-files.json").read_text())["files"].items():
        assert hashlib.sha256((out / name).read_bytes()).hexdigest() == known["sha256"]
    return str(json.loads((out / "compare.json").read_text())["answer"]["seed"])


@pytest.mark.slow
def test_killed_at_random_moments_over_an_older_folder(rows, tmp_path):
    """Twenty kills, at moments spread over the whole command (seed 0)."""
    out, rng = tmp_path / "out", np.random.default_rng(0)
    duration = seconds(command(rows, out, SEEDS[0]))
    finished = 0
    for turn in range(KILLS):
        process = started(command(rows, out, SEEDS[(turn + 1) % 2]))
        time.sleep(duration * rng.uniform(0.2, 1.1))
        process.kill()
        process.communicate()
        finished += process.returncode == 0
        # The speed of a busy machine changes.
        duration *= 0.8 if process.returncode == 0 else 1.1
        assert seed_of_files(out) in SEEDS
    assert 0 < finished < KILLS


@pytest.mark.slow
def test_interrupted_at_random_moments(rows, tmp_path):
    """Twenty times Ctrl-C, from the first import to the end of the process (seed 0): one line."""
    arguments = command(rows, tmp_path / "out", SEEDS[0], f"print('here', flush=True); {MAIN}")
    duration, rng, statuses = seconds(arguments), np.random.default_rng(0), set()
    for _ in range(KILLS):
        with started(arguments) as process:
            process.stdout.readline()
            # The import of the entry itself, some milliseconds, is Python's.
            time.sleep(0.1 + duration * rng.uniform(0.0, 1.0))
            process.send_signal(signal.SIGINT)
            message = process.communicate()[1].strip().split(";")[0]
        statuses.add(process.returncode)
        assert (process.returncode, message) in {(0, ""), (130, "bke: interrupted")}
    assert 130 in statuses


@pytest.mark.slow
def test_pairs_of_processes_that_write_to_the_same_folder(rows, tmp_path):
    """Ten pairs, started together: one is refused, or comes after the other."""
    refused = 0
    for turn in range(PAIRS):
        out = tmp_path / str(turn)
        for process in [started(command(rows, out, seed)) for seed in SEEDS]:
            _, message = process.communicate()
            if process.returncode:
                assert "another process is writing" in message
                refused += 1
        assert seed_of_files(out) in SEEDS
    assert refused > 0


def test_files_of_two_runs_are_not_read(rows, tmp_path):
    """A list in the draft: some of its files may be in place, and others not."""
    out = tmp_path / "out"
    run = fit(np.loadtxt(rows / "p.csv", skiprows=1), progress=False)
    (out / "bke-unfinished").mkdir(parents=True)
    save_run(run, out / "run.nc")
    (out / "bke-unfinished" / ".of-bke").touch()
    (out / "bke-unfinished" / "bke-files.json").write_text('{"files": {}}')
    with pytest.raises(InputError, match="may not belong to the other files of its folder"):
        load_run(out / "run.nc")


def interrupted(*_, **__):
    raise KeyboardInterrupt


@pytest.mark.slow
def test_an_interrupted_run_leaves_older_files_and_its_finished_files(
    bke, rows, tmp_path, monkeypatch
):
    old, out = tmp_path / "old", tmp_path / "out"
    run = ("run", rows / "p.csv", rows / "q.csv", "--method", "quadrature", "--quiet")
    bke(*run, "--out", old)
    shutil.copytree(old, out)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    with monkeypatch.context() as patched:
        patched.setattr("bke.inference.fit", interrupted)
        bke(*run, "--out", tmp_path / "new", status=130)
        assert not (tmp_path / "new").exists()
        finished = load_run(out / "run.nc")
        patched.setattr("bke.inference.fit", lambda *_, **__: finished)
        patched.setattr("bke.inference.sample_witness", interrupted)
        message = bke(*run, "--out", out, status=130).stderr.strip()
    unfinished = out / "bke-unfinished"
    assert message == (
        f"bke: interrupted; finished files are in {unfinished} until a command writes to the "
        "folder again"
    )
    assert {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()} == before
    assert {path.name for path in unfinished.iterdir()} == {"run.nc", ".of-bke"}
    left = unfinished / "run.nc"
    refused = bke("diagnose", left, "--out", out, status=1)
    assert "is what an interrupted command has left" in refused.stderr
    load_run(left)  # is whole
    bke("diagnose", out / "run.nc", "--out", out)
    assert not unfinished.exists()


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
    "function",
    [_xla_gc_callback, lambda: hash(Hashed()), lambda: Numbered(2)],
    ids=["garbage", "hash", "enum"],
)
def test_interruption_where_it_would_be_lost(function, monkeypatch):
    """JAX collects garbage through a callback, and Python swallows what is raised in there.

    Bindings of C++ hash keys and make members of enumerations, and end the process at exceptions.
    """
    sent = []
    monkeypatch.setattr(interrupt.os, "kill", lambda *arguments: sent.append(arguments))
    function()
    time.sleep(20 * interrupt.RETRY_SECONDS)
    assert sent == [(os.getpid(), signal.SIGINT)]
    with pytest.raises(KeyboardInterrupt):
        interrupt.interrupt(signal.SIGINT, sys._getframe())


def test_sigterm_interrupts_only_with_a_checkpoint(bke, tmp_path, monkeypatch):
    """Other commands have no partial results, and end at once."""
    handlers = []

    def terminated(*_, **__):
        handlers.append(signal.getsignal(signal.SIGTERM))
        if handlers[-1] is not signal.SIG_DFL:
            try:
                signal.raise_signal(signal.SIGTERM)
            finally:
                signal.raise_signal(signal.SIGTERM)  # again, amid the saving
        raise SamplingError("stopped by the test")

    monkeypatch.setattr("bke.inference.fit", terminated)
    np.save(tmp_path / "p.npy", np.random.default_rng(0).normal(size=(30, 1)))
    stream = ("--stream", "--likelihood", "landmark", "--method", "quadrature")
    arguments = ("fit", tmp_path / "p.npy", *stream, "--out", tmp_path / "made.nc")
    bke(*arguments, "--checkpoint", tmp_path / "part", status=143)
    assert "stopped by the test" in bke(*arguments, status=1).stderr
    assert handlers == [interrupt.interrupt, signal.SIG_DFL]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.slow
def test_ctrl_c_on_a_real_run(tmp_path):
    # Where the tests run in the background of a shell, the signal is ignored and inherited so.
    handler = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    out = tmp_path / "out"
    options = ["run", "--draws", "100000", "--out", str(out)]
    process = started([sys.executable, "-c", handler + MAIN, *options])
    while process.poll() is None and not out.exists():
        time.sleep(0.1)
    time.sleep(3)
    process.send_signal(signal.SIGINT)
    try:
        _, errors = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert not out.exists()
