"""Trees in files: what is damaged or changed is refused, in one sentence."""

import random

import numpy as np
import pytest
import xarray as xr
from bke.inference.errors import InputError
from bke.inference.runtime.netcdf import DIGEST, content_digest, read_tree, write_tree


@pytest.fixture
def tree():
    one = xr.Dataset(
        {
            "x": (("chain", "draw"), np.arange(6.0).reshape(2, 3)),
            "good": ("draw", [True, False, True]),
        },
        coords={"column": ["a", "b"]},
        attrs={"words": "one", "numbers": [1.0, 2.0], "one": [3.0]},
    )
    made = xr.DataTree.from_dict({"/": xr.Dataset(attrs={"made": "here"}), "/a": one, "/b": one})
    made["b"].attrs["words"] = "two"
    return made


def test_what_is_read_is_what_was_written(tree, tmp_path):
    write_tree(tree, tmp_path / "tree.nc")
    back = read_tree(tmp_path / "tree.nc", "a tree")[0]
    assert DIGEST not in back.attrs
    assert back.attrs["made"] == "here"
    np.testing.assert_array_equal(back["a"]["x"], tree["a"]["x"])
    assert list(back["b"]["column"].values) == ["a", "b"]


def changed(tree, how):
    if how == "value":
        tree["a"]["x"][1, 1] = 7.0
    elif how == "type":
        tree["a"]["x"] = tree["a"]["x"].astype("float32")
    elif how == "attribute":
        tree["b"].attrs["words"] = "one"
    elif how == "root":
        tree.attrs["made"] = "there"
    elif how == "group":
        del tree["b"]
    elif how == "name":
        tree["a"] = xr.DataTree(tree["a"].to_dataset().rename(x="y"))
    elif how == "dims":
        tree["a"] = xr.DataTree(tree["a"].to_dataset().rename(chain="row"))
    elif how == "coordinate":
        tree["a"] = xr.DataTree(tree["a"].to_dataset().assign_coords(column=["a", "c"]))
    return tree


HOW = ("value", "type", "attribute", "root", "group", "name", "dims", "coordinate")


@pytest.mark.parametrize("how", HOW)
def test_what_another_program_changed_is_refused(tree, tmp_path, how):
    path = tmp_path / "tree.nc"
    write_tree(tree, path)
    with xr.open_datatree(path, engine="h5netcdf") as opened:
        found = opened.load()
    found.to_netcdf(path, engine="h5netcdf")
    read_tree(path, "a tree")[0]  # written anew by another, and the same
    changed(found, how).to_netcdf(path, engine="h5netcdf")
    with pytest.raises(InputError, match="not as it was saved"):
        read_tree(path, "a tree")[0]
    del found.attrs[DIGEST]
    found.to_netcdf(path, engine="h5netcdf")
    assert content_digest(read_tree(path, "a tree")[0]) == content_digest(found)


def damaged(content, rng):
    """A flipped bit, eight of them, a cut, or a stretch of zeros."""
    content = bytearray(content)
    kind = rng.randrange(4)
    if kind < 2:
        for _ in range((1, 8)[kind]):
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    elif kind == 2:
        del content[rng.randrange(len(content)) :]
    else:
        at = rng.randrange(len(content))
        content[at : at + 512] = bytes(len(content[at : at + 512]))
    return bytes(content)


def test_damage_is_refused_or_changes_nothing(tree, tmp_path):
    """400 mutations, seed 0: refused, or nothing but the end is damaged or gone."""
    path, rng = tmp_path / "tree.nc", random.Random(0)
    write_tree(tree, path)
    whole, digest = path.read_bytes(), content_digest(read_tree(path, "a tree")[0])
    made = [content for _ in range(400) if (content := damaged(whole, rng)) != whole]
    refused = 0
    for content in made:
        path.write_bytes(content)
        try:
            found = content_digest(read_tree(path, "a tree")[0])
        except InputError as error:
            told = str(error)
            refused += told.startswith(str(path)) and "\n" not in told
        else:
            refused += found == digest and len(content) - len(whole) in range(-76, 1)
    assert refused == len(made) > 300


def test_a_file_that_claims_more_than_it_can_hold(tmp_path):
    import h5py

    path = tmp_path / "huge.nc"
    with h5py.File(path, "w") as file:
        data = file.create_dataset("x", (10**6, 10**6), "f8", chunks=(1000, 1000))
        for axis, name in enumerate(("row", "column")):
            file.create_dataset(name, (10**6,), "i1", chunks=(1000,)).make_scale(name)
            data.dims[axis].attach_scale(file[name])
    with pytest.raises(InputError, match="claims to hold 7450"):
        read_tree(path, "a tree")[0]


def test_no_file(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_tree(tmp_path / "absent.nc", "a tree")[0]
    (tmp_path / "text.nc").write_text("no tree")
    with pytest.raises(InputError, match="is not a tree saved by bke, or is damaged"):
        read_tree(tmp_path / "text.nc", "a tree")[0]
