"""Double precision of functions, and numbers that are known outside of a JAX transformation.

Every quantity here is a difference of large numbers somewhere, so single precision is never
acceptable. Eager calls enter 64-bit for their own duration and leave the caller's setting as they
found it; inside a caller's trace the setting can no longer be changed, so it is checked instead.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

P = ParamSpec("P")
T = TypeVar("T")


def tracing() -> bool:
    """Return whether the caller is inside a JAX transformation (jit, grad, vmap, an MCMC step)."""
    return isinstance(jnp.zeros(()), jax.core.Tracer)


def require_double(name: str) -> None:
    """Raise ``RuntimeError`` unless JAX is in 64-bit mode."""
    if not jax.config.jax_enable_x64:  # type: ignore[attr-defined]
        raise RuntimeError(
            f"{name} was called inside a JAX transformation with 64-bit numbers switched off. "
            'Call jax.config.update("jax_enable_x64", True) (or numpyro.enable_x64()) first.'
        )


def concrete(value: Any) -> Any:
    """Return a JAX array with known entries as a NumPy array, anything else unchanged."""
    if isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer):
        return np.asarray(value)
    return value


def double_precision(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function to run in double precision.

    Called eagerly it returns NumPy float64 arrays; called inside a transformation it returns traced
    arrays and raises ``RuntimeError`` when ``jax_enable_x64`` is off.
    """

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        leaves = jax.tree.leaves((args, kwargs))
        if tracing() or any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            require_double(function.__name__)
            return function(*args, **kwargs)
        with jax.enable_x64(True):
            return jax.tree.map(concrete, function(*args, **kwargs))

    return wrapper


def check_positive(parameter: Any, name: str) -> None:
    """Raise ``ValueError`` for a concrete parameter that is not positive and finite."""
    if isinstance(parameter, str):
        raise ValueError(f"{name} must be a positive number, got {parameter!r}")
    values = concrete_values(parameter)
    if not np.all(np.isfinite(values) & (values > 0)):
        raise ValueError(f"{name} must be positive and finite, got {parameter}")


def concrete_values(parameter: Any) -> np.ndarray:
    """Return the numbers of a parameter, none if it is ``None`` or any of them is traced."""
    entries = jax.tree.leaves(parameter)
    if all(isinstance(entry, (int, float, np.ndarray, np.number)) for entry in entries):
        return np.asarray(parameter if entries else [], dtype=float)
    return np.empty(0)
