"""Sketches are kept in NetCDF files."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
import xarray as xr
from bke.models.landmarks import LandmarkSums

from ..errors import InputError
from ..posterior.record import describe_kernel, restore_kernel
from ..runtime.atomic import atomic_path
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
    with atomic_path(path) as temporary:
        dataset.to_netcdf(temporary, engine="h5netcdf")


#: What to do with a table in place of a sketch.
ROWS = "rows are compared by compare() or `bke test`"


def load_sketch(path: str | os.PathLike[str]) -> Sketch:
    """Read what :func:`save_sketch` wrote.

    Raises:
        InputError: where ``path`` is no such file.
    """
    if not os.path.isfile(path):
        raise InputError(f"{path}: no such file")
    try:
        with xr.open_dataset(path, engine="h5netcdf") as opened:
            dataset = opened.load()
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is not a sketch saved by bke ({error}); {ROWS}") from None
    if dataset.attrs.get("creation_library") != KIND:
        raise InputError(f"{path} is not a sketch saved by bke; {ROWS}")
    read: dict[str, Any] = {
        str(name): np.asarray(values.values) for name, values in dataset.variables.items()
    }
    plan = SketchPlan(
        restore_kernel(json.loads(dataset.attrs["kernel"])),
        read["lengthscale"],
        read["landmarks"],
        read["unit"],
        tuple(map(str, read["column"])),
    )
    names = ("rows", "mean", "scatter", "log_volume")
    return Sketch(plan, LandmarkSums(*(read[name] for name in names)))
