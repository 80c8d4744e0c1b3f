"""Arrays in a file are read unchanged, or refused."""

import random

import numpy as np
import pytest
from bke.inference.core.archive import read_arrays, write_arrays
from bke.inference.core.errors import InputError

ARRAYS = {
    "x": np.random.default_rng(0).normal(size=(50, 3)),
    "n": np.array(4),
    "words": np.array(["a", "bc"]),
}


def same(restored):
    return list(restored) == list(ARRAYS) and all(
        np.array_equal(restored[name], ARRAYS[name]) for name in ARRAYS
    )


def test_arrays_are_read_unchanged(tmp_path):
    write_arrays(tmp_path / "kept", {"seed": 1, "of": ["rows"]}, ARRAYS)
    header, arrays = read_arrays(tmp_path / "kept", "a checkpoint")
    assert header == {"seed": 1, "of": ["rows"]}
    assert same(arrays)


def test_damage_is_refused_or_has_no_effect(damaged, tmp_path):
    """1500 mutations, seed 0: a few change dates or the like, which no array depends on."""
    path, rng, refused = tmp_path / "kept", random.Random(0), 0
    write_arrays(path, {}, ARRAYS)
    complete = path.read_bytes()
    for _ in range(1500):
        path.write_bytes(damaged(complete, rng))
        try:
            assert same(read_arrays(path, "a checkpoint")[1])
        except InputError as error:
            message = str(error)
            refused += message.startswith(str(path)) and "\n" not in message
    assert refused > 1400


def test_a_header_of_another_size_or_offset_is_refused(tmp_path):
    """Change every bit of the header of an entry that is longer than a block of reading."""
    path = tmp_path / "kept"
    write_arrays(path, {}, {"x": np.random.default_rng(1).normal(size=(20_000, 2))})
    complete = path.read_bytes()
    start = complete.index(b"\x93NUMPY", complete.index(b"x.npy"))
    for at in range(start, start + 128):
        for bit in range(8):
            content = bytearray(complete)
            content[at] ^= 1 << bit
            path.write_bytes(content)
            with pytest.raises(InputError, match="cannot be read as a checkpoint"):
                read_arrays(path, "a checkpoint")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"letters from home"])
def test_other_files_are_not_to_be_deleted(content, tmp_path):
    (tmp_path / "mine").write_bytes(content)
    with pytest.raises(InputError, match="mine is not a checkpoint of bke: name another place"):
        read_arrays(tmp_path / "mine", "a checkpoint")
    np.savez(tmp_path / "other.npz", x=np.zeros(2))
    with pytest.raises(InputError, match="not a checkpoint"):
        read_arrays(tmp_path / "other.npz", "a checkpoint")
