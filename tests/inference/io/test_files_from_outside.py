"""Files from outside run no code and keep nobody waiting: each of these would do it if it could."""

import contextlib
import json
import os
import subprocess
import sys
import zipfile

import h5py
import numpy as np
import pyarrow as pa
import pytest
from bke.inference import (
    InputError,
    Monitor,
    Quadrature,
    compare_tables,
    fit,
    load_run,
    open_rows,
    read_sample,
    save_run,
)
from bke.inference.cli import app
from bke.inference.core.archive import HEAD
from bke.inference.likelihood_free.problem import CheckpointFolder
from bke.inference.sampling.out_of_core import Checkpoint
from bke.inference.sampling.record import RECORD, read_record
from typer.testing import CliRunner

PROGRAM = "from bke.inference.cli import main; main()"
MARKUP = "<script>run()</script>"


class Runs:
    """Makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (os.mkdir, (str(self.path),))


@pytest.fixture(scope="module")
def fitted():
    rows = np.random.default_rng(0).normal(size=12)
    return fit(rows, columns=[MARKUP], method=Quadrature(num_samples=16), progress=False)


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
    Checkpoint(tmp_path / "job.npz", {"seed": 1})
    store = CheckpointFolder(tmp_path, {"seed": 1})
    store.save("chunk", {"values": np.zeros(2)})
    for name, array in (("job.npz", "state"), ("chunk.npz", "values")):
        head = dict(np.load(tmp_path / name))[HEAD]
        np.savez(tmp_path / name, **{HEAD: head, array: pickled})
    with pytest.raises(InputError, match="cannot be read as a checkpoint"):
        Checkpoint(tmp_path / "job.npz", {"seed": 1})
    with pytest.raises(InputError, match="cannot be read"):
        store.load("chunk")
    assert not trap.exists()


def test_code_in_the_record_of_a_run(fitted, trap, tmp_path):
    path = tmp_path / "run.nc"
    fitted.to_netcdf(path, engine="h5netcdf")
    record = read_record(fitted.attrs)

    def load_with(text):
        with h5py.File(path, "a") as file:
            file.attrs[RECORD] = text
        load_run(path)

    load_with(json.dumps(record))
    code = f"__import__('os').mkdir({str(trap)!r})"
    # 20 000 levels, at which Python's reader gives up in its own way
    for text in (code, "[" * 20_000):
        with pytest.raises(InputError, match="its attribute bke is not a record of a run"):
            load_with(text)
    for name in ("kernel", "prior", "measure", "noise_variance"):
        for value in (code, {"type": f"os:mkdir({str(trap)!r})"}, {"distribution": code}):
            with pytest.raises(InputError):
                load_with(json.dumps({**record, "model": {**record["model"], name: value}}))
    assert not trap.exists()


def test_markup_in_the_names_of_columns_and_files(fitted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_run(fitted, "<b>.nc")
    done = CliRunner().invoke(app, ["diagnose", "<b>.nc", "--html", "page.html"])
    assert done.exit_code == 0, done.output
    page = (tmp_path / "page.html").read_text()
    assert MARKUP not in page
    assert "&lt;script&gt;run()" in page
    assert "<b>.nc" not in page
    assert "&lt;b&gt;.nc" in page


def test_a_zarr_array_with_a_link_or_a_pipe(tmp_path):
    zarr = pytest.importorskip("zarr")
    for number, place in enumerate(("link", "pipe")):
        path = tmp_path / f"{number}.zarr"
        zarr.create_array(path, shape=(30, 2), dtype=float)[:] = 1.0
        chunk = next(file for file in path.rglob("*") if file.is_file() and file.suffix != ".json")
        chunk.unlink()
        chunk.symlink_to("/dev/zero") if place == "link" else os.mkfifo(chunk)
        with pytest.raises(InputError, match="is a link or no regular file"):
            open_rows(path)


def test_a_run_whose_data_are_elsewhere(fitted, tmp_path):
    fitted.to_netcdf(tmp_path / "whole.nc", engine="h5netcdf")
    load_run(tmp_path / "whole.nc")
    layout = h5py.VirtualLayout((3,), float)
    layout[:] = h5py.VirtualSource("whole.nc", "posterior/lengthscale", (3,))
    changes = {
        "soft": lambda file: file.update({"more": h5py.SoftLink("/posterior")}),
        "external": lambda file: file.update({"more": h5py.ExternalLink("whole.nc", "/")}),
        "cycle": lambda file: file["posterior"].update({"more": file}),
        "stored": lambda file: file.create_dataset(
            "more", (3,), float, external=[("/dev/zero", 0, 24)]
        ),
        "virtual": lambda file: file.create_virtual_dataset("more", layout),
    }
    for kind, change in changes.items():
        path = tmp_path / f"{kind}.nc"
        path.write_bytes((tmp_path / "whole.nc").read_bytes())
        with h5py.File(path, "a") as file:
            change(file)
        with pytest.raises(InputError, match="has a link at"):
            load_run(path)


@pytest.mark.parametrize("suffix", [".csv.gz", ".csv.bz2", ".csv.zst", ".parquet", ".xlsx"])
def test_a_file_that_holds_far_more_than_its_size(tmp_path, suffix):
    """Each has more than 256 MiB, or as many cells."""
    path = tmp_path / f"rows{suffix}"
    if suffix == ".parquet":
        pyarrow_parquet = pytest.importorskip("pyarrow.parquet")
        batch = pa.table({"x": pa.array(np.zeros(2**24, np.int8))})
        with pyarrow_parquet.ParquetWriter(path, batch.schema) as writer:
            for _ in range(17):
                writer.write_table(batch)
    elif suffix == ".xlsx":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("xl/worksheets/sheet1.xml", bytes(2**28 + 1))
    else:
        with pa.output_stream(path, compression="detect") as stream:
            stream.write(b"0\n" * 2**23)
        path.write_bytes(path.read_bytes() * 17)
    assert path.stat().st_size < 2**28 / 100
    with pytest.raises(InputError, match="holds more than 256 MiB, and 100 times as much"):
        compare_tables(path, path)


def test_a_pipe_as_a_checkpoint_or_a_state(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="is not a checkpoint"):
        Checkpoint(tmp_path / "pipe", {"seed": 1})
    with pytest.raises(InputError, match="is not a monitor"):
        Monitor.from_file(tmp_path / "pipe")


def test_a_state_with_compressed_arrays(tmp_path):
    np.savez_compressed(tmp_path / "state", **{HEAD: np.array("{}"), "x": np.zeros(10**6)})
    with pytest.raises(InputError, match="its arrays are compressed"):
        Monitor.from_file(tmp_path / "state.npz")


def test_a_state_with_contents_that_no_monitor_has(tmp_path):
    """Every value of what is told of the arrays, replaced by seven others."""
    rng = np.random.default_rng(0)
    path = tmp_path / "state"
    Monitor(rng.normal(size=(60, 2)), columns=["u", "v"]).to_file(path)
    arrays = dict(np.load(path))
    head = json.loads(str(arrays[HEAD]))
    read = 0
    for keys in [*leaves(head["told"])]:
        for value in (None, -1, 0, "x", [], {}, 1e300):
            changed = json.loads(str(arrays[HEAD]))
            inner = changed["told"]
            for key in keys[:-1]:
                inner = inner[key]
            inner[keys[-1]] = value
            with open(path, "wb") as file:
                np.savez(file, **{**arrays, HEAD: np.array(json.dumps(changed))})
            with contextlib.suppress(InputError):
                monitor = Monitor.from_file(path)
                read += 1
                str(monitor.update(rng.normal(size=(3, 2))))
    assert read < 40


def leaves(tree, keys=()):
    for key, value in tree.items():
        yield from leaves(value, (*keys, key)) if isinstance(value, dict) else [(*keys, key)]


ESCAPE, BIDI = "\x1b]52;c;aGk=\x07", "\u202e"


def test_orders_for_a_terminal_are_shown_as_codes():
    rng = np.random.default_rng(0)
    tables = [
        {
            BIDI: rng.normal(size=60),
            "word": [ESCAPE if i % share else "b" for i in range(60)],
            "mention": [mention if i % share else "b" for i in range(60)],
        }
        for share, mention in ((2, "@everyone #1"), (5, "https://x.org $x$"))
    ]
    found = compare_tables(*tables)
    assert found.reject
    for text in (str(found), found.to_markdown()):
        assert all(one.isprintable() for one in text.replace("\n", ""))
    assert "\\x1b" in str(found)
    marked = found.to_markdown()
    for live in ("@everyone", "#1", "https://", " $"):
        assert live not in marked


@pytest.mark.parametrize("command", ["drift a.csv b.csv", "diagnose none.nc"])
def test_no_module_of_the_current_folder_is_run(tmp_path, command):
    """pandas looks for bottleneck, which is not installed."""
    for name in ("a", "b"):
        np.savetxt(tmp_path / f"{name}.csv", np.arange(40.0), header="x", comments="")
    for name in ("bottleneck", "numexpr", "cupy"):
        (tmp_path / f"{name}.py").write_text("open('was_run', 'w').close()")
    program = f"import sys; sys.path.remove(''); {PROGRAM}"
    subprocess.run(
        [sys.executable, "-c", program, *command.split()],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert not (tmp_path / "was_run").exists()
