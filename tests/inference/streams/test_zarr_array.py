"""Zarr arrays from outside: no code of theirs runs, and what is not there is not made up."""

import json
import pickle

import numpy as np
import pytest
import zarr
from bke.inference import InputError, open_rows

X = np.random.default_rng(0).normal(size=(1000, 2))


class Touch:
    """Unpickled, it writes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return type(self.path).touch, (self.path,)


def written(folder, **options):
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
    rows = open_rows(written(tmp_path, **options))
    np.testing.assert_array_equal(rows.block(0, 1000), X)


def test_no_pickle_is_opened(tmp_path):
    """Format 2 names it as a filter, and a chunk holds what would run."""
    mark = tmp_path / "ran"
    path = written(tmp_path, zarr_format=2, compressors=None)
    (path / "0.0").write_bytes(pickle.dumps(Touch(mark)))
    changed(path, filters=[{"id": "pickle", "protocol": 5}], dtype="|O")
    with pytest.raises(InputError, match="has the codec 'pickle', which is none of numbers"):
        open_rows(path)
    assert not mark.exists()


@pytest.mark.parametrize(
    "codecs",
    [
        [{"name": "bytes"}, {"name": "numcodecs.pickle"}],
        ["numcodecs.pickle"],
        [{"name": "sharding_indexed", "configuration": {"codecs": [{"name": "numcodecs.pickle"}]}}],
    ],
)
def test_no_codec_of_objects_is_taken_within_another(tmp_path, codecs):
    with pytest.raises(InputError, match=r"has the codec 'numcodecs\.pickle'"):
        open_rows(changed(written(tmp_path), codecs=codecs))


def nested(depth):
    inner = {"name": "bytes"}
    for _ in range(depth):
        inner = {"name": "sharding_indexed", "configuration": {"codecs": [inner]}}
    return [inner]


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"shape": [10**12, 2]}, "has 20000000000 chunks, and 20 are there: is it a part"),
        ({"shape": [-5, 2]}, "not a readable zarr array: the shape"),
        ({"shape": [1000]}, "not a readable zarr array: the shape"),
        ({"shape": "many"}, "not a readable zarr array"),
        ({"shape": None}, "not a readable zarr array"),
        ({"codecs": nested(40)}, "codecs without end"),
        ({"chunk_grid": {}}, r"zarr\.json lacks 'configuration'"),
        ({"data_type": "unknown"}, "not a readable zarr array"),
    ],
)
def test_metadata_that_make_no_sense_are_refused(tmp_path, entries, message):
    with pytest.raises(InputError, match=message):
        open_rows(changed(written(tmp_path), **entries))


def test_a_chunk_that_does_not_fit_is_refused(tmp_path):
    grid = {"name": "regular", "configuration": {"chunk_shape": [10**10, 2]}}
    with pytest.raises(InputError, match="write it in smaller ones"):
        open_rows(changed(written(tmp_path), chunk_grid=grid))


def test_chunks_of_zeros_are_not_written_and_not_missed(tmp_path):
    """Zarr leaves out chunks of one value: here three in four."""
    path = tmp_path / "rows.zarr"
    rows = np.where(np.arange(1000)[:, None] < 250, X, 0.0)
    zarr.create_array(path, shape=X.shape, chunks=(50, 2), dtype=X.dtype)[:] = rows
    np.testing.assert_array_equal(open_rows(path).block(0, 1000), rows)


def test_a_folder_without_metadata_is_no_array(tmp_path):
    (tmp_path / "rows.zarr").mkdir()
    with pytest.raises(InputError, match=r"it has no \.zarray and no zarr\.json"):
        open_rows(tmp_path / "rows.zarr")
