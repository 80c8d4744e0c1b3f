"""What a run that was read must have: groups, draws that are numbers, a model that can be told.

A seal tells whether a file is as :func:`~bke.inference.save_run` wrote it; files that others
wrote, of a run that was thinned or extended, have none and are looked through all the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from ..core.errors import InputError
from ..core.machine import computing
from ..data.units import Units
from .record import check_restorable, only_here
from .run import digest_of, in_data_units, target_of
from .target import Target

#: Attributes of every run of :func:`~bke.inference.fit`, and of every one without a likelihood.
FITTED = (
    "kernel",
    "prior",
    "noise_variance",
    "measure",
    "likelihood",
    "scale",
    "dither",
    "dither_seed",
    "data_sha256",
    "versions",
    "method",
    "share",
    "seed",
)
SIMULATED = ("simulator", "data_sha256", "versions", "seed")


class Needs(NamedTuple):
    """What a group has if it is there: finite numbers, logarithms that may be infinite."""

    finite: tuple[str, ...] = ()
    logs: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    counts: tuple[str, ...] = ()


INTEGRAL = ("log_normalizer", "log_normalizer_error")
#: Variables that are not negative and sum to one, to so much.
SHARES, ROUNDING = {"weight", "share", "mass"}, 1e-6
ITERATIONS = Needs(logs=("lp",), counts=("diverging", "nonfinite_evaluations"))
#: Groups that not every run has.
GROUPS = {
    "profile": Needs(
        ("unconstrained", "value", "value_in_data_units"),
        ("log_density", "log_prior", "smoothed"),
        ("site", "smoothing", "step"),
    ),
    "quadrature": Needs(("unconstrained", "weight"), ("log_density",), INTEGRAL),
    "smc": Needs(("unconstrained", "share"), ("log_density",), INTEGRAL),
    "bridge": Needs(("mass", "mass_error"), attributes=INTEGRAL),
    "constant_data": Needs(("landmarks",)),
    "paths": Needs(logs=("height", "low"), counts=("draw", "edge")),
    **dict.fromkeys(("sample_stats", "warmup_sample_stats"), ITERATIONS),
}
#: One of them tells modes apart.
LANDSCAPES = ("profile", "paths")


def check_run(run: xr.DataTree, *, known: bool) -> None:
    """Refuse a tree that is no whole run, of any method.

    What a kernel that only another process knows would tell is left unchecked: its draws can be
    read.

    Args:
        run: that was read.
        known: it is as it was saved, so that its draws need not be worked out again.

    Raises:
        InputError: naming the group, variable or attribute.
    """
    if str(run.attrs.get("creation_library")) != "bke" or "posterior" not in run.children:
        raise InputError("this is not a run of bke.inference.fit: its attributes are missing")
    posterior = _draws(run, "posterior")
    if "noise_variance" in run.attrs:
        _check_fitted(run, posterior, known)
    elif "simulator" in run.attrs:
        _check_attributes(run, SIMULATED)
        _check_stats(run, posterior)
        _check_data(run)
    elif "kernel" in run.attrs:
        check_restorable(_plain(run, "kernel"))


def _check_fitted(run: xr.DataTree, posterior: xr.Dataset, known: bool) -> None:
    _check_attributes(run, FITTED)
    for name in ("kernel", "prior", "noise_variance", "measure", "versions"):
        _plain(run, name)
    check_restorable(_plain(run, "kernel"))
    unconstrained = _draws(run, "unconstrained_posterior")
    _check_alike(posterior, unconstrained, "unconstrained_posterior")
    _check_stats(run, posterior)
    if not set(LANDSCAPES) & set(run.children):
        raise InputError(f"it has no group {' or '.join(LANDSCAPES)}")
    for name, needs in GROUPS.items():
        if name in run.children:
            _check_group(run, name, needs)
    if "paths" in run.children and run["paths"]["draw"].max() >= posterior.sizes["draw"]:
        raise InputError("its group paths is of more draws: thin what is computed from the run")
    _check_data(run)
    told = [_plain(run, name) for name in ("prior", "noise_variance", "measure")]
    # What cannot be rebuilt is left to whoever needs it: the draws can be read.
    if only_here(_plain(run, "kernel")) is None and not any(map(_is_unrecorded, told)):
        _check_model(run, posterior, known)


def _check_model(run: xr.DataTree, posterior: xr.Dataset, known: bool) -> None:
    """The model that the attributes tell is of these draws and these columns."""
    try:
        target, units = target_of(run)
        sites, width = set(target.sites), len(units.scale)
    except InputError:
        raise
    except Exception as error:  # attributes that another program wrote fail in many ways
        raise InputError(f"its attributes do not tell the model: {error}") from None
    if sites != set(posterior.data_vars):
        raise InputError(
            f"its draws are of {_listed(posterior.data_vars)}, but its model is of {_listed(sites)}"
        )
    if width not in (1, run["observed_data"].sizes["column"]):
        raise InputError("its units are not those of its columns")
    if not (np.isfinite(units.scale).all() and (units.scale > 0.0).all()):
        raise InputError("its attribute scale has numbers that are no units")
    if not (np.isfinite(units.dither).all() and (units.dither >= 0.0).all()):
        raise InputError("its attribute dither has numbers that are no units")
    noise = target.noise_variance
    if isinstance(noise, float) and not 0.0 <= noise < np.inf:
        raise InputError(f"its attribute noise_variance is {noise:g}")
    if not known:
        _check_draws(run, target, units, posterior)


def _check_draws(run: xr.DataTree, target: Target, units: Units, posterior: xr.Dataset) -> None:
    """The draws in the units of the data are those without bounds, by the first of each chain."""
    free = run["unconstrained_posterior"].to_dataset()
    z = {str(name): values.values[:, :1] for name, values in free.data_vars.items()}
    with computing():
        expected = in_data_units(target, units, z)
    for name, values in expected.data_vars.items():
        if not np.allclose(values.values, posterior[name].values[:, :1], rtol=1e-4):
            raise InputError(
                f"{name} in its group posterior is not what unconstrained_posterior makes it"
            )


def _is_unrecorded(record: Any) -> bool:
    """Whether a distribution is among what was recorded by its name alone."""
    if not isinstance(record, dict):
        return isinstance(record, list) and any(map(_is_unrecorded, record))
    return "unrecorded" in record or any(map(_is_unrecorded, record.values()))


def _draws(run: xr.DataTree, name: str) -> xr.Dataset:
    """The draws of a group, each of them a number."""
    if name not in run.children:
        raise InputError(f"it has no group {name}")
    dataset = run[name].to_dataset()
    if not dataset.data_vars:
        raise InputError(f"its group {name} has no draws")
    for variable, values in dataset.data_vars.items():
        if values.dims[:2] != ("chain", "draw") or values.size == 0:
            raise InputError(f"{variable} in its group {name} has no chains of draws")
        _check_numbers(values, f"{variable} in its group {name}", np.isfinite, kinds="f")
    return dataset


def _check_stats(run: xr.DataTree, posterior: xr.Dataset) -> None:
    """Sizes and kinds of the statistics of draws; they may be infinite."""
    if "sample_stats" not in run.children:
        raise InputError("it has no group sample_stats")
    stats = run["sample_stats"].to_dataset()
    for variable, values in stats.data_vars.items():
        _check_numbers(values, f"{variable} in its group sample_stats", _is_number)
    if {"chain", "draw"} <= set(stats.sizes):
        _check_alike(posterior, stats, "sample_stats", names=False)


def _check_alike(
    posterior: xr.Dataset, other: xr.Dataset, name: str, *, names: bool = True
) -> None:
    """As many chains and draws, and of the same parameters."""
    if names and set(posterior.data_vars) != set(other.data_vars):
        raise InputError(
            f"its group posterior has {_listed(posterior.data_vars)}, and {name} has "
            f"{_listed(other.data_vars)}"
        )
    for dim in ("chain", "draw"):
        here, there = posterior.sizes[dim], other.sizes[dim]
        if here != there:
            raise InputError(f"its group posterior has {here} along {dim}, and {name} has {there}")


def _check_group(run: xr.DataTree, name: str, needs: Needs) -> None:
    dataset = run[name].to_dataset()
    for variable in (*needs.finite, *needs.logs, *needs.counts):
        if variable not in dataset.variables:
            raise InputError(f"its group {name} has no {variable}")
        wanted = np.isfinite if variable in needs.finite else _is_number
        kinds = "biu" if variable in needs.counts else "f"
        _check_numbers(dataset[variable], f"{variable} in its group {name}", wanted, kinds=kinds)
    for attribute in needs.attributes:
        if attribute not in dataset.attrs:
            raise InputError(f"its group {name} has no attribute {attribute}")
        if attribute in INTEGRAL and not _is_finite(dataset.attrs[attribute]):
            raise InputError(f"its group {name} has no number {attribute}")
    for variable in SHARES & set(dataset.variables):
        shares = dataset[variable].values
        if (shares < 0.0).any() or abs(shares.sum() - 1.0) > ROUNDING:
            raise InputError(f"{variable} in its group {name} are no shares of the posterior")


def _is_finite(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and bool(np.isfinite(value))


def _check_data(run: xr.DataTree) -> None:
    """The rows that the run holds are those that it was made of."""
    if "observed_data" not in run.children:
        raise InputError("it has no group observed_data")
    observed = run["observed_data"].to_dataset()
    if "column" not in observed.coords:
        raise InputError("its group observed_data does not name its columns")
    if "X" not in observed:
        if "rows" not in observed.attrs:
            raise InputError("its group observed_data has no rows X, nor their number")
        return
    X = observed["X"]
    if X.dims != ("row", "column"):
        raise InputError("X in its group observed_data has no rows and columns")
    _check_numbers(X, "X in its group observed_data", np.isfinite)
    if digest_of(X.values) != str(run.attrs["data_sha256"]):
        raise InputError("the rows in its group observed_data are not those that it was made of")


#: In words, of NumPy's letters.
KINDS = {"f": "floating-point numbers", "biu": "whole numbers"}


def _is_number(values: np.ndarray) -> np.ndarray:
    """Whether values are numbers, finite or not."""
    return ~np.isnan(values)


def _check_numbers(
    values: xr.DataArray, what: str, wanted: Callable[[Any], Any], *, kinds: str = "fiub"
) -> None:
    if values.dtype.kind not in kinds:
        raise InputError(f"{what} is no array of {KINDS.get(kinds, 'numbers')}")
    if not np.all(wanted(values.values)):
        raise InputError(f"{what} has values that are not finite")


def _check_attributes(run: xr.DataTree, names: tuple[str, ...]) -> None:
    missing = [name for name in names if name not in run.attrs]
    if missing:
        raise InputError(f"it has no attribute {missing[0]}")


def _plain(run: xr.DataTree, name: str) -> Any:
    try:
        return json.loads(run.attrs[name])
    except (TypeError, ValueError, RecursionError):
        raise InputError(f"its attribute {name} cannot be read: {run.attrs[name]!r:.60}") from None


def _listed(names: Any) -> str:
    return ", ".join(sorted(map(str, names))) or "nothing"
