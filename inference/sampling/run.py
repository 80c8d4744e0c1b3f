"""A run: the ``DataTree`` that holds draws, statistics, data and how to repeat it all."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import xarray as xr
from arviz_base import dict_to_dataset
from bke.models.kernels.base import Kernel
from bke.models.kernels.covariance import FieldUnit
from bke.models.measures import MEASURE_SCALE
from bke.models.priors import num_components, sites, with_values

from ..core.errors import InputError
from ..data.units import Units
from .approximation_error import estimate_error
from .record import NOT_A_RUN, likelihood_record, read_record, record_attributes
from .target import Chains, Target, Task


@dataclasses.dataclass(frozen=True)
class Unread:
    """Data that a run does not hold: their number of rows and their SHA-256 as float64."""

    rows: int
    digest: str


def make_run(
    task: Task,
    units: Units,
    data: np.ndarray | Unread,
    chains: Chains,
    landscape: Mapping[str, xr.Dataset],
    settings: Mapping[str, Any],
) -> xr.DataTree:
    """Collect draws, statistics, data and the record under ArviZ's group names.

    Args:
        task: the sampled posterior.
        units: units of the data.
        data: rows of all samples (n, D), in their own units.
        chains: draws with their statistics.
        landscape: groups of the sampler, and that from which modes are found.
        settings: entries of the record.
    """
    target = task.target
    settings = {**settings, **estimate_error(target, task.points, *chains.after_warmup())}
    warmup = chains.num_warmup
    z = {name: np.asarray(values) for name, values in chains.z.items()}
    shape = np.shape(chains.stats["lp"])
    # Densities of zero on the way are counted by samplers that meet them.
    never = {"diverging": np.zeros(shape, bool), "nonfinite_evaluations": np.zeros(shape, int)}
    stats = {**never, **chains.stats}
    later = {name: values[:, warmup:] for name, values in z.items()}
    groups: dict[str, xr.Dataset] = {}
    groups["posterior"] = in_data_units(target, units, later)
    groups["sample_stats"] = dict_to_dataset({k: v[:, warmup:] for k, v in stats.items()})
    groups["unconstrained_posterior"] = dict_to_dataset(later)
    prior_values = {name: values[None] for name, values in task.prior_draws.items()}
    groups["prior"] = in_data_units(target, units, prior_values)
    columns = list(units.columns)
    if isinstance(data, Unread):
        observed = xr.Dataset(coords={"column": columns}, attrs={"rows": data.rows})
    else:
        observed = xr.Dataset({"X": (("row", "column"), data)}, coords={"column": columns})
        if units.sizes:
            sample = np.repeat(np.arange(len(units.sizes)), units.sizes)
            observed = observed.assign(sample=("row", sample))
    groups["observed_data"] = observed
    groups["initial"] = xr.Dataset(
        {
            name: (("chain", *(f"{name}_dim_{axis}" for axis in range(values.ndim - 1))), values)
            for name, values in chains.initial.items()
        }
    )
    groups |= landscape
    if target.landmarks is not None:
        landmarks = (("landmark", "column"), target.landmarks * units.scale)
        groups["constant_data"] = xr.Dataset({"landmarks": landmarks}, coords={"column": columns})
    if "profile" in groups:
        site, profile = groups["profile"].attrs["site"], groups["profile"]
        converted = _in_data_units(target, units, {site: profile["value"].values[None]})[site]
        dims = ("grid", *map(str, converted.dims[2:]))
        groups["profile"] = profile.assign(value_in_data_units=(dims, converted.values[0]))
    if warmup:
        earlier = {name: values[:, :warmup] for name, values in z.items()}
        groups["warmup_posterior"] = in_data_units(target, units, earlier)
        warmup_stats = {k: v[:, :warmup] for k, v in stats.items()}
        groups["warmup_sample_stats"] = dict_to_dataset(warmup_stats)
    run = xr.DataTree.from_dict({f"/{name}": dataset for name, dataset in groups.items()})
    digest = data.digest if isinstance(data, Unread) else digest_of(data)
    model_units = {name: getattr(units, name) for name in ("scale", "dither", "dither_seed")}
    run.attrs.update(
        record_attributes(settings, digest, model=target.describe(), units=model_units)
    )
    return run


def rows_of(run: xr.DataTree) -> int:
    """Return the number of rows that the run is the posterior of."""
    observed = run["observed_data"]
    return int(observed.attrs["rows"] if "X" not in observed else observed.sizes["row"])


def in_data_units(target: Target, units: Units, z: Mapping[str, np.ndarray]) -> xr.Dataset:
    """Return values (chain, draw, ...) of every site from unconstrained ones; needs 64-bit JAX."""
    values = target.constrain({name: jax.numpy.asarray(v) for name, v in z.items()})
    return _in_data_units(target, units, values)


def _in_data_units(target: Target, units: Units, values: Mapping[str, Any]) -> xr.Dataset:
    """Convert values of every site from the units of the model to those of the data."""
    known = sites(target.kernel)
    units_of_sites: dict[str, FieldUnit] = {name: site.unit for name, site in known.items()}
    units_of_sites[MEASURE_SCALE] = "length"
    mixtures = {name for name, site in known.items() if site.per_component}
    converted: dict[Any, Any] = {}
    dims: dict[Any, Any] = {}
    for name, value in values.items():
        leading = int(name in mixtures and np.ndim(value) > 2)  # not for one number for all
        converted[name] = units.to_data(
            units_of_sites.get(name, "none"), np.asarray(value), 2, per_component=bool(leading)
        )
        extra = converted[name].shape[2:]
        named = ["component"] * leading
        if len(extra) > leading and extra[-1] == len(units.columns):
            dims[name] = [*named, "input"]
        elif len(extra) == leading:
            dims[name] = named
    return dict_to_dataset(converted, dims=dims, coords={"input": list(units.columns)})


def kernel_in_data_units(target: Target, units: Units, values: Mapping[str, Any]) -> Kernel:
    """Return the kernel at ``values`` (units of the model) in the units of the data."""
    kernel = target.kernel_at(values)
    converted = {}
    for name, site in sites(kernel).items():
        value, mixture = site.value(kernel), site.per_component
        if value is not None:
            if mixture and np.ndim(value) == 0:  # one number per column would be one per component
                value = np.full(num_components(site.part(kernel)), value)
            converted[name] = units.to_data(site.unit, np.asarray(value), 0, per_component=mixture)
    return with_values(kernel, converted)


def digest_of(data: np.ndarray) -> str:
    """The SHA-256 digest of an array's numbers."""
    return hashlib.sha256(np.ascontiguousarray(data, dtype=float).tobytes()).hexdigest()


