"""Digests of what a run holds, by which two are known to be the same."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import xarray as xr


def fingerprint(tree: xr.DataTree, groups: Iterable[str], attributes: Iterable[str]) -> str:
    """Digest of some groups of a run, with all their numbers, and of some of its attributes."""
    digest = hashlib.blake2b(digest_size=16)
    for name in groups:
        digest.update(f"/{name} {name in tree.children}".encode())
        if name not in tree.children:
            continue
        _update_by_dataset(digest, tree[name].to_dataset())
    for name in attributes:
        digest.update(_as_bytes(name, tree.attrs.get(name)))
    return digest.hexdigest()


def _update_by_dataset(digest: Any, dataset: xr.Dataset) -> None:
    _update_by_attributes(digest, dataset.attrs)
    for key in sorted(map(str, dataset.variables)):
        variable = dataset[key]
        digest.update(_as_bytes(f"{key} {variable.dims}", variable.values))
        _update_by_attributes(digest, variable.attrs)


def _update_by_attributes(digest: Any, attributes: Any) -> None:
    for name, value in sorted(attributes.items()):
        digest.update(_as_bytes(name, value))


def _as_bytes(name: str, value: Any) -> bytes:
    """A value with its name, shape and type, such that others have other bytes."""
    values = np.asarray(value)
    written = values.tobytes() if values.dtype != object else repr(values.tolist()).encode()
    return f"{name} {values.shape} {values.dtype} ".encode() + written
