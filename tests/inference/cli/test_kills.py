"""Processes that are killed while they write, or that write to one folder: nothing is mixed."""

import hashlib
import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from bke.inference.core.drafts import check_in_place
from bke.inference.core.errors import InputError

#: Of the two pairs of files that the folder may be of.
SEEDS = ("1", "2")
KILLS, PAIRS = 20, 10
STARTS = (sys.executable, "-c", "from bke.inference.cli import main; main()")


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    rng = np.random.default_rng(0)
    for name, shift in (("p", 0.0), ("q", 1.0)):
        np.savetxt(folder / f"{name}.csv", rng.normal(shift, 1, (20, 1)), header="u", comments="")
    return folder


def command(rows, out, seed, *, n_resamples="19"):
    options = ("--permutations", n_resamples, "--seed", seed, "--quiet")
    return [
        *STARTS,
        "compare",
        str(rows / "p.csv"),
        str(rows / "q.csv"),
        *options,
        "--out",
        str(out),
    ]


def started(rows, out, seed):
    return subprocess.Popen(
        command(rows, out, seed), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


def of_one_command(out):
    """The seed of the files in a folder, each as its list says."""
    check_in_place(out / "compare.json")
    for name, known in json.loads((out / "bke-files.json").read_text())["files"].items():
        assert hashlib.sha256((out / name).read_bytes()).hexdigest() == known["sha256"]
    return str(json.loads((out / "compare.json").read_text())["answer"]["seed"])


@pytest.mark.slow
def test_killed_at_random_moments_over_an_older_folder(rows, tmp_path):
    """Twenty kills, at moments spread over the whole command (seed 0)."""
    out = tmp_path / "out"
    begun = time.perf_counter()
    subprocess.run(command(rows, out, SEEDS[0]), check=True, capture_output=True)
    whole = time.perf_counter() - begun
    rng = np.random.default_rng(0)
    seen = {SEEDS[0]: 0, SEEDS[1]: 0}
    for turn in range(KILLS):
        process = started(rows, out, SEEDS[(turn + 1) % 2])
        time.sleep(whole * rng.uniform(0.2, 1.1))
        process.kill()
        process.communicate()
        seen[of_one_command(out)] += 1
    assert min(seen.values()) > 0  # some were killed before the end and some after it


@pytest.mark.slow
def test_interrupted_at_random_moments(rows, tmp_path):
    """Twenty times Ctrl-C, from the first import to the end of the process (seed 0): one line."""
    program = "print('here', flush=True); from bke.inference.cli import main; main()"
    arguments = command(rows, tmp_path / "out", SEEDS[0])[len(STARTS) :]
    called = [sys.executable, "-c", program, *arguments]
    begun = time.perf_counter()
    subprocess.run(called, check=True, capture_output=True)
    whole = time.perf_counter() - begun
    rng = np.random.default_rng(0)
    ends = set()
    for _ in range(KILLS):
        with subprocess.Popen(called, stdout=-1, stderr=-1, text=True) as process:
            process.stdout.readline()
            # The import of the entry itself, some milliseconds, is Python's.
            time.sleep(0.1 + whole * rng.uniform(0.0, 1.0))
            process.send_signal(signal.SIGINT)
            told = process.communicate()[1].strip()
        ends.add(process.returncode)
        assert (process.returncode, told.split(";")[0]) in {(0, ""), (130, "bke: interrupted")}
    assert 130 in ends


@pytest.mark.slow
def test_pairs_of_processes_that_write_to_one_folder(rows, tmp_path):
    """Ten pairs, started together: one is refused, or comes after the other."""
    refused = 0
    for turn in range(PAIRS):
        out = tmp_path / str(turn)
        pair = [started(rows, out, seed) for seed in SEEDS]
        for process in pair:
            _, told = process.communicate()
            if process.returncode:
                assert "another process is writing" in told
                refused += 1
        assert of_one_command(out) in SEEDS
    assert refused > 0


def test_a_folder_that_another_process_writes_to_is_refused(rows, tmp_path):
    import filelock

    out = tmp_path / "out"
    out.mkdir()
    with filelock.FileLock(out / ".bke.lock"):
        found = subprocess.run(command(rows, out, "1"), capture_output=True, text=True, check=False)
    assert found.returncode == 1
    assert found.stderr.startswith(f"bke: another process is writing to the folder {out}")


def test_files_of_two_runs_are_not_read(rows, tmp_path):
    """A list in the draft: some of its files may be in place, and others not."""
    import bke.inference

    out = tmp_path / "out"
    rows_of_one = np.loadtxt(rows / "p.csv", skiprows=1)
    run = bke.inference.fit(rows_of_one, progress=False)
    (out / "bke-unfinished").mkdir(parents=True)
    bke.inference.save_run(run, out / "run.nc")
    (out / "bke-unfinished" / ".of-bke").touch()
    (out / "bke-unfinished" / "bke-files.json").write_text('{"files": {}}')
    with pytest.raises(InputError, match="may not belong to the files beside it"):
        bke.inference.load_run(out / "run.nc")
