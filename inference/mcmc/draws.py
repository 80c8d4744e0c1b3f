"""Draws as chains: arrays and ArviZ's trees, with their parameters' names."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import arviz_base
import numpy as np
import xarray as xr

from ..core.errors import InputError
from ..data.checks import (
    MAX_ABS_VALUE,
    as_sample,
    check_column_names,
    column_names,
    default_names,
    plain_array,
)
from ..data.new_rows import ordered_rows

if TYPE_CHECKING:
    from numpyro.infer import MCMC

#: The dimension of parameters side by side: one of the user's may be called as ArviZ calls it.
STACKED = "bke_parameter"
#: Lengths that a message tells.
MOST_LENGTHS = 6
#: Draws of a chain from which on something can be said of it.
FEWEST_DRAWS = 10


class Chains(NamedTuple):
    """Draws, one chain below the other.

    Attributes:
        values: (C, n, D).
        columns: names of the parameters.
        labels: what the chains are called: a tree's coordinates, else numbers counted from 0.
        in_order: whether draws are in order of time, so that neighbours may depend on each other.
    """

    values: np.ndarray
    columns: tuple[str, ...]
    labels: tuple[int | str, ...]
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
    labels: Sequence[Any] | None = None
    if isinstance(draws, xr.DataArray) and {"chain", "draw"} <= set(draws.dims):
        draws = draws.to_dataset(name=str(draws.name or "x"))
    if isinstance(draws, (xr.DataTree, xr.Dataset)):
        posterior = posterior_of(draws, name)
        if "chain" in posterior.coords:
            labels = posterior["chain"].values.tolist()
        values, named = of_posterior(posterior)
        return _checked(values, check_column_names(columns, named), name, labels, in_order=True)
    if isinstance(draws, (str, os.PathLike)):
        raise InputError(
            f"{name} is the text {os.fspath(draws)!r}, where draws are needed: of a file of "
            "ArviZ's give xarray.open_datatree of it"
        )
    if isinstance(draws, dict):
        raise InputError(
            f"{name} is a dictionary: make a tree of it, arviz_base.from_dict({{'posterior': "
            "...}), or an array (chains, draws, parameters)"
        )
    lengths = (
        [len(one) for one in draws if hasattr(one, "__len__")]
        if isinstance(draws, (list, tuple))
        else []
    )
    if len(set(lengths)) > 1:
        told = ", ".join(map(str, lengths[:MOST_LENGTHS])) + ", ..." * (len(lengths) > MOST_LENGTHS)
        raise InputError(f"{name} has chains or rows of several lengths: {told}")
    of_frame = column_names(draws[0]) if lengths and isinstance(draws, (list, tuple)) else None
    if of_frame is not None:
        draws = [ordered_rows(one, of_frame, f"{name}[{at}]") for at, one in enumerate(draws)]
    values = plain_array(draws, name)
    if values.ndim == 3:
        if values.dtype.kind not in "fiub":
            raise InputError(f"{name} must hold real numbers, and holds {values.dtype}")
        named = of_frame or tuple(default_names(values.shape[2]))
        return _checked(values, check_column_names(columns, named), name, labels, in_order=True)
    rows = as_sample(draws, name, may_be_constant=True)
    known = column_names(draws) or tuple(default_names(rows.shape[1]))
    return _checked(rows[None], check_column_names(columns, known), name, labels, in_order=False)


def of_mcmc(mcmc: MCMC) -> xr.Dataset:
    """Return the draws of all sites of an MCMC of NumPyro.

    Raises:
        InputError: it has not run.
    """
    if mcmc.last_state is None or mcmc.last_state is mcmc.post_warmup_state:
        raise InputError("this MCMC has no draws after its warmup: call its run() first")
    samples = mcmc.get_samples(group_by_chain=True)
    if not isinstance(samples, dict):
        raise InputError(
            "the draws of this MCMC have no names: give get_samples(group_by_chain=True) as an "
            "array (chains, draws, parameters)"
        )
    values = {name: np.asarray(value) for name, value in samples.items()}
    return arviz_base.from_dict({"posterior": values})["posterior"].to_dataset()


def evenly(count: int, some: int) -> np.ndarray:
    """Indices (some,) of ``count`` draws, evenly from the first to the last."""
    return np.linspace(0, count - 1, some).round().astype(int)


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
    """Return all draws of a posterior, (C, n, D), and the names of its parameters as in ArviZ.

    Raises:
        InputError: there are none, or some are no numbers.
    """
    drawn = [
        name
        for name, variable in posterior.data_vars.items()
        if {"chain", "draw"} <= set(variable.dims)
    ]
    for name in drawn:
        if posterior[name].dtype.kind not in "fiub":
            raise InputError(
                f"draws of {name!r} are {posterior[name].dtype}, and numbers are needed: convert "
                f"them, or leave them out with .drop_vars({name!r})"
            )
    if not drawn:
        raise InputError("the posterior has no numbers with dimensions chain and draw")
    try:
        stacked = arviz_base.dataset_to_dataarray(
            posterior[drawn].drop_vars(set(posterior.coords) - set(posterior.dims)),
            sample_dims=["chain", "draw"],
            new_dim=STACKED,
        )
    except ValueError as error:
        raise InputError(f"ArviZ cannot put the parameters side by side: {error}") from None
    values = np.asarray(stacked.transpose("chain", "draw", STACKED).values, dtype=float)
    return values, tuple(map(str, stacked[STACKED].values))


def _checked(
    values: Any,
    columns: Sequence[str],
    name: str,
    labels: Sequence[Any] | None,
    *,
    in_order: bool,
) -> Chains:
    found = np.array(values, dtype=float)
    chains, draws, dimension = found.shape
    if not chains or draws < FEWEST_DRAWS:
        raise InputError(
            f"{name} needs at least one chain of {FEWEST_DRAWS} draws, and has {chains} of "
            f"{draws}: an array is (chains, draws, parameters), or (draws, parameters) of one chain"
        )
    if not dimension:
        raise InputError(f"{name} has no parameters")
    told = tuple(range(chains)) if labels is None else tuple(labels)
    beyond = ~(np.abs(found) <= MAX_ABS_VALUE)
    if beyond.any():
        chain, draw, column = np.argwhere(beyond)[0]
        raise InputError(
            f"{name} has a value that is not finite, or beyond {MAX_ABS_VALUE:g}, in chain "
            f"{told[chain]}, draw {draw} of {columns[column]} (counted from 0): leave out that "
            "parameter or chain"
        )
    return Chains(found, tuple(columns), told, in_order)
