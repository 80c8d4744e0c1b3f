"""Kernels made from a function of two points by one call."""

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
from .base import Kernel, Stationary
from .covariance import Covariance, FieldUnit, parameter

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


#: Names with dots between them; none is one of Python's own, such as ``__globals__``.
NAMES = r"(?!__)[^\W\d]\w*(\.(?!__)[^\W\d]\w*)*"
PATH = re.compile(f"{NAMES}:{NAMES}")


def object_path(thing: Any) -> str | None:
    """``module:name`` of a class or function; None where that does not import this very object.

    So it is for what was defined in a function, as a lambda, in a notebook or in the script that
    runs, and for a class whose module has been loaded again since.
    """
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)
    if module in (None, "__main__") or name is None:
        return None
    found: Any = sys.modules.get(module)
    for step in name.split("."):
        found = getattr(found, step, None)
    return f"{module}:{name}" if found is thing else None


def import_object(path: str) -> Any:
    """What ``module:name`` is.

    Raises:
        ValueError: where it cannot be imported, naming the module.
    """
    if not PATH.fullmatch(path):
        raise ValueError(f"{path!r} is not of the form module:name")
    module, _, name = path.partition(":")
    try:
        found = importlib.import_module(module)
        for step in name.split("."):
            found = getattr(found, step)
    except ImportError as error:
        raise ValueError(
            f"the module {module!r} cannot be imported ({error}): it must be installed, or lie in "
            "the current folder or on PYTHONPATH"
        ) from None
    except AttributeError:
        raise ValueError(f"the module {module!r} has no {name!r}") from None
    except Exception as error:  # of the module's own code
        raise ValueError(
            f"the module {module!r} cannot be imported ({type(error).__name__}: {error})"
        ) from error
    return found


def kernel_from_path(path: str) -> Kernel | type[Kernel]:
    """The kernel at ``module:name``: a kernel, a class, or a function of two points.

    A function becomes a kernel by :func:`~bke.models.kernel_from_function`, its parameters being
    its keyword-only arguments with their defaults.

    Raises:
        ValueError: where it cannot be imported, naming the module, or is none of these.
    """
    found = import_object(path)
    if isinstance(found, Kernel) or (inspect.isclass(found) and issubclass(found, Kernel)):
        kernel: Kernel | type[Kernel] = found
        return kernel
    if isinstance(found, Covariance) or inspect.isclass(found) or not callable(found):
        raise ValueError(
            f"{path} is no kernel, no class of kernels and no function of two points, but {found!r}"
        )
    return kernel_from_function(found)
