"""Kernels defined by users: from a function of two points, or by import path ``module:name``."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeAlias, cast

import jax

from ..linalg.pytrees import register_dataclass
from .base import Covariance, Kernel, Stationary
from .covariance import FieldUnit, parameter

#: k(x, y, **parameters) of two points (D,), a number.
PointFunction: TypeAlias = Callable[..., Any]


class FunctionKernel(Kernel):
    """A kernel that :func:`kernel_from_function` made; its fields are the parameters.

    Attributes:
        function: the function of two points.
        settings: the other arguments of :func:`kernel_from_function`.
    """

    function: ClassVar[PointFunction]
    settings: ClassVar[dict[str, Any]]

    def parameters(self) -> dict[str, Any]:
        """Return the values of the parameters by name."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        return {field.name: getattr(self, field.name) for field in fields}

    def __reduce__(self) -> Any:
        make = functools.partial(kernel_from_function, **self.settings)
        return make, (self.function, self.parameters())


def kernel_from_function(
    function: PointFunction,
    parameters: Mapping[str, Any] | None = None,
    *,
    units: Mapping[str, FieldUnit] | None = None,
    stationary: bool = False,
    log: bool = False,
) -> Kernel:
    """Make a kernel from its value at one pair of points; its derivative is JAX's.

    ``kernel_from_function(lambda x, y, *, lengthscale: jnp.exp(-jnp.sum(((x - y) /
    lengthscale) ** 2)), {"lengthscale": 1.0}, stationary=True)`` can be fitted directly. A run of
    it can be loaded in another process if the function can be imported from a module.

    Args:
        function: k(x, y, parameter=..., ...) of points (D,), a number, in operations of JAX. A
            length may be a number or one per column.
        parameters: values by name; by default the defaults of its keyword-only arguments.
        units: units of parameters, see :func:`~bke.models.parameter`; by default ``lengthscale``
            is a length and the others have no unit.
        stationary: True if k(x, y) depends on x - y alone: then r is known in one column for every
            measure, and equal rows are allowed if the function has a kink.
        log: True if the function is the logarithm of a positive kernel, which does not underflow.

    Raises:
        ValueError: for parameters without values, or unknown units.
    """
    if not callable(function):
        raise ValueError(f"a function of two points is needed, got {function!r}")
    signature = inspect.signature(function)
    keywords = [a for a in signature.parameters.values() if a.kind is a.KEYWORD_ONLY]
    defaults = {a.name: a.default for a in keywords if a.default is not a.empty}
    values = defaults if parameters is None else dict(parameters)
    try:
        signature.bind(None, None, **values)
    except TypeError as error:
        raise ValueError(f"the function cannot be called with x, y and {values}: {error}") from None
    if unknown := set(units or {}) - set(values):
        raise ValueError(f"units names {sorted(unknown)}, but the parameters are {sorted(values)}")
    sorted_units = tuple(sorted((units or {}).items()))
    return _kernel_class(function, tuple(values), sorted_units, stationary, log)(**values)


# Cached because a compiled program belongs to its kernel's class; the size is not tuned.
@functools.lru_cache(maxsize=64)
def _kernel_class(
    function: PointFunction,
    names: tuple[str, ...],
    units: tuple[tuple[str, FieldUnit], ...],
    stationary: bool,
    log: bool,
) -> type[Kernel]:
    """Return the class of all kernels that differ in the values of their parameters only."""

    def evaluate(self: FunctionKernel, x: jax.Array, y: jax.Array) -> Any:
        try:
            return function(x, y, **self.parameters())
        except jax.errors.TracerArrayConversionError as error:
            raise TypeError(
                "NumPy's functions cannot be differentiated: write the kernel "
                f"{type(self).__name__} with those of jax.numpy"
            ) from error

    field_units: dict[str, FieldUnit] = {"lengthscale": "length", **dict(units)}
    kernel_class = dataclasses.make_dataclass(
        getattr(function, "__name__", "function").strip("<>"),
        [(name, Any, parameter(unit=field_units.get(name, "none"))) for name in names],
        bases=(FunctionKernel, Stationary) if stationary else (FunctionKernel,),
        namespace={
            "log_evaluate" if log else "evaluate": evaluate,
            "function": staticmethod(function),
            "settings": {"units": dict(units), "stationary": stationary, "log": log},
            "__doc__": function.__doc__,
        },
        frozen=True,
    )
    return cast(type[Kernel], register_dataclass(kernel_class))


def object_path(value: Any) -> str | None:
    """Return ``module:name`` of a class or function, or None if that does not import this object.

    It does not for objects defined in a function, as a lambda, in a notebook or in the script that
    runs, and for a class whose module has been reloaded.
    """
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if module in (None, "__main__") or name is None:
        return None
    imported: Any = sys.modules.get(module)
    for attribute in name.split("."):
        imported = getattr(imported, attribute, None)
    return f"{module}:{name}" if imported is value else None


def import_object(path: str) -> Any:
    """Import the object at ``module:name``.

    Raises:
        ValueError: if it cannot be imported, naming the module.
    """
    # Dotted names; names of Python itself, such as ``__globals__``, are refused.
    dotted = r"(?!__)[^\W\d]\w*(\.(?!__)[^\W\d]\w*)*"
    if not re.fullmatch(f"{dotted}:{dotted}", path):
        raise ValueError(f"{path!r} is not of the form module:name")
    module, _, name = path.partition(":")
    try:
        return functools.reduce(getattr, name.split("."), importlib.import_module(module))
    except AttributeError:
        raise ValueError(f"the module {module!r} has no {name!r}") from None
    except Exception as error:  # of the import, or raised by the module
        raise ValueError(
            f"the module {module!r} cannot be imported ({type(error).__name__}: {error}): it must "
            "be installed, or lie in the current folder or on PYTHONPATH"
        ) from error


def kernel_from_path(path: str) -> Kernel | type[Kernel]:
    """Return the kernel at ``module:name``: a kernel, a class, or a function of two points.

    A function becomes a kernel by :func:`~bke.models.kernel_from_function`, its parameters being
    its keyword-only arguments with their defaults.

    Raises:
        ValueError: if it cannot be imported, naming the module, or is none of these.
    """
    value = import_object(path)
    if isinstance(value, Kernel) or (inspect.isclass(value) and issubclass(value, Kernel)):
        return value
    if isinstance(value, Covariance) or inspect.isclass(value) or not callable(value):
        raise ValueError(
            f"{path} is no kernel, no class of kernels and no function of two points, but {value!r}"
        )
    return kernel_from_function(value)
