"""JSON records of runs: kernels, priors, noise variances and measures as plain data.

The attribute :data:`RECORD` of a run holds one JSON object, from which the run can be repeated:
``version``, ``data_sha256``, ``packages``, the method with its settings and the seed, and the
``model`` and ``units`` of a run of :func:`~bke.inference.fit`. :func:`record_attributes` writes it
and :func:`read_record` reads it.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
import inspect
import itertools
import json
import platform
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import bke.models as models
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
from bke.models.measures import Measure

from ..core.errors import InputError

#: The attribute of a run that holds its record.
RECORD = "bke"
VERSION = 2
PACKAGES = ("bke", "jax", "jaxlib", "numpyro", "numpy", "scipy", "arviz-base", "arviz-stats")
NOT_A_RUN = (
    "this is not a run of bke.inference.fit: its attributes are missing; diagnose draws of other "
    "programs in Python, by diagnose(tree, X=...)"
)

#: The type of a kernel that was made from a function.
FUNCTION = "function"
#: The entry of a record with the key of an object that only this process has.
SESSION = "session"
#: Objects that no other process can import, by key: lambdas, classes of a notebook. A class that is
#: defined again under the same name is another object.
SESSION_OBJECTS: dict[str, Any] = {}
SESSION_ID = uuid.uuid4().hex


@functools.cache
def package_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages in use."""
    versions = {package: importlib.metadata.version(package) for package in PACKAGES}
    return {"python": platform.python_version(), **versions}


def record_attributes(
    settings: Mapping[str, Any], data_sha256: str, **parts: Any
) -> dict[str, Any]:
    """Return the attributes of a run.

    Args:
        settings: the method, its settings, the seed, and what else is recorded.
        data_sha256: SHA-256 of the rows as float64.
        **parts: further entries, such as the model and the units of a run of ``fit``.

    Returns:
        The record, and each setting once more as a plain attribute, for people who read them.
    """
    record = {
        "version": VERSION,
        **parts,
        "data_sha256": data_sha256,
        "packages": package_versions(),
        **settings,
    }
    plain = {name: value for name, value in settings.items() if not isinstance(value, dict)}
    return {"creation_library": "bke", **plain, RECORD: json.dumps(record, default=_to_json)}


def read_record(attributes: Any) -> dict[str, Any]:
    """Return the record of a run from its attributes.

    Raises:
        InputError: there is none, it is damaged, or it is of another version.
    """
    if RECORD not in attributes:
        raise InputError(NOT_A_RUN)
    try:
        record: dict[str, Any] = json.loads(attributes[RECORD])
        version = record["version"]
    except (TypeError, ValueError, KeyError, RecursionError):
        raise InputError(
            f"its attribute {RECORD} is not a record of a run: {attributes[RECORD]!r:.60}"
        ) from None
    if version != VERSION:
        raise InputError(
            f"its record has version {version!r:.60}, and this bke reads version {VERSION} only"
        )
    return record


def _to_json(value: Any) -> Any:
    """Return numbers and arrays as JSON has them."""
    return value if value is None or isinstance(value, str) else np.asarray(value).tolist()


def _from_json(value: Any) -> Any:
    return np.asarray(value) if isinstance(value, list) else value


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value)
    except TypeError:
        return False
    return True


def describe_kernel(kernel: Covariance) -> dict[str, Any]:
    """Describe a kernel by the import path of its class and its fields, nested for sums.

    Kernels of :mod:`bke.models` have their public name. An object that cannot be imported gets a
    key by which :func:`restore_kernel` finds it in this process.
    """
    if isinstance(kernel, FunctionKernel):
        parameters = {name: _to_json(value) for name, value in kernel.parameters().items()}
        function = _describe_object(kernel.function)
        return {"type": FUNCTION, "function": function, **kernel.settings, "parameters": parameters}
    record = _describe_object(type(kernel))
    for field in dataclasses.fields(kernel):  # type: ignore[arg-type]
        value = getattr(kernel, field.name)
        if isinstance(value, Covariance):
            record[field.name] = describe_kernel(value)
        elif is_static(field) and not _is_json(value):
            return {"type": record["type"], SESSION: _session_key(kernel)}
        else:
            record[field.name] = value if is_static(field) else _to_json(value)
    return record


def _describe_object(value: Any) -> dict[str, Any]:
    """Describe a class or function by its path, and by a key where it cannot be imported."""
    name: str = value.__name__
    if getattr(models, name, None) is value:
        return {"type": name}
    if (path := object_path(value)) is not None:
        return {"type": path}
    return {"type": f"{value.__module__}:{value.__qualname__}", SESSION: _session_key(value)}


def _session_key(value: Any) -> str:
    key = f"{SESSION_ID}-{id(value)}"
    SESSION_OBJECTS[key] = value
    return key


def record_parts(record: Any) -> Iterator[dict[str, Any]]:
    """Yield the objects in a record, itself first."""
    if isinstance(record, dict):
        yield record
    if isinstance(record, dict | list):
        for part in record.values() if isinstance(record, dict) else record:
            yield from record_parts(part)


def session_only(record: Any) -> str | None:
    """Return the name of a part of a kernel that another process cannot restore, or None."""
    return next((str(part["type"]) for part in record_parts(record) if SESSION in part), None)