def target_of(run: xr.DataTree) -> tuple[Target, Units]:
    """Restore the log density that a run samples from its record.

    Raises:
        InputError: ``run`` is not a run of this package, or its prior cannot be rebuilt.
    """
    units = units_of(run)
    record = read_record(run.attrs)
    landmarks = None
    if "constant_data" in run.children:
        landmarks = units.to_model(run["constant_data"].to_dataset()["landmarks"].values)
    return Target.restore({**record["model"], **likelihood_record(record)}, landmarks), units


def units_of(run: xr.DataTree) -> Units:
    """Return the units of a run.

    Raises:
        InputError: ``run`` is not a run of this package.
    """
    record = read_record(run.attrs if isinstance(run, xr.DataTree) else {})
    if "posterior" not in run.children:
        raise InputError(NOT_A_RUN)
    if "model" not in record:
        raise InputError(f"this is a run of {record['method']}, not of bke.inference.fit")
    if "units" not in record:
        raise InputError("the record of this run has no units")
    if not {"chain", "draw"} <= set(run["posterior"].dims):
        raise InputError("this run has no chains of draws: select one as isel(chain=[0])")
    units = record["units"]
    observed = run["observed_data"].to_dataset()
    return Units(
        np.atleast_1d(units["scale"]).astype(float),
        np.atleast_1d(units["dither"]).astype(float),
        int(units["dither_seed"]),
        tuple(str(name) for name in observed["column"].values),
        tuple(np.bincount(observed["sample"].values).tolist()) if "sample" in observed else (),
    )
