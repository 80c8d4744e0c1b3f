"""How a posterior is compiled, which takes as long as it is used for."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

#: XLA's newer emitter of fused loops doubles the time that a likelihood takes to compile and makes
#: it no faster. Releases of JAX that have no other one do not know the option.
OLDER_EMITTER = {"xla_cpu_use_fusion_emitters": False}


def jit(function: Callable[..., Any]) -> Any:
    """Compile what is not called inside another compiled function.

    Not for modules: it starts JAX, before which processes must have joined.
    """
    return jax.jit(function, compiler_options=_options())


@functools.cache
def _options() -> dict[str, Any] | None:
    if jax.default_backend() != "cpu":
        return None
    try:
        jax.jit(lambda x: x + 1, compiler_options=OLDER_EMITTER)(jnp.zeros(()))
    except jax.errors.JaxRuntimeError:
        return None
    return OLDER_EMITTER
