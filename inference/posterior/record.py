"""Kernels, priors and measures written as plain data, so that anyone can repeat a run."""

from __future__ import annotations

import dataclasses
from typing import Any

import bke.models as models
import numpy as np
import numpyro.distributions as dist
from bke.models import Gaussian, SamplingNoise
from bke.models.kernels.base import Covariance, Kernel
from bke.models.measures.distributions import parts
from bke.models.measures.measure import Measure, as_measure

from ..errors import InputError

TRUNCATED = (
    dist.LeftTruncatedDistribution,
    dist.RightTruncatedDistribution,
    dist.TwoSidedTruncatedDistribution,
)


def _plain(value: Any) -> Any:
    return None if value is None else np.asarray(value, dtype=float).tolist()


def describe_kernel(kernel: Covariance) -> dict[str, Any]:
    """A kernel as its class name and fields, nested for sums and products."""
    name = type(kernel).__name__
    if getattr(models, name, None) is not type(kernel):
        name = f"{type(kernel).__module__}.{name}"  # not one of ours: named, not rebuilt
    record: dict[str, Any] = {"type": name}
    for field in dataclasses.fields(kernel):  # type: ignore[arg-type]
        value = getattr(kernel, field.name)
        record[field.name] = describe_kernel(value) if isinstance(value, Kernel) else _plain(value)
    return record


def is_ours(kernel: Kernel) -> bool:
    """Whether every part of ``kernel`` is a class of this package, which a record can rebuild."""
    if getattr(models, type(kernel).__name__, None) is not type(kernel):
        return False
    fields = dataclasses.fields(kernel)  # type: ignore[arg-type]
    parts = (getattr(kernel, field.name) for field in fields)
    return all(is_ours(part) for part in parts if isinstance(part, Kernel))


def restore_kernel(record: dict[str, Any]) -> Kernel:
    """The kernel that :func:`describe_kernel` described."""
    fields = {
        name: restore_kernel(value)
        if isinstance(value, dict)
        else (np.asarray(value) if isinstance(value, list) else value)
        for name, value in record.items()
        if name != "type"
    }
    kernel_class = getattr(models, record["type"], None)
    if kernel_class is None:
        raise InputError(f"this run was made with a kernel bke does not have: {record['type']}")
    kernel: Kernel = kernel_class(**fields)
    return kernel


def describe_prior(prior: dist.Distribution) -> dict[str, Any]:
    """A distribution as its class name and parameters."""
    if isinstance(prior, dist.ExpandedDistribution):
        return {
            "distribution": "expand",
            "base": describe_prior(prior.base_dist),
            "shape": list(prior.batch_shape),
        }
    if isinstance(prior, dist.Independent):
        return {
            "distribution": "to_event",
            "base": describe_prior(prior.base_dist),
            "dimensions": prior.reinterpreted_batch_ndims,
        }
    name = type(prior).__name__
    if isinstance(prior, dist.MixtureGeneral | dist.MixtureSameFamily):
        # A support of its own would be lost, and with it the coordinates of the draws.
        if any(part.support != prior.support for part in parts(prior)):
            return {"distribution": name, "unrecorded": repr(prior)}
        return {
            "distribution": name,
            "probabilities": _plain(prior.mixing_distribution.probs),
            "components": [describe_prior(part) for part in parts(prior)],
        }
    if isinstance(prior, TRUNCATED):
        bounds = {bound: _plain(getattr(prior, bound)) for bound in prior.arg_constraints}
        return {"distribution": name, "base": describe_prior(prior.base_dist), **bounds}
    if hasattr(prior, "base_dist") and not hasattr(dist, name):
        return {"distribution": name, "unrecorded": repr(prior)}
    if not prior.arg_constraints or not hasattr(dist, name):
        return {"distribution": name, "unrecorded": repr(prior)}
    return {
        "distribution": name,
        **{parameter: _plain(getattr(prior, parameter)) for parameter in prior.arg_constraints},
    }


def restore_prior(record: dict[str, Any]) -> dist.Distribution:
    """The distribution that :func:`describe_prior` described."""
    name = record["distribution"]
    if "unrecorded" in record:
        raise InputError(f"the prior {name} of this run is not one that bke can rebuild")
    if name == "expand":
        return restore_prior(record["base"]).expand(record["shape"])
    if "components" in record:
        mixing = dist.Categorical(np.asarray(record["probabilities"]))
        components = [restore_prior(part) for part in record["components"]]
        if name == "MixtureSameFamily":
            return dist.MixtureSameFamily(mixing, components[0])
        return dist.MixtureGeneral(mixing, components)
    if name == "to_event":
        return restore_prior(record["base"]).to_event(record["dimensions"])
    parameters = {
        key: np.asarray(value) if isinstance(value, list) else value
        for key, value in record.items()
        if key not in ("distribution", "base")
    }
    if "base" in record:
        parameters["base_dist"] = restore_prior(record["base"])
    try:
        return getattr(dist, name)(**parameters)
    except (AttributeError, TypeError, ValueError) as error:
        raise InputError(f"the prior {name} of this run cannot be rebuilt: {error}") from None


def describe_noise(noise: float | SamplingNoise | dist.Distribution) -> float | dict[str, Any]:
    """A noise variance, the prior of one, or a sampling covariance."""
    if isinstance(noise, dist.Distribution):
        return describe_prior(noise)
    if isinstance(noise, SamplingNoise):
        return {"sampling": "full" if noise.full else "diagonal", "nugget": float(noise.nugget)}
    return noise


def restore_noise(record: float | dict[str, Any]) -> float | SamplingNoise | dist.Distribution:
    """What :func:`describe_noise` described."""
    if not isinstance(record, dict):
        return float(record)
    if "sampling" in record:
        return SamplingNoise(record["sampling"] == "full", record["nugget"])
    return restore_prior(record)


def describe_measure(measure: Measure) -> str | dict[str, Any]:
    """The name of a measure, or its parameters."""
    record = measure.record()
    if isinstance(record, str):
        return record
    return {
        name: describe_prior(value) if isinstance(value, dist.Distribution) else _plain(value)
        for name, value in record.items()
    }


def restore_measure(record: str | dict[str, Any]) -> Measure:
    """The measure that :func:`describe_measure` described."""
    if isinstance(record, str):
        return as_measure(record)
    return Gaussian(
        *(
            restore_prior(value) if isinstance(value, dict) else np.asarray(value)
            for value in (record["scale"], record["centre"])
        )
    )
