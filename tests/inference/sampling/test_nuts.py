"""The sampler by itself, on densities whose faults are known."""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bke.inference.sampling.no_u_turn import NutsProgram

WARMUP, DRAWS, CHAINS = 60, 200, 2


@pytest.fixture(scope="module")
def sampled():
    """A standard normal density that is no number beyond 1.5."""

    def log_density(z, X):
        return jnp.where(z["a"] > X, jnp.nan, -0.5 * z["a"] ** 2)

    with jax.enable_x64(True):
        target = types.SimpleNamespace(log_density=log_density, shapes={"a": ()})
        sampler = NutsProgram(target, WARMUP, 0.8, 10, dense_mass=False)
        initial = {"a": jnp.array([-1.0, 0.5])}
        found = sampler.run(
            jnp.float64(1.5), initial=initial, num_samples=DRAWS, key=jax.random.key(0)
        )
    return sampler, found


def test_evaluations_without_a_value_are_counted_where_they_are(sampled):
    _, chains = sampled
    counts = chains.stats["nonfinite_evaluations"]
    assert counts.shape == (CHAINS, WARMUP + DRAWS)
    # Such a point ends its trajectory, and nothing else does in a normal density.
    later = np.s_[:, WARMUP:]
    np.testing.assert_array_equal(counts[later] > 0, chains.stats["diverging"][later])
    assert counts.max() == 1
    assert 0 < counts[later].sum() < CHAINS * DRAWS
    assert chains.z["a"].max() <= 1.5


def test_its_programs_can_be_kept_on_disk(sampled):
    """JAX's compilation cache takes no program that calls back."""
    sampler, _ = sampled
    with jax.enable_x64(True):
        start = jax.random.key(0), {"a": jnp.zeros(())}
        lowered = sampler._start.lower(*start)
        state = jax.eval_shape(sampler._start, *start)
        further = sampler._advance.lower(state, jnp.float64(1.5), 1)
    for program in (lowered, further):
        assert "callback" not in program.as_text()
