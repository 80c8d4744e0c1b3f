"""t^v K_v(t) for integer and half-integer order, smooth at t = 0, with its derivatives."""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

# Trapezoid rule for t > 2: the nearest singularity in w is at sqrt(2 t) >= 2, so that the error is
# exp(-2 pi 2 / STEP), below 1e-15, and exp(-6^2) is negligible.
STEP = 0.35
NODES = STEP * np.arange(18)
TERMS = 14  # of the power series for t <= 2


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def power_bessel(twice_order: int, q: jax.Array) -> jax.Array:
    """t^v K_v(t) with v = ``twice_order`` / 2 as a function of q = t^2 >= 0.

    Half-integer orders are elementary. Integer orders are numerical, to 5e-14 relative (for
    0 <= v <= 10): upward recurrence from v = 0 and 1, with the power series for t <= 2 and the
    trapezoid rule in ``K_v(t) = int_0^inf exp(-t cosh s) cosh(v s) ds`` beyond, after the
    substitution w = sqrt(2 t) sinh(s / 2). Derivatives follow ``d/dq t^v K_v = -t^(v-1) K_(v-1)/2``
    and never pass through the rule. At q = 0 a singular value (v <= 0) is cut off at a finite one.
    """
    value: jax.Array = _evaluate(twice_order, q)
    return value


@power_bessel.defjvp
def _derivative(
    twice_order: int, primals: tuple[jax.Array], tangents: tuple[jax.Array]
) -> tuple[jax.Array, Any]:
    (q,), (q_dot,) = primals, tangents
    value = power_bessel(twice_order, q)
    return value, -0.5 * power_bessel(twice_order - 2, q) * q_dot


@functools.partial(jax.jit, static_argnums=0)
def _evaluate(twice_order: int, q: jax.Array) -> jax.Array:
    # K_v(t) underflows long before t = 1e4; the upper limit keeps 0 * inf out of the recurrence.
    q = jnp.clip(q, 1e-200, 1e8)
    if twice_order < 0:  # K_-v = K_v
        reflected: jax.Array = q ** (0.5 * twice_order) * _evaluate(-twice_order, q)
        return reflected
    t = jnp.sqrt(q)
    if twice_order % 2:
        low = math.sqrt(0.5 * math.pi) * jnp.exp(-t)
        high, order = low * (1.0 + t), 0.5
    else:
        (low, high), order = _orders_zero_and_one(t, q), 0.0
    # t^(v+1) K_(v+1) = t^2 (t^(v-1) K_(v-1)) + 2 v (t^v K_v): every term is positive.
    while 2.0 * order < twice_order:
        order += 1.0
        low, high = high, q * low + 2.0 * order * high
    return low


def _orders_zero_and_one(t: jax.Array, q: jax.Array) -> tuple[jax.Array, jax.Array]:
    """K_0(t) and t K_1(t)."""
    near = jnp.minimum(q, 4.0) / 4.0
    log = jnp.log(jnp.minimum(t, 2.0) / 2.0)
    zero, one = jnp.zeros_like(q), jnp.zeros_like(q)
    for k in reversed(range(TERMS)):  # Horner
        harmonic = sum(1.0 / i for i in range(1, k + 1)) - float(np.euler_gamma)
        scale = 1.0 / (math.factorial(k) * math.factorial(k + 1))
        zero = zero * near + (harmonic - log) * (1.0 / math.factorial(k) ** 2)
        one = one * near + (log - harmonic - 0.5 / (k + 1)) * scale
    one = 1.0 + 2.0 * near * one

    far = jnp.maximum(t, 2.0)
    sum_zero, sum_one = jnp.zeros_like(q), jnp.zeros_like(q)
    for i, node in enumerate(NODES):
        weight = STEP * math.exp(-(node**2)) * (0.5 if i == 0 else 1.0)
        term = weight * jax.lax.rsqrt(1.0 + 0.5 * node**2 / far)
        sum_zero, sum_one = sum_zero + term, sum_one + term * (1.0 + node**2 / far)
    outside = jnp.exp(-far) * jnp.sqrt(2.0 / far)
    return (
        jnp.where(t <= 2.0, zero, outside * sum_zero),
        jnp.where(t <= 2.0, one, outside * far * sum_one),
    )
