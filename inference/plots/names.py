"""How pictures name samples, chains, modes and the components of a hyperparameter."""

from __future__ import annotations

import string
from collections.abc import Sequence

import numpy as np
import xarray as xr

from ..core.errors import check_choice
from ..diagnostics.modes import Mode, format_chains, format_location

#: A mode's location is spelt out in a legend up to this many numbers.
LONGEST_LOCATION = 4
#: Letters of a sample's name that a legend has room for; and of them before the first that differs.
LONGEST_NAME, BEFORE = 12, 3


def short_names(names: tuple[str, str]) -> tuple[str, str]:
    """The names of two samples as far as a legend has room, with what tells them apart."""
    pairs = zip(*names, strict=False)
    alike = next((i for i, (a, b) in enumerate(pairs) if a != b), min(map(len, names)))

    def short(name: str) -> str:
        start = max(0, min(alike - BEFORE, len(name) - LONGEST_NAME))
        stop = start + LONGEST_NAME
        if len(name) <= LONGEST_NAME:
            return name
        return f"{'…' * (start > 0)}{name[start:stop]}{'…' * (stop < len(name))}"

    return short(names[0]), short(names[1])


def site_components(run: xr.DataTree, group: str, site: str | None) -> dict[str, np.ndarray]:
    """Every scalar component of the hyperparameters, (chain, draw), by the name for its axis.

    Args:
        run: from :func:`~bke.inference.fit`.
        group: ``"posterior"`` or ``"warmup_posterior"``.
        site: one site; ``None`` is all of them.

    Raises:
        InputError: if the run has no such site.
    """
    dataset = run[group].to_dataset()
    names = [str(name) for name in dataset.data_vars]
    if site is not None:
        check_choice(site, "site", names)
    found = {}
    for name in names if site is None else [site]:
        values = dataset[name]
        if values.ndim == 2:
            found[f"{name}{_of_only_column(run, name)}"] = values.values
            continue
        inner = values.stack(component=values.dims[2:])
        for index in range(inner.sizes["component"]):
            place = inner["component"].values[index]
            label = (
                f"{name} of {place[0]}"
                if values.dims[2:] == ("input",)
                else f"{name}[{', '.join(map(str, place))}]"
            )
            found[label] = inner.isel(component=index).values
    return found


def _of_only_column(run: xr.DataTree, site: str) -> str:
    columns = [str(name) for name in run["observed_data"].to_dataset()["column"].values]
    named = len(columns) == 1 and columns != ["x"] and site.startswith("lengthscale")
    return f" of {columns[0]}" if named else ""


def short_place(mode: Mode) -> str:
    """Where a mode is, in words, or nothing where that takes too many numbers."""
    count = sum(np.size(value) for value in mode.location.values())
    return format_location(mode) if count <= LONGEST_LOCATION else ""


def figure5_names(modes: Sequence[int]) -> dict[int, str]:
    """Return the names that BKE Figure 5 gives to modes, by their indices in order of length.

    ``A: short mode (mode 1)`` and ``B: long mode (mode 2)`` of two modes, ``A: mode 1``, ... of
    another number.
    """
    names = [f"mode {index + 1}" for index in modes]
    if len(modes) == 2:
        names = [f"short mode ({names[0]})", f"long mode ({names[1]})"]
    pairs = zip(string.ascii_uppercase, modes, names, strict=False)
    return {index: f"{letter}: {name}" for letter, index, name in pairs}


def mode_name(index: int, mode: Mode) -> str:
    """``mode 1: lengthscale 0.52, chains 0-3``; modes are numbered from 1, as in the report."""
    where = short_place(mode)
    return f"mode {index + 1}: {f'{where}, ' if where else ''}{format_chains(mode.chains)}"
