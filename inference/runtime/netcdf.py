"""Trees in NetCDF files, which tell whether they are as they were saved.

Two sums: one of the bytes, behind the last that NetCDF knows of, for a damaged file may keep its
readers busy for ever and must not come to them; and one of what they read, for a file that another
program has changed and written anew.
"""

from __future__ import annotations

import hashlib
import os
from typing import Any

import numpy as np
import xarray as xr

from ..errors import InputError
from .atomic import atomic_path

#: The attribute of a file that holds the digest of all else that a reader sees of it.
DIGEST = "content_sha256"
#: Bytes of arrays for each of a file, at most: what compression of zeros comes to.
MOST_BYTES_EACH = 1100
#: The end of a file: this, the SHA-256 of all before in so many hexadecimal digits, a line break.
SEAL, DIGITS = b"\nbke sha256 ", 64


CHANGED = "{} is not as it was saved: it is damaged, or another program has changed it"


def write_tree(tree: xr.DataTree, path: str | os.PathLike[str]) -> None:
    """Write a tree to a NetCDF file, whole or not at all, with a digest of what is read from it.

    Raises:
        InputError: as of :func:`~bke.inference.runtime.atomic.atomic_path`.
    """
    import h5py

    with atomic_path(path) as temporary:
        tree.to_netcdf(temporary, engine="h5netcdf")
        with xr.open_datatree(temporary, engine="h5netcdf") as opened:
            digest = content_digest(opened.load())
        with h5py.File(temporary, "r+") as file:
            file.attrs[DIGEST] = digest
        with open(temporary, "rb+") as bytes_of_file:
            seal = hashlib.file_digest(bytes_of_file, "sha256").hexdigest()
            bytes_of_file.write(SEAL + seal.encode() + b"\n")


def read_tree(path: str | os.PathLike[str], kind: str) -> tuple[xr.DataTree, bool]:
    """Read a tree from a NetCDF file into memory.

    Args:
        path: of the file.
        kind: what it should be, for messages, such as ``"a run"``.

    Returns:
        The tree, and whether it is known to be as it was saved.

    Raises:
        InputError: there is no such file, it is damaged, or its content is not that which was
            saved. A file without a digest, as others write it, is taken as it is.
    """
    if not os.path.isfile(path):
        raise InputError(f"{path}: no such file")
    _check_seal(path)
    try:
        with xr.open_datatree(path, engine="h5netcdf") as opened:
            _check_size(opened, path)
            tree = opened.load()
    except InputError:
        raise
    except Exception as error:  # a damaged file fails in many ways
        told = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"{path} is not {kind} saved by bke, or is damaged: {told}") from None
    digest = tree.attrs.pop(DIGEST, None)
    if digest is not None and str(digest) != content_digest(tree):
        raise InputError(CHANGED.format(path))
    return tree, digest is not None


def _check_seal(path: str | os.PathLike[str]) -> None:
    """Refuse a file whose bytes are not those that its end tells; others do not tell."""
    length = len(SEAL) + DIGITS + 1
    with open(path, "rb") as file:
        held = os.fstat(file.fileno()).st_size - length
        if held < 0:
            return
        file.seek(held)
        end = file.read(length)
        if not end.startswith(SEAL):
            return
        file.seek(0)
        digest = hashlib.sha256()
        while held > 0 and (part := file.read(min(held, 2**20))):
            digest.update(part)
            held -= len(part)
    if end[len(SEAL) :] != digest.hexdigest().encode() + b"\n":
        raise InputError(CHANGED.format(path))


def _check_size(opened: xr.DataTree, path: str | os.PathLike[str]) -> None:
    """Refuse arrays that are too large for the file that they are said to be in."""
    held = sum(
        int(values.size) * values.dtype.itemsize
        for group in opened.subtree
        for values in group.to_dataset(inherit=False).variables.values()
    )
    if held > MOST_BYTES_EACH * os.path.getsize(path):
        raise InputError(f"{path} is damaged: it claims to hold {held / 2**30:.1f} GiB")


def content_digest(tree: xr.DataTree) -> str:
    """The SHA-256 digest of all groups, variables and attributes of a tree in memory."""
    digest = hashlib.sha256()
    for group in sorted(tree.subtree, key=lambda one: one.path):
        digest.update(repr(group.path).encode())
        update_by_dataset(digest, group.to_dataset(inherit=False), without=DIGEST)
    return digest.hexdigest()


def update_by_dataset(digest: Any, dataset: xr.Dataset, *, without: str = "") -> None:
    """Feed a digest of :mod:`hashlib` with the variables and attributes of a dataset.

    Args:
        digest: is changed.
        dataset: in memory.
        without: an attribute that is left out.
    """
    _update_by_attributes(digest, dataset.attrs, without)
    for key in sorted(map(str, dataset.variables)):
        variable = dataset[key]
        digest.update(as_bytes(f"{key} {variable.dims}", variable.values))
        _update_by_attributes(digest, variable.attrs)


def _update_by_attributes(digest: Any, attributes: Any, without: str = "") -> None:
    for name, value in sorted(attributes.items()):
        if name != without:
            digest.update(as_bytes(name, value))


def as_bytes(name: str, value: Any) -> bytes:
    """A value with its name, shape and type, such that others have other bytes."""
    values = np.asarray(value)
    written = values.tobytes() if values.dtype != object else repr(values.tolist()).encode()
    return f"{name} {values.shape} {values.dtype} ".encode() + written
