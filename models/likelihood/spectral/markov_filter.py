"""log N(y; 0, R + sigma^2 I) where r is a Matern kernel of half-integer order, in one column.

A Gaussian process with such an r is the first entry z_0 of a Markov process: with the distance t in
units of the rate, ``dz_i/dt = z_(i+1) - z_i`` and white noise after the last of its m = order + 1/2
states. So the density is a product over the sorted points, each given those before it: the Kalman
filter (Hartikainen and Saerkkae, MLSP 2010).

Carried along is not the covariance P of the state given the past but what the past explains of it,
S = P_inf - P. Over a gap h it becomes A S A', A = exp(h dz/dt), so that the process noise
P_inf - A P_inf A', which at small gaps cancels to nothing, is never formed. This is the Cholesky
factorisation of a semiseparable matrix (Foreman-Mackey et al., AJ 154:220, 2017), and as for that
of the n x n matrix its rounding errors are n eps r(0) beside sigma^2.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

#: In units of 1 / rate: the states at both ends of such a gap are independent to the last digit.
LONGEST_GAP = 800.0


class State(NamedTuple):
    """The state of the process at a point, given the data up to it."""

    explained: jax.Array  # (m, m), S = P_inf - P
    mean: jax.Array  # (m,)


def stationary(states: int) -> np.ndarray:
    """P_inf (m, m), for r(0) = 1: integrals of t^a exp(-t) t^b exp(-t), a and b < m."""
    powers = range(states - 1, -1, -1)
    integrals = [[math.comb(a + b, a) / 2.0 ** (a + b) for a in powers] for b in powers]
    return np.array(integrals) / integrals[0][0]


def _transition(gap: jax.Array, states: int) -> jax.Array:
    """A (m, m): gap^k / k! exp(-gap) on the k-th diagonal above the main one."""
    diagonal = np.arange(states) - np.arange(states)[:, None]
    inverse_factorial = [1.0 / math.factorial(k) for k in range(states)]
    scale = np.where(diagonal < 0, 0.0, np.take(inverse_factorial, diagonal, mode="clip"))
    return jnp.exp(-gap) * scale * gap ** np.maximum(diagonal, 0)


@jax.custom_jvp
def predicted(state: State, gap: jax.Array) -> State:
    """The state a ``gap`` further on: A S A' and A m."""
    # Sums and not products of matrices: so small ones take longer to call than to compute.
    A = _transition(gap, len(state.mean))
    half = jnp.sum(A[:, :, None] * state.explained, axis=1)
    explained = jnp.sum(half[:, None, :] * A, axis=2)
    return State(explained, jnp.sum(A * state.mean, axis=1))


@predicted.defjvp
def _predicted_jvp(
    primals: tuple[State, jax.Array], tangents: tuple[State, jax.Array]
) -> tuple[State, State]:
    """The derivative in closed form: dA/dh = F A with F z = dz/dt."""
    (state, gap), (state_dot, gap_dot) = primals, tangents
    after, moved = predicted(state, gap), predicted(state_dot, gap)

    def along(z: jax.Array) -> jax.Array:
        return jnp.concatenate([z[1:] - z[:-1], -z[-1:]])

    half = along(after.explained)
    return after, State(
        moved.explained + gap_dot * (half + half.T), moved.mean + gap_dot * along(after.mean)
    )


def log_density(y: jax.Array, gaps: jax.Array, noise_variance: jax.Array, states: int) -> jax.Array:
    """Log N(y; 0, R + noise_variance I), a scalar, where r(0) = 1.

    Args:
        y: (n,), at the points in ascending order.
        gaps: (n,), to the point before, in units of 1 / rate; the first is of no account.
        noise_variance: sigma^2.
        states: m, the order of r and a half.
    """
    P = jnp.asarray(stationary(states), y.dtype)

    def step(
        carried: tuple[State, jax.Array, jax.Array], at: tuple[jax.Array, jax.Array]
    ) -> tuple[tuple[State, jax.Array, jax.Array], None]:
        state, quadratic, log_determinant = carried
        gap, value = at
        state = predicted(state, gap)
        covariance = P[0] - state.explained[0]  # of the state with r's own process, given the past
        variance = noise_variance + covariance[0]
        gain = covariance / variance
        surprise = value - state.mean[0]
        explained = state.explained + gain[:, None] * covariance
        given = State(explained, state.mean + gain * surprise)
        quadratic = quadratic + surprise**2 / variance
        return (given, quadratic, log_determinant + jnp.log(variance)), None

    nothing = jnp.zeros((), y.dtype)
    start = State(jnp.zeros_like(P), jnp.zeros(states, y.dtype)), nothing, nothing
    each = jnp.minimum(gaps, LONGEST_GAP), y
    (_, quadratic, log_determinant), _ = jax.lax.scan(step, start, each)
    return -0.5 * (quadratic + log_determinant + len(y) * math.log(2.0 * math.pi))
