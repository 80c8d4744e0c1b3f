"""Draws as chains: arrays and ArviZ's trees, with their parameters' names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import arviz_base
import numpy as np
import xarray as xr

from ..data.arrays import plain_array
from ..data.checks import as_sample, column_names
from ..data.file_table import default_names
from ..errors import InputError

#: Draws of a chain from which on something can be said of it.
FEWEST_DRAWS = 10


class Chains(NamedTuple):
    """Draws, one chain below the other.

    Attributes:
        values: (C, n, D).
        columns: names of the parameters.
        in_order: whether draws are in order of time, so that neighbours may depend on each other.
    """

    values: np.ndarray
    columns: tuple[str, ...]
    in_order: bool

    @property
    def rows(self) -> np.ndarray:
        """All draws, (C n, D)."""
        return self.values.reshape(-1, self.values.shape[-1])


def as_chains(draws: Any, name: str = "draws", columns: Sequence[str] | None = None) -> Chains:
    """Check draws, and tell chains from rows that do not hang on each other.

    Args:
        draws: independent rows (n,) or (n, D); chains (C, n, D) in order of time; or a tree or a
            dataset of ArviZ's, whose posterior has dimensions ``chain`` and ``draw``.
        name: what messages call them.
        columns: names of the parameters, in place of those that are known.

    Raises:
        InputError: for what is none of these, has too few draws, or numbers that are not finite.
    """
    if isinstance(draws, (xr.DataTree, xr.Dataset)):
        values, named = of_posterior(posterior_of(draws, name))
        return _checked(values, columns or named, name, in_order=True)
    values = plain_array(draws, name)
    if values.ndim == 3:
        named = tuple(columns or default_names(values.shape[2]))
        return _checked(values, named, name, in_order=True)
    rows = as_sample(draws, name, may_be_constant=True)
    named = tuple(columns or column_names(draws) or default_names(rows.shape[1]))
    return _checked(rows[None], named, name, in_order=False)


def posterior_of(draws: xr.DataTree | xr.Dataset, name: str = "draws") -> xr.Dataset:
    """The posterior of a tree, or the dataset itself, with dimensions ``chain`` and ``draw``.

    Raises:
        InputError: there is none.
    """
    if isinstance(draws, xr.DataTree):
        if "posterior" not in draws.children:
            raise InputError(f"{name} has no group named posterior, where ArviZ keeps draws")
        draws = draws["posterior"].to_dataset()
    if not {"chain", "draw"} <= set(draws.sizes):
        raise InputError(f"{name} has no dimensions named chain and draw, as ArviZ calls them")
    return draws


def of_posterior(posterior: xr.Dataset) -> tuple[np.ndarray, tuple[str, ...]]:
    """All numbers of a posterior that are drawn, (C, n, D), and their names as ArviZ writes them.

    Raises:
        InputError: there are none.
    """
    drawn = [
        name
        for name, one in posterior.data_vars.items()
        if {"chain", "draw"} <= set(one.dims) and one.dtype.kind in "fiub"
    ]
    if not drawn:
        raise InputError("the posterior has no numbers with dimensions chain and draw")
    stacked = arviz_base.dataset_to_dataarray(
        posterior[drawn].drop_vars(set(posterior.coords) - set(posterior.dims)),
        sample_dims=["chain", "draw"],
    )
    values = np.asarray(stacked.transpose("chain", "draw", "label").values, dtype=float)
    return values, tuple(map(str, stacked["label"].values))


def _checked(values: Any, columns: Sequence[str], name: str, *, in_order: bool) -> Chains:
    found = np.array(values, dtype=float)
    chains, draws, dimension = found.shape
    if not chains or draws < FEWEST_DRAWS:
        raise InputError(
            f"{name} needs at least one chain of {FEWEST_DRAWS} draws, and has {chains} of {draws}"
        )
    if len(columns) != dimension:
        raise InputError(f"{name} has {dimension} parameters, and {len(columns)} names are given")
    if not np.isfinite(found).all():
        chain, draw, column = np.argwhere(~np.isfinite(found))[0]
        raise InputError(
            f"{name} has a value that is not finite in chain {chain}, draw {draw} of "
            f"{columns[column]} (counted from 0)"
        )
    return Chains(found, tuple(columns), in_order)
