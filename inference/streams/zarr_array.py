"""Zarr arrays of numbers, opened where that cannot run code and their chunks are there.

A codec is code that a file chooses by its name, and that of Python objects is pickle, which runs
whatever the file says. So the metadata are read first, and only codecs of numbers are taken.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ..core.errors import InputError

#: Codecs that make numbers of bytes and bytes of numbers, and nothing else.
CODECS = (
    {"bytes", "sharding_indexed", "transpose"}
    | {"astype", "bitround", "delta", "fixedscaleoffset", "packbits", "quantize", "shuffle"}
    | {"blosc", "bz2", "gzip", "lz4", "lzma", "pcodec", "zfpy", "zlib", "zstd"}
    | {"adler32", "crc32", "crc32c", "fletcher32", "jenkins_lookup3"}
)
#: Before the names of codecs that are not zarr's own.
FOREIGN = "numcodecs."
#: The least share of chunks that must be there: others would be read as one value.
LEAST_THERE = 0.1
#: Bytes of the largest chunk, which is in memory as a whole.
LARGEST = 2**31
METADATA = (".zarray", "zarr.json")
DEEPEST = 8


class Layout(NamedTuple):
    """What the metadata of an array say.

    Attributes:
        shape: of the array.
        chunks: their shape.
        codecs: all that they name.
    """

    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    codecs: tuple[str, ...]

    @property
    def number(self) -> int:
        """How many chunks there should be."""
        return math.prod(-(-n // k) for n, k in zip(self.shape, self.chunks, strict=True))


def open_zarr(path: Path, zarr: Any) -> Any:
    """Open a zarr array.

    Args:
        path: its folder.
        zarr: the package.

    Raises:
        InputError: it is no such array; its metadata name a codec that is none of numbers; nearly
            all of its chunks are missing, or one does not fit into memory.
    """
    found = [path / name for name in METADATA if (path / name).is_file()]
    if not found:
        raise InputError(
            f"{path} is not a readable zarr array: it has no {' and no '.join(METADATA)}"
        )
    for file in found:
        _check(path, _layout(file, path))
    try:
        return zarr.open_array(path, mode="r")
    except Exception as error:  # of a broken store, or a group
        raise InputError(f"{path} is not a readable zarr array: {error}") from error


def _check(path: Path, layout: Layout) -> None:
    for codec in layout.codecs:
        if codec.removeprefix(FOREIGN) not in CODECS:
            raise InputError(
                f"{path} has the codec {codec!r}, which is none of numbers and might run code: "
                "write the array anew with another"
            )
    if math.prod(layout.chunks) * 8 > LARGEST:
        raise InputError(f"{path} has chunks of {layout.chunks} values: write it in smaller ones")
    there = sum(1 for _ in _chunks(path))
    if there < LEAST_THERE * layout.number:
        raise InputError(
            f"{path} says that it has {layout.number} chunks, and {there} are there: is it a part?"
        )


def _chunks(path: Path) -> Iterator[Path]:
    """Files of chunks; those of metadata are not."""
    for file in path.rglob("*"):
        if file.is_file() and not (file.name.startswith(".") or file.name == METADATA[1]):
            yield file


def _layout(file: Path, path: Path) -> Layout:
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
        if file.name == METADATA[0]:
            chunks, named = record["chunks"], [record["compressor"], *(record["filters"] or [])]
        else:
            chunks = record["chunk_grid"]["configuration"]["chunk_shape"]
            named = record["codecs"]
        shapes = [tuple(int(size) for size in one) for one in (record["shape"], chunks)]
        if len(shapes[0]) != len(shapes[1]) or min(shapes[0], default=0) < 0 or 0 in shapes[1]:
            raise ValueError(f"the shape {shapes[0]} in chunks of {shapes[1]}")
        return Layout(shapes[0], shapes[1], tuple(_names(named, DEEPEST)))
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        said = f"{file.name} lacks {error}" if isinstance(error, KeyError) else error
        raise InputError(f"{path} is not a readable zarr array: {said}") from error


def _names(codecs: Any, deepest: int) -> Iterator[str]:
    """The names of codecs, and of those within them."""
    if not deepest:
        raise ValueError("its codecs have codecs without end")
    for codec in codecs:
        if codec is None:
            continue
        record: dict[str, Any] = {"name": codec} if isinstance(codec, str) else codec
        yield str(record["id"] if "id" in record else record["name"])
        within = record.get("configuration") or {}
        for inner in ("codecs", "index_codecs"):
            yield from _names(within.get(inner, ()), deepest - 1)
