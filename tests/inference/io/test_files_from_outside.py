"""Files of unknown origin run no code and do not block, although these are made to do so."""

import contextlib
import json
import os
import subprocess
import sys
import zipfile

import arviz_base
import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import xarray as xr
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
from bke.inference.io.tables import _arrow_bytes, read_table
from bke.inference.likelihood_free.problem import CheckpointFolder
from bke.inference.mcmc.draws import read_draws
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


def test_numpy_runs_the_pickled_code(pickled, trap, tmp_path):
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
        store.load("chunk", {"values": ("float64", ("k",))})
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
    for number, file_type in enumerate(("link", "pipe")):
        path = tmp_path / f"{number}.zarr"
        zarr.create_array(path, shape=(30, 2), dtype=float)[:] = 1.0
        chunk = next(file for file in path.rglob("*") if file.is_file() and file.suffix != ".json")
        chunk.unlink()
        chunk.symlink_to("/dev/zero") if file_type == "link" else os.mkfifo(chunk)
        with pytest.raises(InputError, match="is a link or no regular file"):
            open_rows(path)


def test_a_run_with_data_outside_of_its_file(fitted, tmp_path):
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


def test_a_run_of_too_deeply_nested_groups(tmp_path):
    """xarray takes a minute for three thousand."""
    import h5py

    with h5py.File(tmp_path / "deep.nc", "w") as file:
        group = file.create_group("posterior")
        for _ in range(200):
            group = group.create_group("a")
    for read in (load_run, read_draws):
        with pytest.raises(InputError, match="has more than 100 groups"):
            read([tmp_path / "deep.nc"] if read is read_draws else tmp_path / "deep.nc")


def test_a_sealed_run_with_contents_that_no_run_has(tmp_path):
    """Anyone can compute a checksum."""
    run = fit(np.random.default_rng(0).normal(size=12), progress=False)
    for group in ("posterior", "unconstrained_posterior"):
        changed = run.copy()
        changed[group] = xr.DataTree(run[group].to_dataset().isel(draw=slice(0, 1)))
        save_run(changed, tmp_path / "run.nc")
        with pytest.raises(InputError, match="along draw"):
            load_run(tmp_path / "run.nc")


@pytest.mark.parametrize("part", ["chunk", "metadata"])
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_draws_in_zarr_with_a_link_or_a_pipe(tmp_path, kind, part):
    pytest.importorskip("zarr")
    path = tmp_path / "draws.zarr"
    draws = {"mu": np.random.default_rng(0).normal(size=(2, 20))}
    arviz_base.from_dict({"posterior": draws}).to_zarr(path)
    read_draws([path])
    files = [file for file in sorted(path.rglob("*")) if file.is_file()]
    file = next(
        candidate for candidate in files if (candidate.suffix == ".json") == (part == "metadata")
    )
    file.unlink()
    file.symlink_to("/dev/zero") if kind == "link" else os.mkfifo(file)
    with pytest.raises(InputError, match="is a link or no regular file"):
        read_draws([path])


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_text_that_is_no_file(tmp_path, kind):
    for name in ("chain.csv", "settings.json"):
        path = tmp_path / name
        path.symlink_to("/dev/zero") if kind == "link" else os.mkfifo(path)
    with pytest.raises(InputError, match="is not a regular file"):
        read_draws([tmp_path / "chain.csv"])
    with pytest.raises(InputError, match="is not a regular file"):
        CheckpointFolder(tmp_path, {"seed": 1})


@pytest.mark.parametrize("suffix", [".csv.gz", ".csv.bz2", ".csv.zst", ".parquet", ".xlsx"])
def test_a_file_with_data_much_larger_than_its_size(tmp_path, suffix):
    """The files have more than 256 MiB, or as many cells."""
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


