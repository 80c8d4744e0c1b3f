"""Kernels, priors and measures written as plain data, so that anyone can repeat a run."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import json
import uuid
from collections.abc import Mapping
from typing import Any

import bke.models as models
import jax
import numpy as np
import numpyro.distributions as dist
from bke.models import Gaussian, SamplingNoise
from bke.models.kernels.base import Covariance, Kernel
from bke.models.kernels.covariance import is_static
from bke.models.kernels.user_kernels import (
    FunctionKernel,
    import_object,
    kernel_from_function,
    object_path,
)
from bke.models.likelihood.base import Likelihood
from bke.models.measures import Measure, as_measure, component_distributions

from ..core.errors import InputError

TRUNCATED = (
    dist.LeftTruncatedDistribution,
    dist.RightTruncatedDistribution,
    dist.TwoSidedTruncatedDistribution,
)

#: Type of a kernel made from a function.
FUNCTION = "function"
#: Stands beside the name of what cannot be imported: a key of :data:`_REMEMBERED`.
SESSION = "session"
#: Classes and functions of this process that no other can import: lambdas, those of a notebook. A
#: class that is defined anew under its old name is another one.
_REMEMBERED: dict[str, Any] = {}


def _plain(value: Any) -> Any:
    return None if value is None else np.asarray(value, dtype=float).tolist()


def describe_kernel(kernel: Covariance) -> dict[str, Any]:
    """A kernel as its class's path and its fields, nested for sums and products.

    Ours go by their public name. What cannot be imported is remembered in this process, where the
    record restores it.
    """
    if isinstance(kernel, FunctionKernel):
        parameters = {name: _plain(value) for name, value in kernel.parameters().items()}
        function = _named(kernel.function)
        return {"type": FUNCTION, "function": function, **kernel.settings, "parameters": parameters}
    record = _named(type(kernel))
    for field in dataclasses.fields(kernel):  # type: ignore[arg-type]
        value = getattr(kernel, field.name)
        if isinstance(value, Covariance):
            record[field.name] = describe_kernel(value)
        elif is_static(field) and not _is_plain(value):
            return {"type": record["type"], SESSION: _remember(kernel)}
        else:
            record[field.name] = value if is_static(field) else _plain(value)
    return record


def _named(thing: Any) -> dict[str, Any]:
    """A class or function by its path, and by a key of this process where that is not enough."""
    name: str = thing.__name__
    if getattr(models, name, None) is thing:
        return {"type": name}
    if (path := object_path(thing)) is not None:
        return {"type": path}
    return {"type": f"{thing.__module__}:{thing.__qualname__}", SESSION: _remember(thing)}


def _remember(thing: Any) -> str:
    """A key that stands for this very object in this process."""
    for key, known in _REMEMBERED.items():
        if known is thing:
            return key
    key = uuid.uuid4().hex
    _REMEMBERED[key] = thing
    return key


def _is_plain(value: Any) -> bool:
    try:
        json.dumps(value)
    except TypeError:
        return False
    return True


def identity_of(kernel: Covariance) -> tuple[Any, ...]:
    """The classes and functions that a kernel is made of: two of one name are not the same."""
    if isinstance(kernel, FunctionKernel):
        return (kernel.function,)
    fields = dataclasses.fields(kernel)  # type: ignore[arg-type]
    parts = (getattr(kernel, field.name) for field in fields)
    inner = (identity_of(part) for part in parts if isinstance(part, Covariance))
    return (type(kernel), *itertools.chain.from_iterable(inner))


def is_ours(kernel: Covariance) -> bool:
    """Whether a kernel is made of this package's classes alone, which nobody defines anew."""
    named = ((part, getattr(part, "__name__", "")) for part in identity_of(kernel))
    return all(getattr(models, name, None) is part for part, name in named)


def restore_kernel(record: dict[str, Any]) -> Kernel:
    """The kernel that :func:`describe_kernel` described.

    Raises:
        InputError: where its class or function cannot be imported, naming the module, or has other
            fields now.
    """
    if record["type"] == FUNCTION:
        settings = {name: record[name] for name in ("units", "stationary", "log")}
        values = {name: _numbers(value) for name, value in record["parameters"].items()}
        return kernel_from_function(_function_of(record["function"]), values, **settings)
    found = _class_of(record)
    if isinstance(found, Kernel):
        return found
    static = {field.name for field in dataclasses.fields(found) if is_static(field)}  # type: ignore[arg-type]
    fields: dict[str, Any] = {}
    for name, value in record.items():
        if isinstance(value, dict):
            fields[name] = restore_kernel(value)
        elif name in static:
            fields[name] = tuple(value) if isinstance(value, list) else value
        elif name not in ("type", SESSION):
            fields[name] = _numbers(value)
    make: Any = found
    try:
        kernel: Kernel = make(**fields)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"the kernel {record['type']} has changed since this run was made: {error}"
        ) from None
    return kernel


