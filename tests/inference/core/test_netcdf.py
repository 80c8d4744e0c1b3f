"""Trees in files that are damaged or changed are refused, in a single sentence."""

import random
import subprocess
import sys

import numpy as np
import pytest
import xarray as xr
from bke.inference.core.errors import InputError
from bke.inference.core.netcdf import CHECKSUM_ATTRIBUTE, read_tree, write_tree


@pytest.fixture
def tree():
    dataset = xr.Dataset(
        {
            "x": (("chain", "draw"), np.arange(6.0).reshape(2, 3)),
            "good": ("draw", [True, False, True]),
        },
        coords={"column": ["a", "b"]},
        attrs={"words": "one", "numbers": [1.0, 2.0], "single": [3.0]},
    )
    tree_of_groups = xr.DataTree.from_dict(
        {"/": xr.Dataset(attrs={"source": "here"}), "/a": dataset, "/b": dataset}
    )
    tree_of_groups["b"].attrs["words"] = "two"
    return tree_of_groups


def test_a_file_that_another_program_rewrote_is_refused(tree, tmp_path):
    """It is refused even if unchanged; without the attribute it is a file of another program."""
    path = tmp_path / "tree.nc"
    write_tree(tree, path)
    with xr.open_datatree(path, engine="h5netcdf") as opened:
        rewritten = opened.load()
    rewritten.to_netcdf(path, engine="h5netcdf")
    with pytest.raises(InputError, match=r"or another program has changed it$"):
        read_tree(path, "a tree")
    del rewritten.attrs[CHECKSUM_ATTRIBUTE]
    rewritten.to_netcdf(path, engine="h5netcdf")
    assert read_tree(path, "a tree").identical(rewritten)


def test_damage_is_refused(tree, damaged, tmp_path):
    """400 mutations, seed 0; in a small file a lost page contains the checksum too."""
    path, rng = tmp_path / "tree.nc", random.Random(0)
    write_tree(tree, path)
    complete = path.read_bytes()
    damaged_files = [content for _ in range(400) if (content := damaged(complete, rng)) != complete]
    for content in damaged_files:
        path.write_bytes(content)
        with pytest.raises(InputError) as refused:
            read_tree(path, "a tree")
        message = str(refused.value)
        assert message.startswith(str(path))
        assert "\n" not in message
    assert len(damaged_files) > 300


def test_files_that_are_no_tree_or_claim_too_much(tmp_path):
    import h5py

    with pytest.raises(InputError, match="no such file"):
        read_tree(tmp_path / "absent.nc", "a tree")
    path = tmp_path / "text.nc"
    path.write_text("no tree")
    with pytest.raises(InputError, match="is not a tree saved as NetCDF, or is damaged"):
        read_tree(path, "a tree")
    with h5py.File(path, "w") as file:
        data = file.create_dataset("x", (10**6, 10**6), "f8", chunks=(1000, 1000))
        for axis, name in enumerate(("row", "column")):
            file.create_dataset(name, (10**6,), "i1", chunks=(1000,)).make_scale(name)
            data.dims[axis].attach_scale(file[name])
    with pytest.raises(InputError, match="claims to hold 7450"):
        read_tree(path, "a tree")


def test_no_file(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_tree(tmp_path / "absent.nc", "a tree")
    (tmp_path / "text.nc").write_text("no tree")
    with pytest.raises(InputError, match="is not a tree saved as NetCDF, or is damaged"):
        read_tree(tmp_path / "text.nc", "a tree")


WRITE_TOO_MUCH = """
import resource, sys
import numpy as np, xarray as xr
from bke.inference.core.netcdf import write_tree

tree = xr.DataTree(xr.Dataset({"x": ("row", np.zeros(100_000))}))
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    write_tree(tree, sys.argv[1])
except OSError as error:
    print(error.strerror, error.filename)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no limits of files")
def test_a_file_that_cannot_be_completed_is_removed(tree, tmp_path):
    """The process lives on, which it does not where HDF5 itself meets the end of a disk."""
    path = tmp_path / "tree.nc"
    write_tree(tree, path)
    command = [sys.executable, "-c", WRITE_TOO_MUCH, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"File too large {path}\n"
    read_tree(path, "a tree")
    assert list(tmp_path.iterdir()) == [path]
