"""Digests of the contents of runs, by which results are cached."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

import numpy as np
import xarray as xr


def fingerprint(run: xr.DataTree, groups: Iterable[str]) -> str:
    """Return a digest of the attributes of a run and of all values in some of its groups."""
    digest = hashlib.blake2b(json.dumps(run.attrs, default=str).encode(), digest_size=16)
    for group in groups:
        digest.update(f"{group} {group in run.children}".encode())
        dataset = run[group].to_dataset() if group in run.children else xr.Dataset()
        digest.update(json.dumps(dataset.attrs, default=str).encode())
        for name, variable in dataset.variables.items():
            values = np.asarray(variable.values)
            header = (str(name), variable.dims, values.shape, str(values.dtype))
            digest.update(repr(header).encode())
            is_object = values.dtype == object
            digest.update(repr(values.tolist()).encode() if is_object else values.tobytes())
    return digest.hexdigest()
