"""Gaussian components: everything that is a finite sum of w exp(-d'Ld/2) cos(2 pi f'd).

Sums and products of such kernels are again such sums. Components are stacked along a first axis Q
and summed one after the other, recomputed in the backward pass: compile time does not grow with
their number, and no (Q, n, m) array is kept. Precisions L are kept as diagonals where they are
diagonal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class Components(NamedTuple):
    """sum_q exp(log_weight_q - d' precision_q d / 2) cos(2 pi frequency_q' d)."""

    log_weight: jax.Array  # (Q,)
    precision: jax.Array  # (Q, D) or (Q, D, D)
    frequency: jax.Array | None  # (Q, D); None: no cosine


def apply(matrix: jax.Array, vectors: jax.Array) -> jax.Array:
    """Matrix, full or a diagonal, times vectors (D, ...)."""
    if matrix.ndim == 1:
        return matrix.reshape(-1, *(1,) * (vectors.ndim - 1)) * vectors
    return jnp.tensordot(matrix, vectors, 1)


def alike(first: jax.Array, second: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Stacked precisions, both as diagonals or both as full matrices."""
    if first.ndim == second.ndim:
        return first, second
    full = jax.vmap(jnp.diag)
    return (full(first) if first.ndim == 2 else first, full(second) if second.ndim == 2 else second)


def quadratic_form(matrix: jax.Array, vectors: jax.Array) -> jax.Array:
    """V' matrix v for vectors (D, ...)."""
    return (vectors * apply(matrix, vectors)).sum(0)


def phase_of(frequency: jax.Array, vectors: jax.Array) -> jax.Array:
    """2 pi frequency' v for vectors (D, ...)."""
    return 2.0 * math.pi * jnp.tensordot(frequency, vectors, 1)


def frequencies(components: Components) -> jax.Array:
    """(Q, D), zero where there is no cosine."""
    if components.frequency is None:
        return jnp.zeros(components.precision.shape[:2])
    return components.frequency


def add(a: Components, b: Components) -> Components:
    """The sum: one stack after the other."""
    precision = jnp.concatenate(alike(a.precision, b.precision))
    frequency = None
    if a.frequency is not None or b.frequency is not None:
        frequency = jnp.concatenate([frequencies(a), frequencies(b)])
    return Components(jnp.concatenate([a.log_weight, b.log_weight]), precision, frequency)


def multiply(a: Components, b: Components) -> Components:
    """The product: precisions add, and cos u cos v = (cos(u + v) + cos(u - v)) / 2."""
    i, j = (index.ravel() for index in np.indices((len(a.log_weight), len(b.log_weight))))
    log_weight = a.log_weight[i] + b.log_weight[j]
    first, second = alike(a.precision, b.precision)
    precision = first[i] + second[j]
    if a.frequency is None:
        return Components(log_weight, precision, None if b.frequency is None else b.frequency[j])
    if b.frequency is None:
        return Components(log_weight, precision, a.frequency[i])
    f, g = a.frequency[i], b.frequency[j]
    half = jnp.tile(log_weight - math.log(2.0), 2)
    precision = jnp.concatenate([precision, precision])
    return Components(half, precision, jnp.concatenate([f + g, f - g]))


def accumulate(part: Callable[[Any], Any], parts: Any, start: Any) -> Any:
    """The sum of part(parts_q) and ``start``, each term recomputed in the backward pass."""

    @jax.checkpoint
    def step(total: Any, one: Any) -> tuple[Any, None]:
        return jax.tree.map(jnp.add, total, part(one)), None

    return jax.lax.scan(step, start, parts)[0]
