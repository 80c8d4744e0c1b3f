"""Compiled by options that this JAX knows, and only when there is something to compile."""

import subprocess
import sys

import jax
import jax.numpy as jnp
from bke.inference import compiling


def test_what_is_compiled_is_the_same():
    double = compiling.jit(lambda x: 2.0 * jnp.sin(x) + 1.0)
    assert double(0.5) == jax.jit(lambda x: 2.0 * jnp.sin(x) + 1.0)(0.5)


def test_options_that_are_not_known_are_not_given(monkeypatch):
    monkeypatch.setattr(compiling, "OLDER_EMITTER", {"xla_cpu_no_such_option": True})
    compiling._options.cache_clear()
    try:
        assert compiling._options() is None
        assert compiling.jit(lambda x: x + 1)(1) == 2
    finally:
        compiling._options.cache_clear()


def test_importing_does_not_start_jax():
    """Processes could not join any more. (BlackJAX does, and is imported where it is needed.)"""
    script = (
        "import bke.inference, bke.inference.fitting, bke.inference.cli.app\n"
        "from jax._src import xla_bridge\n"
        "print(xla_bridge.backends_are_initialized())"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert said.stdout.strip() == "False", said.stderr
