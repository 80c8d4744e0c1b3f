"""Sketches are kept in NetCDF files."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from bke.models.landmarks import LandmarkSums

from ..core.errors import InputError
from ..core.netcdf import read_tree, write_tree
from ..sampling.origin import check_modules
from ..sampling.record import check_restorable, describe_kernel, restore_kernel
from .sketch import Sketch, SketchPlan

KIND = "bke sketch"


def save_sketch(sketch: Sketch, path: str | os.PathLike[str]) -> None:
    """Write ``sketch`` to a NetCDF file, whole or not at all."""
    plan, sums = sketch.plan, sketch.sums
    dataset = xr.Dataset(
        {
            "rows": ("grid", sums.n),
            "mean": (("grid", "landmark"), sums.mean),
            "scatter": (("grid", "landmark", "other"), sums.scatter),
            "log_volume": ("grid", sums.log_volume),
            "landmarks": (("landmark", "column"), plan.landmarks),
            "unit": ("column", plan.unit),
        },
        coords={
            "lengthscale": ("grid", plan.lengthscales),
            "column": list(plan.columns),
        },
        attrs={"creation_library": KIND, "kernel": json.dumps(describe_kernel(plan.kernel))},
    )
    write_tree(xr.DataTree(dataset), path)


#: What to do with a table in place of a sketch.
ROWS = "rows are compared by compare() or `bke test`"


#: Of every variable of a sketch, its dimensions.
DIMENSIONS = {
    "rows": ("grid",),
    "mean": ("grid", "landmark"),
    "scatter": ("grid", "landmark", "other"),
    "log_volume": ("grid",),
    "landmarks": ("landmark", "column"),
    "unit": ("column",),
    "lengthscale": ("grid",),
}


def load_sketch(path: str | os.PathLike[str], *, modules: Sequence[str] = ()) -> Sketch:
    """Read what :func:`save_sketch` wrote.

    Args:
        path: of the file.
        modules: names of modules to import first, see :func:`~bke.inference.load_run`.

    Raises:
        InputError: where ``path`` is no such file, or is damaged.
    """
    try:
        dataset = read_tree(path, "a sketch")[0].to_dataset()
    except InputError as error:
        raise InputError(f"{error}; {ROWS}" if os.path.isfile(path) else str(error)) from None
    if dataset.attrs.get("creation_library") != KIND:
        raise InputError(f"{path} is not a sketch saved as NetCDF; {ROWS}")
    try:
        return _restored(dataset, path, modules)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _restored(dataset: xr.Dataset, path: str | os.PathLike[str], modules: Sequence[str]) -> Sketch:
    read: dict[str, Any] = {name: _numbers(dataset, name) for name in DIMENSIONS}
    if "column" not in dataset.coords or read["mean"].shape[1] != read["scatter"].shape[2]:
        raise InputError("its variables do not belong together")
    for name in ("rows", "unit", "lengthscale"):
        if not (read[name] > 0).all():
            raise InputError(f"its {name} has numbers that are not positive")
    if (np.diagonal(read["scatter"], axis1=1, axis2=2) < 0.0).any():
        raise InputError("its scatter has sums of squares that are negative")
    try:
        record = json.loads(dataset.attrs["kernel"])
    except (KeyError, TypeError, ValueError, RecursionError):
        raise InputError("its attribute kernel cannot be read") from None
    check_modules(record, path, modules)
    check_restorable(record)
    plan = SketchPlan(
        restore_kernel(record),
        read["lengthscale"],
        read["landmarks"],
        read["unit"],
        tuple(map(str, dataset["column"].values)),
    )
    return Sketch(
        plan, LandmarkSums(read["rows"], read["mean"], read["scatter"], read["log_volume"])
    )


def _numbers(dataset: xr.Dataset, name: str) -> np.ndarray:
    """A variable, all of it numbers."""
    if name not in dataset.variables or dataset[name].dims != DIMENSIONS[name]:
        raise InputError(f"it has no {name} of {' and '.join(DIMENSIONS[name])}")
    values = np.asarray(dataset[name].values)
    if values.dtype.kind not in "fiu" or not np.isfinite(values).all():
        raise InputError(f"its {name} has values that are no finite numbers")
    return values
