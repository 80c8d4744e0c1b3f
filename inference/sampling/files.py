"""Runs in NetCDF files."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import xarray as xr

from ..core.drafts import check_in_place
from ..core.errors import InputError
from ..core.netcdf import read_tree, write_tree
from .origin import check_modules
from .record import only_here
from .saved import check_run


def save_run(run: xr.DataTree, path: str | os.PathLike[str]) -> None:
    """Write ``run`` to a NetCDF file, whole or not at all, sealed by the sum of its bytes.

    Warns where its kernel cannot be imported, so that no other process can load the run.
    """
    if (kernel := only_here(_kernel_record(run))) is not None:
        warnings.warn(
            f"the kernel {kernel} cannot be imported: load_run will refuse this run in any other "
            "process; define it at the top of a module",
            stacklevel=2,
        )
    write_tree(run, path)


def load_run(path: str | os.PathLike[str], *, modules: Sequence[str] = ()) -> xr.DataTree:
    """Read a run that :func:`save_run` wrote, or that another program wrote of one.

    Whatever is damaged, incomplete or no run is refused, and what another program has changed,
    unless it removed the attribute ``bke_sealed``. A kernel of the user's own is imported
    from the module that the file names, as Python would import it, but from beside the file only
    where it was imported already or is asked for.

    Args:
        path: of the file.
        modules: names of modules to import first.

    Raises:
        InputError: it is no whole run; or its kernel is of a module that cannot be imported, or
            that lies beside the file, or is none.
    """
    if os.path.isdir(path):
        raise InputError(f"{path} is a folder: give the run file in it, such as run.nc")
    check_in_place(Path(path))
    run, known = read_tree(path, "a run")
    try:
        check_modules(_kernel_record(run), path, modules)
        check_run(run, known=known)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return run


def _kernel_record(run: xr.DataTree) -> Any:
    """Of the kernel, where the run has one."""
    try:
        return json.loads(run.attrs["kernel"])
    except (KeyError, TypeError, ValueError, RecursionError):
        return None
