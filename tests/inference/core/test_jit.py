"""Compiled by options that this JAX knows."""

import jax
import jax.numpy as jnp
from bke.inference.core import compilation as compiling


def test_compiled_programs_do_not_change():
    double = compiling.jit(lambda x: 2.0 * jnp.sin(x) + 1.0)
    assert double(0.5) == jax.jit(lambda x: 2.0 * jnp.sin(x) + 1.0)(0.5)


def test_unknown_options_are_not_passed(monkeypatch):
    monkeypatch.setattr(compiling, "OLDER_EMITTER", {"xla_cpu_no_such_option": True})
    compiling._options.cache_clear()
    try:
        assert compiling._options() is None
        assert compiling.jit(lambda x: x + 1)(1) == 2
    finally:
        compiling._options.cache_clear()