ZEROS = pa.array(np.zeros(2**25 + 2**20))
TEXT = pa.array(["0" * 2**20])
FIRST = pa.array(np.zeros(300, np.int32))
COLUMNS = {
    "numbers": ZEROS,
    "dictionary": pa.DictionaryArray.from_arrays(FIRST, ZEROS),
    "list": pa.ListArray.from_arrays(pa.array([0, len(ZEROS)], pa.int32()), ZEROS),
    "struct": pa.StructArray.from_arrays([ZEROS], ["x"]),
    "nothing": pa.nulls(2**28 + 2**20),
    "text of a dictionary": pa.DictionaryArray.from_arrays(FIRST, TEXT),
    "text of runs": pa.RunEndEncodedArray.from_arrays(pa.array([300], pa.int32()), TEXT),
}


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
@pytest.mark.parametrize("kind", ["file", "stream"])
@pytest.mark.parametrize("column", COLUMNS)
def test_columns_of_arrow_that_are_much_larger_than_their_file(tmp_path, column, kind, compression):
    table = pa.table({"x": COLUMNS[column]})
    path = tmp_path / "rows.arrow"
    new = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.OSFile(str(path), "wb") as sink, new(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    with pytest.raises(InputError, match="holds more than 256 MiB, and 100 times as much"):
        read_table(path)


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_an_arrow_file_that_was_cut_off_is_refused(tmp_path, compression):
    """Also after a whole batch of rows, or with its end mark alone."""
    path, table = tmp_path / "rows.arrow", pa.table({"x": np.arange(300.0), "y": np.arange(300)})
    options, ends = pa.ipc.IpcWriteOptions(compression=compression), []
    new = pa.ipc.new_file
    with pa.OSFile(str(path), "wb") as sink, new(sink, table.schema, options=options) as writer:
        for batch in table.to_batches(max_chunksize=100):
            writer.write_batch(batch)
            ends.append(sink.tell())
    complete = path.read_bytes()
    assert read_table(path).data.equals(table)
    for end in ends:
        for content in (complete[:end], complete[:end] + b"ARROW1"):
            path.write_bytes(content)
            with pytest.raises(InputError, match=r"not a readable \.arrow file"):
                read_table(path)


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_bytes_of_compressed_columns_are_counted_once(compression):
    table = pa.table({name: np.arange(1000.0) for name in "abcd"})
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    assert sum(map(_arrow_bytes, pa.ipc.MessageReader.open_stream(sink.getvalue()))) == table.nbytes


DELTA_LENGTHS = {
    "use_dictionary": False,
    "column_encoding": {"x": "PLAIN", "t": "DELTA_LENGTH_BYTE_ARRAY"},
}


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ([[f"tag{row}"] for row in range(20_000)], {}),
        ([{"a": f"tag{row}"} for row in range(20_000)], {}),
        ([f"{row:06d}" for row in range(60_000)], DELTA_LENGTHS),
    ],
    ids=["lists", "structures", "lengths"],
)
def test_other_columns_of_a_parquet_file_with_text_are_read(tmp_path, text, options):
    path, table = tmp_path / "rows.parquet", pa.table({"x": range(len(text)), "t": text})
    pa.parquet.write_table(table, path, **options)
    assert read_table(path).data["x"].to_pylist() == list(range(len(text)))


@pytest.mark.parametrize("kind", ["dictionary", "category", "prefixes"])
def test_text_of_parquet_that_is_much_larger_than_its_file(tmp_path, kind):
    path = tmp_path / "rows.parquet"
    options = {"compression": "zstd"}
    if kind == "prefixes":
        column = pa.array([f"{'0' * 2**20}{row}" for row in range(257)])
        options |= {"use_dictionary": False, "column_encoding": {"x": "DELTA_BYTE_ARRAY"}}
    else:
        column = COLUMNS["text of a dictionary"]
    table = pa.table({"x": column})
    pa.parquet.write_table(table, path, store_schema=kind == "category", **options)
    assert path.stat().st_size < 2**28 / 100
    with pytest.raises(InputError, match="holds more than 256 MiB, and 100 times as much"):
        read_table(path)


@pytest.mark.parametrize("claimed", [-2, 0, 8, 2**20, 2**40, 2**62])
def test_columns_of_arrow_that_claim_a_wrong_size(tmp_path, claimed):
    """It stands before the compressed bytes of each buffer."""
    numbers = np.arange(12345.0)
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema({"x": pa.float64()}), options=options) as writer:
        writer.write_table(pa.table({"x": numbers}))
    raw = sink.getvalue().to_pybytes()
    mark = numbers.nbytes.to_bytes(8, "little")
    assert raw.count(mark) == 1
    path = tmp_path / "rows.arrow"
    path.write_bytes(raw)
    assert read_table(path).data["x"].to_numpy().tolist() == numbers.tolist()
    path.write_bytes(raw.replace(mark, claimed.to_bytes(8, "little", signed=True)))
    with pytest.raises(InputError, match=r"rows\.arrow"):
        read_table(path)


