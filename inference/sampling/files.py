"""Runs in NetCDF files: saving, loading, and the checks of files from elsewhere.

A checksum shows whether a file was damaged. Contents are checked in any case: other programs write
files without a checksum, such as of a run that was thinned, and anyone can compute one.
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpyro.distributions as dist
import xarray as xr

from ..core.errors import InputError
from ..core.machine import computing
from ..core.netcdf import read_tree, write_tree
from ..core.staging import check_in_place
from ..data.checks import check_noise_variance
from .open_run import OpenRun
from .record import (
    NOT_A_RUN,
    RECORD,
    SESSION,
    read_record,
    record_parts,
    restore_kernel,
    session_only,
)
from .run import digest_of, in_data_units, target_of

INTEGRAL = ("log_normalizer", "log_normalizer_error")
#: Variables and attributes, numbers all of them, of the groups that not every run has.
GROUPS = {
    "profile": (
        *("unconstrained", "value", "value_in_data_units", "smoothing", "step"),
        *("log_density", "log_prior", "smoothed"),
    ),
    "paths": ("height", "low", "draw", "edge"),
    "quadrature": ("unconstrained", "weight", "log_density", *INTEGRAL),
    "smc": ("unconstrained", "share", "log_density", *INTEGRAL),
    "bridge": ("mass", "mass_error", *INTEGRAL),
    "constant_data": ("landmarks",),
}
#: Integers, numbers that may be infinite, and probabilities among these variables.
INTEGERS = {"draw", "edge"}
LOGARITHMS = {"lp", "log_density", "log_prior", "smoothed", "height", "low"}
PROBABILITIES = {"weight", "share", "mass"}


def save_run(run: xr.DataTree | OpenRun, path: str | os.PathLike[str]) -> None:
    """Write ``run`` to a NetCDF file with a checksum, atomically.

    Warns if its kernel cannot be imported, so that no other process can load the run.
    """
    run = run.tree if isinstance(run, OpenRun) else run
    if RECORD in run.attrs and (kernel := session_only(_kernel(run))) is not None:
        warnings.warn(
            f"the kernel {kernel} cannot be imported: load_run will refuse this run in any other "
            "process; define it at the top of a module",
            stacklevel=2,
        )
    write_tree(run, path)


def load_run(path: str | os.PathLike[str], *, modules: Sequence[str] = ()) -> xr.DataTree:
    """Read a run that :func:`save_run` or another program wrote.

    Files that are damaged, incomplete or no run are refused, and so are files that another program
    has changed, unless it removed the attribute ``bke_sealed``. A kernel of the user's own is
    found in the module that the file names, which must be imported already or be in ``modules``:
    a file may come from others.

    Args:
        path: the file.
        modules: names of modules to import first.

    Raises:
        InputError: the file is not a whole run; or its kernel is not one, or is in a module that
            is neither imported nor named, or cannot be imported.
    """
    if os.path.isdir(path):
        raise InputError(f"{path} is a folder: give the run file in it, such as run.nc")
    check_in_place(Path(path))
    run = read_tree(path, "a run")
    try:
        for module in modules:
            try:
                importlib.import_module(module)
            except Exception as error:  # the code of the module may raise any
                raise InputError(f"the module {module!r} cannot be imported ({error})") from None
        if "posterior" not in run.children:
            raise InputError(NOT_A_RUN)
        if (kernel := _kernel(run)) is not None:
            _check_modules(kernel)
            if session_only(kernel) is None:
                restore_kernel(kernel)
        _check_contents(run)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return run


def _kernel(run: xr.DataTree) -> Any:
    """Return the kernel in the record of a run, or None if it has none."""
    record = read_record(run.attrs)
    model = record.get("model", record)
    return model.get("kernel") if isinstance(model, dict) else None


def _check_modules(kernel: Any) -> None:
    """Refuse modules that are not imported yet: whoever sent the file would have them run."""
    names = {str(part.get("type")).rpartition(":")[0] for part in record_parts(kernel)}
    for module in sorted(names - {""} - sys.modules.keys()):
        if module.split(".")[0] != "bke":
            raise InputError(
                f"its kernel is of the module {module!r}, which would be run: if you trust it, "
                f"pass modules=[{module!r}] or --module {module}, or import it before"
            )


def _check_contents(run: xr.DataTree) -> None:
    """Refuse a tree that is not a whole run of any method, naming what is missing or wrong."""
    record = read_record(run.attrs)
    posterior = _group(run, "posterior")
    for name, values in posterior.data_vars.items():
        if values.dims[:2] != ("chain", "draw") or values.size == 0:
            raise InputError(f"{name} in its group posterior has no chains of draws")
    _group(run, "sample_stats", posterior=posterior)
    observed = _group(run, "observed_data")
    if "X" not in observed:
        _require(["rows"], observed.attrs, "its group observed_data has no X, and")
    elif digest_of(observed["X"].values) != record.get("data_sha256"):
        raise InputError("the rows in its group observed_data are not those that it was made of")
    if "model" in record:
        _check_fit(run, record, posterior)


def _check_fit(run: xr.DataTree, record: dict[str, Any], posterior: xr.Dataset) -> None:
    """Check what runs of ``fit`` have in addition."""
    _require(("units", "packages", "method", "seed"), record, "its record")
    _require(["column"], run["observed_data"].coords, "its group observed_data")
    unconstrained = _group(run, "unconstrained_posterior", posterior.data_vars, posterior)
    _group(run, "sample_stats", ["lp"])
    if "profile" not in run.children and "paths" not in run.children:
        raise InputError("it has no group profile or paths")
    if "profile" in run.children:
        _require(["site"], run["profile"].attrs, "its group profile")
    if "paths" in run.children and run["paths"]["draw"].max() >= posterior.sizes["draw"]:
        raise InputError("its group paths is of more draws: thin what is computed from the run")
    for group in GROUPS.keys() & set(run.children):
        dataset = _group(run, group, GROUPS[group])
        for name in PROBABILITIES & set(GROUPS[group]):
            if dataset[name].min() < 0.0 or abs(dataset[name].sum() - 1.0) > 1e-6:  # rounding
                raise InputError(f"{name} in its group {group} are not probabilities with sum 1")
    # A model that this process cannot restore is not compared with the draws: they can be read.
    if not any({SESSION, "unrecorded"} & part.keys() for part in record_parts(record)):
        _check_model(run, posterior, unconstrained)


def _check_model(run: xr.DataTree, posterior: xr.Dataset, unconstrained: xr.Dataset) -> None:
    """Compare the model and the units of the record with the columns and the first draws."""
    try:
        target, units = target_of(run)
        if not isinstance(target.noise_variance, dist.Distribution):
            check_noise_variance(target.noise_variance)
        scale, dither, sites = units.scale, units.dither, set(target.sites)
        is_valid = (scale > 0.0).all() and (dither >= 0.0).all()
        is_valid &= bool(np.isfinite([*scale, *dither]).all())
        is_valid &= len(scale) in (1, len(units.columns))
    except InputError:
        raise
    except Exception as error:  # records that another program wrote fail in many ways
        raise InputError(f"its record does not describe a model: {error}") from None
    if not is_valid:
        raise InputError("the units in its record are not positive numbers, one for each column")
    if sites != set(posterior.data_vars):
        draws, model = (", ".join(sorted(map(str, names))) for names in (posterior, sites))
        raise InputError(f"its draws are of {draws}, but its model is of {model or 'nothing'}")
    with computing():
        # The first draws of all chains as one chain: ArviZ warns of more chains than draws.
        z = {str(name): values.values[:, 0][None] for name, values in unconstrained.items()}
        expected = in_data_units(target, units, z)
    for name, values in expected.items():
        if not np.allclose(values[0], posterior[name][:, 0], rtol=1e-4):
            raise InputError(
                f"{name} in its group posterior is not what unconstrained_posterior makes it"
            )


def _group(
    run: xr.DataTree,
    group: str,
    names: Iterable[Any] | None = None,
    posterior: xr.Dataset | None = None,
) -> xr.Dataset:
    """Return a group after checking that its contents are numbers.

    Args:
        run: the tree.
        group: name of the group.
        names: variables and attributes that it must have; by default those variables that it has.
        posterior: draws, of which it must have as many as there are.
    """
    _require([group], run.children, "it", "group ")
    dataset = run[group].to_dataset()
    contents: dict[Any, Any] = {**dataset.attrs, **dataset.variables}
    _require(names or (), contents, f"its group {group}")
    for name in dataset.data_vars if names is None else names:
        values = np.asarray(contents[name])
        if values.dtype.kind not in ("iu" if name in INTEGERS else "fiub"):
            raise InputError(f"{name} in its group {group} is not a number or an array of numbers")
        if np.isnan(values).any() or (name not in LOGARITHMS and np.isinf(values).any()):
            raise InputError(f"{name} in its group {group} has values that are not finite")
    for name, expected in posterior.sizes.items() if posterior is not None else ():
        if name in ("chain", "draw") and (size := dataset.sizes.get(name, expected)) != expected:
            raise InputError(
                f"its group posterior has {expected} along {name}, and {group} has {size}"
            )
    return dataset


def _require(names: Iterable[Any], container: Any, label: str, kind: str = "") -> None:
    for name in names:
        if name not in container:
            raise InputError(f"{label} has no {kind}{name}")