def _numbers(value: Any) -> Any:
    return np.asarray(value) if isinstance(value, list) else value


def _class_of(record: dict[str, Any]) -> type[Covariance] | Kernel:
    """The class that a record names; or a kernel that this process remembers whole."""
    found = _restored(record)
    if isinstance(found, Kernel) or (inspect.isclass(found) and issubclass(found, Covariance)):
        return found
    raise InputError(f"this run was made with the kernel {record['type']}, which is none now")


def _function_of(record: dict[str, Any]) -> Any:
    """The function that a record names: one that is written in Python, whatever a file says."""
    found = _restored(record)
    if SESSION in record or inspect.isfunction(inspect.unwrap(found) if callable(found) else None):
        return found
    raise InputError(f"this run was made with the function {record['type']}, which is none now")


def _restored(record: dict[str, Any]) -> Any:
    """The class or function that :func:`_named` named, or a kernel that is remembered whole."""
    name = record["type"]
    if SESSION in record:
        if (found := _REMEMBERED.get(record[SESSION])) is not None:
            return found
        raise InputError(
            f"this run was made with the kernel {name}, which only the process that made the run "
            "can tell: define it at the top of a module that can be imported, and run again "
            "(xarray.open_datatree reads the draws)"
        )
    if ":" not in name:
        if (ours := getattr(models, name, None)) is None:
            raise InputError(f"this run was made with a kernel bke does not have: {name}")
        return ours
    try:
        return import_object(name)
    except ValueError as error:
        raise InputError(f"this run was made with the kernel {name}, but {error}") from None


def check_restorable(record: Any) -> None:
    """Refuse the record of a kernel of which a part cannot be found, or is no kernel.

    What only another process remembers is left to whoever needs it: its draws can be read.

    Raises:
        InputError: naming the module or the part.
    """
    _check_named(record)
    if record["type"] == FUNCTION:
        function = record.get("function")
        _check_named(function)
        if SESSION not in function:
            _function_of(function)
        return
    if SESSION not in record:
        _class_of(record)
    for part in record.values():
        if isinstance(part, dict):
            check_restorable(part)


def _check_named(record: Any) -> None:
    if not (isinstance(record, dict) and isinstance(record.get("type"), str)):
        raise InputError(f"this run has no record of its kernel that bke can read: {record}")


def only_here(record: Any) -> str | None:
    """The name of a part of a kernel that another process cannot restore, if there is one."""
    if not isinstance(record, dict):
        return None
    if SESSION in record:
        return str(record["type"])
    return next(filter(None, map(only_here, record.values())), None)


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
        if any(part.support != prior.support for part in component_distributions(prior)):
            return {"distribution": name, "unrecorded": repr(prior)}
        return {
            "distribution": name,
            "probabilities": _plain(prior.mixing_distribution.probs),
            "components": [describe_prior(part) for part in component_distributions(prior)],
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


def likelihood_attributes(likelihood: Likelihood) -> dict[str, Any]:
    """The name and the options of a likelihood as attributes of a run; arrays are data."""
    name = likelihood.name
    options = {
        option: value.item() if isinstance(value, np.generic) else value
        for option, value in likelihood.record().items()
        if option != "likelihood" and not isinstance(value, np.ndarray | jax.Array)
    }
    # Those that read runs of earlier versions look for the rank.
    rank = {"rank": options["rank"]} if "rank" in options else {}
    return {"likelihood": name, "likelihood_options": json.dumps(options), **rank}


def likelihood_record(attributes: Mapping[Any, Any]) -> dict[str, Any]:
    """What :meth:`~bke.models.likelihood.base.Likelihood.record` said, from attributes of a run."""
    if "likelihood_options" in attributes:
        options = json.loads(attributes["likelihood_options"])
    else:  # a run of an earlier version, which knew of no other option
        options = {"rank": int(attributes["rank"])} if "rank" in attributes else {}
    found = {name: tuple(v) if isinstance(v, list) else v for name, v in options.items()}
    return {"likelihood": attributes["likelihood"], **found}


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
