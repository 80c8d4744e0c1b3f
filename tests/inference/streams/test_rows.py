"""Rows of files and of blocks; zarr arrays are read without running code of the file."""

import json
import pickle

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import zarr
from bke.inference import InputError, open_blocks, open_rows

X = np.random.default_rng(0).normal(size=(1000, 2))


class Touch:
    """Unpickled, it writes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return type(self.path).touch, (self.path,)


def write_zarr(folder, **options):
    path = folder / "rows.zarr"
    zarr.create_array(path, shape=X.shape, chunks=(50, 2), dtype=X.dtype, **options)[:] = X
    return path


def changed(path, **entries):
    (file,) = (path / name for name in (".zarray", "zarr.json") if (path / name).exists())
    file.write_text(json.dumps(json.loads(file.read_text()) | entries))
    return path


@pytest.mark.parametrize(
    "options",
    [{"zarr_format": 2}, {"zarr_format": 3}, {"shards": (250, 2)}],
    ids=["2", "3", "shards"],
)
def test_numbers_are_read(tmp_path, options):
    rows = open_rows(write_zarr(tmp_path, **options))
    np.testing.assert_array_equal(rows.block(0, 1000), X)


PICKLE = {"id": "pickle", "protocol": 5}


@pytest.mark.parametrize(
    "entries",
    [
        {"compressor": PICKLE},
        {"filters": [PICKLE]},
        {"filters": [{"id": "delta", "dtype": "<f8"}, PICKLE]},
        {"filters": [PICKLE], "dtype": "|O"},
        {"filters": [{"id": "vlen-utf8"}, PICKLE], "dtype": "|O"},
    ],
)
def test_pickled_chunks_are_not_read(tmp_path, entries):
    """Format 2 names any codec, and the chunk holds code that would run."""
    marker = tmp_path / "ran"
    path = write_zarr(tmp_path, zarr_format=2, compressors=None)
    (path / "0.0").write_bytes(pickle.dumps(Touch(marker)))
    changed(path, **entries)
    with pytest.raises(InputError, match=r"not a readable zarr array|has the type"):
        open_rows(path)
    assert not marker.exists()


def nested(depth):
    inner = {"name": "bytes"}
    for _ in range(depth):
        inner = {"name": "sharding_indexed", "configuration": {"codecs": [inner]}}
    return [inner]


def regular(*shape):
    return {"name": "regular", "configuration": {"chunk_shape": shape}}


UNREADABLE = "not a readable zarr array"


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"shape": [-5, 2]}, UNREADABLE),
        ({"shape": [1000]}, UNREADABLE),
        ({"shape": "many"}, UNREADABLE),
        ({"shape": None}, UNREADABLE),
        ({"codecs": nested(300)}, UNREADABLE),
        ({"codecs": ["numcodecs.pickle"]}, UNREADABLE),
        ({"codecs": [{"name": "bytes"}, {"name": "numcodecs.pickle"}]}, UNREADABLE),
        ({"chunk_grid": {}}, UNREADABLE),
        ({"chunk_grid": regular(0, 2)}, UNREADABLE),
        ({"data_type": "unknown"}, UNREADABLE),
        ({"shape": [10**12, 2]}, "should have 20000000000 chunks, and has 20"),
        ({"chunk_grid": regular(10**10, 2)}, "write it in smaller ones"),
        (None, UNREADABLE),
    ],
)
def test_invalid_metadata_are_refused(tmp_path, entries, message):
    path = write_zarr(tmp_path)
    if entries is None:
        (path / "zarr.json").unlink()
    else:
        changed(path, **entries)
    with pytest.raises(InputError, match=message):
        open_rows(path)


def test_absent_chunks_of_zeros_are_read(tmp_path):
    """Zarr leaves out chunks of one value: here three in four."""
    path = tmp_path / "rows.zarr"
    rows = np.where(np.arange(1000)[:, None] < 250, X, 0.0)
    zarr.create_array(path, shape=X.shape, chunks=(50, 2), dtype=X.dtype)[:] = rows
    np.testing.assert_array_equal(open_rows(path).block(0, 1000), rows)


ROWS = np.random.default_rng(0).gamma(2.0, size=(3000, 2))


@pytest.mark.parametrize("kind", ["npy", "parquet", "zarr", "csv"])
def test_blocks_are_the_rows_of_the_file(tmp_path, kind, write):
    rows = open_rows(write(tmp_path, ROWS, kind))
    assert rows.shape == ROWS.shape
    for start, stop in [(0, 1), (170, 190), (0, 3000), (2999, 3000), (353, 355)]:
        np.testing.assert_array_equal(rows.block(start, stop), ROWS[start:stop])
    first = 1 if kind in ("npy", "zarr") else "a"
    chosen = open_rows(rows.path, columns=[first, 0])
    assert chosen.columns == (("x1", "x0") if first == 1 else ("a", "b"))
    np.testing.assert_array_equal(chosen.block(5, 9), ROWS[5:9, ::-1])


def test_the_fingerprint_of_zarr_depends_on_its_content(tmp_path, write):
    path = write(tmp_path, ROWS, "zarr")
    before = open_rows(path).fingerprint()
    assert open_rows(path).fingerprint() == before
    zarr.open_array(path, mode="r+")[700] = 5.0
    assert open_rows(path).fingerprint() != before


def test_valid_blocks():
    batch = pyarrow.RecordBatch.from_arrays([pyarrow.array(c) for c in X[:50].T], names=["b", "a"])
    rows = open_blocks([batch.slice(0, 20), batch.slice(20, 0), batch.slice(20)])
    assert rows.columns == ("b", "a")
    np.testing.assert_array_equal(rows.block(0, 50), X[:50])
    path = rows.path
    assert path.exists()
    del rows
    assert not path.exists()
    single = open_blocks((np.float32([1.0, 2.5]), [3, 4]), columns=["height"])
    assert single.columns == ("height",)
    np.testing.assert_array_equal(single.block(0, 4)[:, 0], [1.0, 2.5, 3.0, 4.0])


def test_whole_numbers_beyond_double_precision_are_refused(tmp_path):
    codes = np.arange(2**53, 2**53 + 6)
    np.save(tmp_path / "rows.npy", codes)
    np.savetxt(tmp_path / "rows.csv", codes, "%d", header="v", comments="")
    pyarrow.parquet.write_table(pyarrow.table({"v": codes}), tmp_path / "rows.parquet")
    for name in ("rows.npy", "rows.csv", "rows.parquet"):
        with pytest.raises(InputError, match=rf"{name}.* has whole numbers beyond 2\^53"):
            open_rows(tmp_path / name).block(0, 6)


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ([], "has no rows: was the iterator used up before"),
        ([np.empty((0, 1))], "has no rows"),
        ([[1.0, 2.0], [3.0, np.nan]], r"a missing value \(NaN\) in row 4 \(row 2 of block 2\)"),
        ([[1.0], [np.inf]], "an infinite value in row 2"),
        ([[[1.0, 2.0]], [3.0]], "block 2 has 1 column, where 2 are needed"),
        ([["a", "b"]], "block 1 of blocks has 'a' in row 1"),
        ([np.zeros((2, 2, 2))], "block 1 of blocks has 3 dimensions"),
        ([np.zeros((2, 0))], "has no columns"),
        ("rows.csv", "for a file there is open_rows"),
        (3.0, "must be an iterator of arrays, got float"),
    ],
)
def test_invalid_blocks(blocks, message, tmp_path):
    with pytest.raises(InputError, match=message):
        open_blocks(blocks, folder=tmp_path)
    assert not list(tmp_path.iterdir())


def test_columns_of_another_name():
    first, second = (pyarrow.table({name: [1.0, 2.0]}) for name in "ab")
    with pytest.raises(InputError, match="columns of block 2 are b, and those of the first a"):
        open_blocks([first, second])
