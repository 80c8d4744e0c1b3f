"""Files from outside run no code: each of these would make a file if it were run."""

import json
import os

import numpy as np
import pytest
from bke.inference import InputError, fit, load_run, open_rows, read_sample, save_run
from bke.inference.cli import app
from bke.inference.core.archive import HEAD
from bke.inference.likelihood_free.problem import CheckpointFolder
from bke.inference.sampling.out_of_core import Checkpoint
from bke.inference.sampling.record import RECORD, read_record
from typer.testing import CliRunner

MARKUP = "<script>run()</script>"


class Runs:
    """Makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (os.mkdir, (str(self.path),))


@pytest.fixture
def trap(tmp_path):
    return tmp_path / "was_run"


@pytest.fixture
def pickled(trap):
    return np.array([[Runs(trap), 1.0], [2.0, 3.0]], dtype=object)


def test_the_trap_is_one(pickled, trap, tmp_path):
    np.save(tmp_path / "trap.npy", pickled, allow_pickle=True)
    np.load(tmp_path / "trap.npy", allow_pickle=True)
    assert trap.exists()


@pytest.mark.parametrize("read", [read_sample, open_rows])
def test_a_pickle_in_an_array(read, pickled, trap, tmp_path):
    np.save(tmp_path / "rows.npy", pickled, allow_pickle=True)
    with pytest.raises(InputError):
        read(tmp_path / "rows.npy")
    assert not trap.exists()


def test_a_pickle_in_a_checkpoint(pickled, trap, tmp_path):
    Checkpoint(tmp_path / "job", {"seed": 1})
    head = dict(np.load(tmp_path / "job"))[HEAD]
    with open(tmp_path / "job", "wb") as file:
        np.savez(file, **{HEAD: head, "state": pickled})
    with pytest.raises(InputError, match="cannot be read as a checkpoint"):
        Checkpoint(tmp_path / "job", {"seed": 1})
    assert not trap.exists()


def test_a_pickle_in_a_part_of_a_run(pickled, trap, tmp_path):
    store = CheckpointFolder(tmp_path, {"seed": 1})
    store.save("chunk", {"values": np.zeros(2)})
    head = dict(np.load(tmp_path / "chunk.npz"))[HEAD]
    np.savez(tmp_path / "chunk.npz", **{HEAD: head, "values": pickled})
    with pytest.raises(InputError, match="cannot be read"):
        store.load("chunk")
    assert not trap.exists()


def test_code_in_the_record_of_a_run(trap, tmp_path):
    run = fit(np.random.default_rng(0).normal(size=12), progress=False)
    code = f"__import__('os').mkdir({str(trap)!r})"
    record = read_record(run.attrs)
    # 20 000 levels, at which Python's reader gives up in its own way
    for text in (code, "[" * 20_000):
        run.attrs[RECORD] = text
        run.to_netcdf(tmp_path / "run.nc", engine="h5netcdf")
        with pytest.raises(InputError, match="its attribute bke is not a record of a run"):
            load_run(tmp_path / "run.nc")
    for name in ("kernel", "prior", "measure", "noise_variance"):
        for value in (code, {"type": f"os:mkdir({str(trap)!r})"}, {"distribution": code}):
            run.attrs[RECORD] = json.dumps({**record, "model": {**record["model"], name: value}})
            run.to_netcdf(tmp_path / "run.nc", engine="h5netcdf")
            with pytest.raises(InputError):
                load_run(tmp_path / "run.nc")
    assert not trap.exists()


def test_markup_in_the_names_of_columns_and_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = fit(np.random.default_rng(0).normal(size=12), columns=[MARKUP], progress=False)
    save_run(run, "<b>.nc")
    done = CliRunner().invoke(app, ["diagnose", "<b>.nc", "--html", "page.html"])
    assert done.exit_code == 0, done.output
    page = (tmp_path / "page.html").read_text()
    assert MARKUP not in page
    assert "&lt;script&gt;run()" in page
    assert "<b>.nc" not in page
    assert "&lt;b&gt;.nc" in page
