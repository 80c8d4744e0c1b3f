"""NetCDF files of trees with a checksum.

The SHA-256 of the bytes follows the last one that NetCDF knows of, and an attribute shows that it
must be there. It is checked before HDF5 reads the file: a damaged file may keep HDF5 busy forever.
"""

from __future__ import annotations

import hashlib
import mmap
import os

import xarray as xr

from .atomic import atomic_path
from .errors import InputError

#: The attribute of a file with a checksum, whose name is found without reading the file.
CHECKSUM_ATTRIBUTE = "bke_sealed"
#: Bytes before the checksum.
MARKER = b"\nbke sha256 "
#: Groups of a file at most; trees of ArviZ have about ten, and reading takes longer with each level
#: of groups. Not tuned.
MAX_GROUPS = 100


def write_tree(tree: xr.DataTree, path: str | os.PathLike[str]) -> None:
    """Write a tree to a NetCDF file with a checksum, atomically.

    The file is made in memory: HDF5 may crash at the end of the process if a disk was full.

    Raises:
        InputError: see :func:`~bke.inference.core.atomic.atomic_path`.
    """
    marked = tree.copy()
    marked.attrs[CHECKSUM_ATTRIBUTE] = "yes"
    content = marked.to_netcdf(engine="h5netcdf")
    with atomic_path(path) as temporary, open(temporary, "wb") as file:
        file.write(content)
        file.write(_checksum(content))


def _checksum(content: memoryview) -> bytes:
    return MARKER + hashlib.sha256(content).hexdigest().encode() + b"\n"


def read_tree(path: str | os.PathLike[str], kind: str, max_ratio: int = 1100) -> xr.DataTree:
    """Read a tree from a NetCDF file into memory.

    Args:
        path: the file.
        kind: the expected contents, for messages, such as ``"a run"``.
        max_ratio: bytes of arrays for each byte of the file, at most; zeros are compressed to a
            thousandth.

    Raises:
        InputError: there is no such file, it is damaged, or its checksum is wrong or missing. A
            file that others wrote, without the attribute :data:`CHECKSUM_ATTRIBUTE`, needs none.
    """
    if not os.path.isfile(path):
        raise InputError(f"{path}: no such file")
    _check_checksum(path)
    try:
        _check_links(path)
        with xr.open_datatree(path, engine="h5netcdf") as opened:
            size = opened.nbytes
            if size > max_ratio * os.path.getsize(path):
                raise InputError(f"{path} is damaged: it claims to hold {size / 2**30:.1f} GiB")
            tree = opened.load()
    except InputError:
        raise
    except Exception as error:  # a damaged file fails in many ways
        raise InputError(f"{path} is not {kind} saved as NetCDF, or is damaged") from error
    tree.attrs.pop(CHECKSUM_ATTRIBUTE, None)
    return tree


def _check_links(path: str | os.PathLike[str]) -> None:
    """Refuse files that lead elsewhere: to other files, or to a group above.

    Raises:
        InputError: the file has such a link, data outside of it, or too many groups.
    """
    import h5py  # slow to import

    with h5py.File(path) as file:
        groups, visited, num_groups = [file], {h5py.h5o.get_info(file.id).addr}, 0
        while groups:
            group = groups.pop()
            for name in group:
                is_hard = isinstance(group.get(name, getlink=True), h5py.HardLink)
                item = group[name] if is_hard else None
                is_elsewhere = isinstance(item, h5py.Dataset) and (item.external or item.is_virtual)
                address = h5py.h5o.get_info(item.id).addr if item is not None else None
                if not is_hard or is_elsewhere or (address in visited):
                    raise InputError(
                        f"{path} has a link at {group.name}/{name}: bke writes no such files"
                    )
                visited.add(address)
                if isinstance(item, h5py.Group):
                    groups.append(item)
            num_groups += 1
            if num_groups + len(groups) > MAX_GROUPS:
                raise InputError(f"{path} has more than {MAX_GROUPS} groups")


def _check_checksum(path: str | os.PathLike[str]) -> None:
    """Refuse a file whose checksum is wrong or was removed."""
    length = len(MARKER) + 2 * hashlib.sha256().digest_size + 1
    if os.path.getsize(path) <= length:
        return
    with (
        open(path, "rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
        memoryview(content) as view,
    ):
        if view[-length:] == _checksum(view[:-length]):
            return
        if content.find(MARKER) < 0 and content.find(CHECKSUM_ATTRIBUTE.encode()) < 0:
            return
    raise InputError(
        f"{path} has a wrong checksum: it is damaged, or another program has changed it"
    )