@pytest.mark.parametrize("metadata", ["{", "[1]", '{"index_columns": 1}', "[" * 100_000])
def test_metadata_of_pandas_that_pandas_did_not_write(tmp_path, metadata):
    table = pa.table({"x": [1.0, 2.0]}).replace_schema_metadata({"pandas": metadata})
    pa.parquet.write_table(table, tmp_path / "rows.parquet")
    assert read_table(tmp_path / "rows.parquet").data["x"].to_pylist() == [1.0, 2.0]
    assert len(open_rows(tmp_path / "rows.parquet")) == 2


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
    """All values of the description of the arrays are replaced by seven others."""
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


def test_a_state_with_arrays_that_no_monitor_has(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "state"
    Monitor({"u": rng.normal(size=60), "v": ["a", "b", "c"] * 20}).to_file(path)
    arrays = dict(np.load(path))
    changes = (
        lambda array: array.astype(str),
        lambda array: array[..., np.newaxis],
        lambda array: array.astype("float64" if array.dtype.kind in "iu" else "int64"),
        lambda array: array.ravel()[:1],
    )
    for name in arrays.keys() - {HEAD, "times"}:
        for change in changes:
            with np.errstate(invalid="ignore"):  # infinite edges as integers
                changed = change(arrays[name])
            if changed.shape == arrays[name].shape and changed.dtype == arrays[name].dtype:
                continue
            with open(path, "wb") as file:
                np.savez(file, **{**arrays, name: changed})
            with pytest.raises(InputError, match="is a damaged monitor"):
                Monitor.from_file(path)
    for name, value in (("witnesses next_at", -1), ("history stride", 0), ("apart", 7.0)):
        with open(path, "wb") as file:
            np.savez(file, **{**arrays, name: np.full_like(arrays[name], value)})
        with pytest.raises(InputError, match="is a damaged monitor"):
            Monitor.from_file(path)


def test_a_part_of_a_run_with_arrays_that_it_does_not_have(tmp_path):
    store = CheckpointFolder(tmp_path, {"seed": 1})
    expected = {"x": ("float64", ("n", 2)), "words": ("U", ("n",))}
    x, words = np.zeros((3, 2)), np.array(["a", "b", "c"])
    store.save("chunk", {"x": x, "words": words})
    assert store.load("chunk", expected)["words"].tolist() == ["a", "b", "c"]
    for changed in (
        {"x": x},
        {"x": x, "words": words, "more": x},
        {"x": x, "words": words[:2]},
        {"x": x.T, "words": words},
        {"x": x.astype(int), "words": words},
        {"x": x, "words": np.zeros(3)},
    ):
        store.save("chunk", changed)
        with pytest.raises(InputError, match=r"chunk\.npz cannot be read"):
            store.load("chunk", expected)


def leaves(tree, keys=()):
    for key, value in tree.items():
        yield from leaves(value, (*keys, key)) if isinstance(value, dict) else [(*keys, key)]


ESCAPE, BIDI = "\x1b]52;c;aGk=\x07", "\u202e"


def test_terminal_escape_sequences_are_printed_as_codes():
    rng = np.random.default_rng(0)
    tables = [
        {
            BIDI: rng.normal(size=60),
            "word": [ESCAPE if i % period else "b" for i in range(60)],
            "mention": [mention if i % period else "b" for i in range(60)],
        }
        for period, mention in ((2, "@everyone #1"), (5, "https://x.org $x$"))
    ]
    result = compare_tables(*tables)
    assert result.reject
    for text in (str(result), result.to_markdown()):
        assert all(character.isprintable() for character in text.replace("\n", ""))
    assert "\\x1b" in str(result)
    page = result.to_html()
    assert BIDI not in page
    assert "\x1b" not in page
    assert "\\u202e" in page
    marked = result.to_markdown()
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
