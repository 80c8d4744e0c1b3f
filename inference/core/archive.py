"""Archives of named arrays in NumPy's format, with a checksum of each array."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from .atomic import atomic_path
from .errors import InputError

#: The first entry, which distinguishes such a file from other archives and names the other entries;
#: each entry has a checksum.
HEAD = "bke arrays"
#: Type of each array, such as ``"float64"`` or, for text, ``"U"``, and its sizes; sizes of the same
#: name are equal.
Expected: TypeAlias = Mapping[str, tuple[str, tuple[str | int, ...]]]
#: First bytes of an archive; the name of its first entry is at NAME.
ZIP, NAME = b"PK\x03\x04", 30


def write_arrays(
    path: str | os.PathLike[str], metadata: Mapping[str, Any], arrays: Mapping[str, Any]
) -> None:
    """Write arrays with ``metadata`` that JSON can hold, atomically."""
    head = np.array(json.dumps({"told": metadata, "names": list(arrays)}))
    entries = {HEAD: head, **{name: np.asarray(array) for name, array in arrays.items()}}
    with atomic_path(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, **entries)  # type: ignore[arg-type]


def read_arrays(
    path: str | os.PathLike[str],
    kind: str,
    expected: Expected | None = None,
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read the metadata and the arrays of a file.

    Args:
        path: path of the file.
        kind: expected contents, for messages, such as ``"a checkpoint"``.
        expected: types and sizes of all arrays; by default arrays are not checked.

    Raises:
        InputError: the file was not written by :func:`write_arrays`, or is damaged.
    """
    if not _is_ours(Path(path)):  # the user may need the file, so do not suggest to delete it
        raise InputError(f"{path} is not {kind} of bke: name another place")
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            if any(entry.compress_type for entry in archive.zip.infolist()):
                raise ValueError("its arrays are compressed, as bke writes none")
            # NumPy reads as much of an entry as its header says, and checks no checksum before the
            # end.
            if (damaged := archive.zip.testzip()) is not None:
                raise ValueError(f"{damaged} is damaged")
            arrays = {name: archive[name] for name in archive.files}
        head = json.loads(str(arrays.pop(HEAD)))
        if head["names"] != list(arrays):
            raise ValueError("some of its arrays are missing")
        if expected is not None:
            check_arrays(arrays, expected)
        return dict(head["told"]), arrays
    except Exception as error:  # a broken archive fails in many ways
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(
            f"{path} cannot be read as {kind} ({reason}): delete it to begin anew"
        ) from error


def check_arrays(arrays: Mapping[str, np.ndarray], expected: Expected) -> None:
    """Raise ValueError for arrays that are missing, or of other types or sizes than expected."""
    if arrays.keys() != expected.keys():
        raise ValueError(f"its arrays are {', '.join(arrays)}, not {', '.join(expected)}")
    known: dict[str | int, int] = {}
    for name, (dtype, sizes) in expected.items():
        array = arrays[name]
        is_valid = array.dtype.kind == dtype if dtype == "U" else array.dtype == dtype
        is_valid &= array.ndim == len(sizes)
        if not is_valid or any(
            length != (size if isinstance(size, int) else known.setdefault(size, length))
            for size, length in zip(sizes, array.shape, strict=True)
        ):
            raise ValueError(f"{name} has the type {array.dtype} and the shape {array.shape}")


def _is_ours(path: Path) -> bool:
    """Return True if a file begins as an archive of this module, complete or not."""
    if path.exists() and not path.is_file():  # reading a pipe would wait
        return False
    name = f"{HEAD}.npy".encode()
    try:
        with open(path, "rb") as file:
            head = file.read(NAME + len(name))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    return head.startswith(ZIP) and head[NAME:] == name