def identity_of(kernel: Covariance) -> tuple[Any, ...]:
    """Return the classes and functions of a kernel; two of the same name are different."""
    if isinstance(kernel, FunctionKernel):
        return (kernel.function,)
    fields = dataclasses.fields(kernel)  # type: ignore[arg-type]
    parts = (getattr(kernel, field.name) for field in fields)
    inner = (identity_of(part) for part in parts if isinstance(part, Covariance))
    return (type(kernel), *itertools.chain.from_iterable(inner))


def is_ours(kernel: Covariance) -> bool:
    """Return whether a kernel consists of classes of :mod:`bke.models` alone."""
    named = ((part, getattr(part, "__name__", "")) for part in identity_of(kernel))
    return all(getattr(models, name, None) is part for part, name in named)


def restore_kernel(record: Any) -> Kernel:
    """Restore the kernel that :func:`describe_kernel` described.

    Raises:
        InputError: its class or function cannot be imported, is no kernel, or has other fields now.
    """
    if isinstance(record, dict) and record.get("type") == FUNCTION:
        function = _restore_object(record.get("function"), FUNCTION)
        settings = {name: record[name] for name in ("units", "stationary", "log")}
        values = {name: _from_json(value) for name, value in record["parameters"].items()}
        return kernel_from_function(function, values, **settings)
    restored = _restore_object(record, "kernel")
    if isinstance(restored, Kernel):  # of this process, with fields that JSON does not hold
        return restored
    static = {field.name for field in dataclasses.fields(restored) if is_static(field)}
    fields = {name: value for name, value in record.items() if name not in ("type", SESSION)}
    for name, value in fields.items():
        if isinstance(value, dict):
            fields[name] = restore_kernel(value)
        elif isinstance(value, list):
            fields[name] = tuple(value) if name in static else np.asarray(value)
    try:
        kernel: Kernel = restored(**fields)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"the kernel {record['type']} has changed since this run was made: {error}"
        ) from None
    return kernel


def _restore_object(record: Any, kind: str) -> Any:
    """Return the class of a kernel, its function, or a whole kernel of this process."""
    if not (isinstance(record, dict) and isinstance(record.get("type"), str)):
        raise InputError(f"this run has no record of its kernel that bke can read: {record!r:.60}")
    name = record["type"]
    if SESSION in record:
        if (restored := SESSION_OBJECTS.get(str(record[SESSION]))) is not None:
            return restored
        raise InputError(
            f"this run was made with the {kind} {name}, which only the process that made the run "
            "has: define it at the top of a module that can be imported, and run again "
            "(xarray.open_datatree reads the draws)"
        )
    try:
        restored = import_object(name if ":" in name else f"{models.__name__}:{name}")
    except ValueError as error:
        raise InputError(f"this run was made with the {kind} {name}, but {error}") from None
    if kind == FUNCTION:
        is_valid = callable(restored) and inspect.isfunction(inspect.unwrap(restored))
    else:
        is_valid = inspect.isclass(restored) and issubclass(restored, Covariance)
    if not is_valid:
        raise InputError(f"this run was made with the {kind} {name}, which is none now")
    return restored


def describe(value: Any) -> Any:
    """Describe a prior, noise variance, measure, or an argument of one of these, as plain data."""
    if isinstance(value, dist.Distribution):
        return describe_prior(value)
    if isinstance(value, SamplingNoise):
        return {"sampling": "full" if value.full else "diagonal", "nugget": float(value.nugget)}
    if isinstance(value, Measure):
        return describe(value.record())
    if isinstance(value, dict):
        return {name: describe(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [describe(entry) for entry in value]
    return _to_json(value)


def describe_prior(prior: dist.Distribution) -> dict[str, Any]:
    """Describe a distribution of NumPyro by its class and arguments.

    Distributions with other arguments, such as transforms, and other classes only have a name.
    """
    name, excluded = type(prior).__name__, {"validate_args"}
    components = getattr(prior, "component_distributions", ())
    if components and all(component.support == prior.support for component in components):
        excluded.add("support")  # a constraint, which follows from the components
    keys = [key for key in inspect.signature(type(prior)).parameters if key not in excluded]
    if getattr(dist, name, None) is type(prior) and all(hasattr(prior, key) for key in keys):
        arguments = {key: describe(getattr(prior, key)) for key in keys}
        if _is_json(arguments):
            return {"distribution": name, **arguments}
    return {"distribution": name, "unrecorded": repr(prior)}


def restore(record: Any) -> Any:
    """Restore what :func:`describe` described, measures with parameters among it.

    Raises:
        InputError: a distribution is not one of NumPyro's, or has other arguments now.
    """
    if isinstance(record, list) and any(isinstance(entry, dict) for entry in record):
        return [restore(entry) for entry in record]
    if not isinstance(record, dict):
        return _from_json(record)
    if "sampling" in record:
        return SamplingNoise(record["sampling"] == "full", record["nugget"])
    if "distribution" not in record:
        return Gaussian(restore(record["scale"]), restore(record["center"]))
    name = record["distribution"]
    if "unrecorded" in record:
        raise InputError(f"the prior {name} of this run is not one that bke can rebuild")
    arguments = {key: restore(value) for key, value in record.items() if key != "distribution"}
    try:
        return getattr(dist, name)(**arguments)
    except (AttributeError, TypeError, ValueError) as error:
        raise InputError(f"the prior {name} of this run cannot be rebuilt: {error}") from None


def likelihood_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the name and the options of the likelihood in the record of a run."""
    excluded = ("kernel", "prior", "noise_variance", "measure")
    options = {name: value for name, value in record["model"].items() if name not in excluded}
    return {name: tuple(v) if isinstance(v, list) else v for name, v in options.items()}
