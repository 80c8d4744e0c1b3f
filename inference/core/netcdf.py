"""Trees in NetCDF files, which tell whether they are as they were saved.

A sum of the bytes stands behind the last that NetCDF knows of, and an attribute tells that it must
be there: a damaged file may keep its readers busy for ever, so it must not come to them.
"""

from __future__ import annotations

import hashlib
import io
import mmap
import os

import xarray as xr

from .atomic import atomic_path
from .errors import InputError

#: The attribute of a file that its bytes are sealed, whose name is found without reading the file.
SEALED = "bke_sealed"
#: Bytes of arrays for each of a file, at most: what compression of zeros comes to.
MOST_BYTES_EACH = 1100
#: The end of a file: this, the SHA-256 of all before in so many hexadecimal digits, a line break.
SEAL, DIGITS = b"\nbke sha256 ", 64


def write_tree(tree: xr.DataTree, path: str | os.PathLike[str]) -> None:
    """Write a tree to a NetCDF file, whole or not at all, sealed by the sum of its bytes.

    Raises:
        InputError: as of :func:`~bke.inference.core.atomic.atomic_path`.
    """
    whole = _in_memory(tree)
    with atomic_path(path) as temporary, open(temporary, "wb") as file:
        file.write(whole)
        file.write(SEAL + hashlib.sha256(whole).hexdigest().encode() + b"\n")


def _in_memory(tree: xr.DataTree) -> memoryview:
    """The bytes of a file: HDF5 may crash the process when it is over, where a disk was full."""
    import h5netcdf

    held = io.BytesIO()
    with h5netcdf.File(held, "w") as file:
        for group in tree.subtree:
            dataset = group.to_dataset(inherit=False)
            if group.path == "/":
                dataset = dataset.assign_attrs({SEALED: "yes"})
            dataset.dump_to_store(xr.backends.H5NetCDFStore(file, group.path))
    return held.getbuffer()


def read_tree(path: str | os.PathLike[str], kind: str) -> tuple[xr.DataTree, bool]:
    """Read a tree from a NetCDF file into memory.

    Args:
        path: of the file.
        kind: what it should be, for messages, such as ``"a run"``.

    Returns:
        The tree, and whether it is known to be as it was saved.

    Raises:
        InputError: there is no such file, it is damaged, or it was sealed and its bytes are other
            ones. A file without a seal and the attribute :data:`SEALED`, as others write it, is
            taken as it is.
    """
    if not os.path.isfile(path):
        raise InputError(f"{path}: no such file")
    sealed = _is_sealed(path)
    try:
        with xr.open_datatree(path, engine="h5netcdf") as opened:
            _check_size(opened, path)
            tree = opened.load()
    except InputError:
        raise
    except Exception as error:  # a damaged file fails in many ways
        raise InputError(f"{path} is not {kind} saved as NetCDF, or is damaged") from error
    tree.attrs.pop(SEALED, None)
    return tree, sealed


def _is_sealed(path: str | os.PathLike[str]) -> bool:
    """Whether the bytes of a file are those that its end tells; refuse it if they are others."""
    length = len(SEAL) + DIGITS + 1
    if os.path.getsize(path) <= length:
        return False
    with (
        open(path, "rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as held,
        memoryview(held) as view,
    ):
        seal = SEAL + hashlib.sha256(view[:-length]).hexdigest().encode() + b"\n"
        if held[-length:] == seal:
            return True
        if held.find(SEAL) < 0 and held.find(SEALED.encode()) < 0:
            return False
    raise InputError(
        f"{path} is not as it was saved: it is damaged, or another program has changed it"
    )


def _check_size(opened: xr.DataTree, path: str | os.PathLike[str]) -> None:
    """Refuse arrays that are too large for the file that they are said to be in."""
    held = sum(
        int(values.size) * values.dtype.itemsize
        for group in opened.subtree
        for values in group.to_dataset(inherit=False).variables.values()
    )
    if held > MOST_BYTES_EACH * os.path.getsize(path):
        raise InputError(f"{path} is damaged: it claims to hold {held / 2**30:.1f} GiB")
