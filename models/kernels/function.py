"""Kernels made from a function of two points by one call."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeAlias, cast

import jax

from ..linalg.pytrees import register_dataclass
from .base import Kernel, Stationary
from .parameters import FieldUnit, parameter

#: k(x, y, **parameters) of two points (D,), a number.
OfPoints: TypeAlias = Callable[..., Any]
#: Classes that are kept: a compiled program belongs to its kernel's class.
KEPT = 64


class FunctionKernel(Kernel):
    """A kernel that :func:`kernel_from_function` made; its fields are the parameters."""

    function: ClassVar[OfPoints]
    settings: ClassVar[dict[str, Any]]
    """The other arguments of :func:`kernel_from_function`."""

    def parameters(self) -> dict[str, Any]:
        """The parameters with their values."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        return {field.name: getattr(self, field.name) for field in fields}

    def __reduce__(self) -> Any:
        make = functools.partial(kernel_from_function, **self.settings)
        return make, (self.function, self.parameters())


def kernel_from_function(
    function: OfPoints,
    parameters: Mapping[str, Any] | None = None,
    *,
    units: Mapping[str, FieldUnit] | None = None,
    stationary: bool = False,
    log: bool = False,
) -> Kernel:
    """A kernel from its value at one pair of points; its derivative is JAX's.

    ``kernel_from_function(lambda x, y, *, lengthscale: jnp.exp(-jnp.sum(((x - y) /
    lengthscale) ** 2)), {"lengthscale": 1.0}, stationary=True)`` can be fitted as it is. A run of
    it can be loaded in another process where the function is one of a module that can be imported.

    Args:
        function: k(x, y, parameter=..., ...) of points (D,), a number, in operations of JAX. A
            length may be a number or one per column.
        parameters: values by name; by default the defaults of its keyword-only arguments.
        units: of parameters, see :func:`~bke.models.parameter`; by default ``lengthscale`` is a
            length and the others have no unit.
        stationary: whether k(x, y) hangs on x - y alone: then r is known in one column for every
            measure, and equal rows are no matter where the function has a kink.
        log: whether the function is the logarithm of a positive kernel, which does not underflow.

    Raises:
        ValueError: for parameters without values or units that there are not.
    """
    if not callable(function):
        raise ValueError(f"a function of two points is needed, got {function!r}")
    values = _defaults(function) if parameters is None else dict(parameters)
    chosen = dict(units or {})
    if unknown := set(chosen) - set(values):
        raise ValueError(f"units names {sorted(unknown)}, but the parameters are {sorted(values)}")
    family = _family(function, tuple(values), tuple(sorted(chosen.items())), stationary, log)
    return family(**values)


def _defaults(function: OfPoints) -> dict[str, Any]:
    """Of the keyword-only arguments."""
    found = {}
    for name, argument in inspect.signature(function).parameters.items():
        if argument.kind is not argument.KEYWORD_ONLY:
            continue
        if argument.default is argument.empty:
            raise ValueError(f"give parameters={{{name!r}: value}}: it has no default")
        found[name] = argument.default
    return found


@functools.lru_cache(maxsize=KEPT)
def _family(
    function: OfPoints,
    names: tuple[str, ...],
    units: tuple[tuple[str, FieldUnit], ...],
    stationary: bool,
    log: bool,
) -> type[Kernel]:
    """The class of all kernels that differ in the values of their parameters only."""

    def of_pair(self: FunctionKernel, x: jax.Array, y: jax.Array) -> Any:
        try:
            return function(x, y, **self.parameters())
        except jax.errors.TracerArrayConversionError as error:
            raise TypeError(
                "NumPy's functions cannot be differentiated: write the kernel "
                f"{type(self).__name__} with those of jax.numpy"
            ) from error

    chosen: dict[str, FieldUnit] = {"lengthscale": "length", **dict(units)}
    fields = [(name, Any, parameter(unit=chosen.get(name, "none"))) for name in names]
    namespace = {
        "log_evaluate" if log else "evaluate": of_pair,
        "function": staticmethod(function),
        "settings": {"units": dict(units), "stationary": stationary, "log": log},
        "__doc__": function.__doc__,
    }
    made = dataclasses.make_dataclass(
        getattr(function, "__name__", "function").strip("<>"),
        fields,
        bases=(FunctionKernel, Stationary) if stationary else (FunctionKernel,),
        namespace=namespace,
        frozen=True,
    )
    return cast(type[Kernel], register_dataclass(made))
