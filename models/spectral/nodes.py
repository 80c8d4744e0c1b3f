"""Points in a box, replaced by weights at the nodes of a tensor grid.

A sum over n points of a smooth function is one over the nodes of a tensor grid of Gauss and
Legendre: with the weight ``sum_i L_a(x_i) L_b(y_i) ...`` at node (a, b, ...), for the cardinal
functions L of interpolation, the two agree for every polynomial below the nodes' number in each
column. The weights do not depend on the lengthscale, so only their computation sees the points.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import roots_legendre

#: Nodes of an interval, for functions that vary as the product of two kernels: its Chebyshev
#: coefficient of degree d is exp(-(d lengthscale / extent)^2), here below 1e-15, and some more,
#: as an interval of few lengthscales needs.
NODES_PER_LENGTHSCALE, LEAST_NODES = 6.0, 24
#: Their number is a multiple of this, so that similar data share compiled programs.
ROUND = 8
#: Numbers in one block of points by nodes.
BLOCK_ENTRIES = 2**22


class Axis(NamedTuple):
    """Nodes of one column, and the weights of Gauss and Legendre's rule."""

    nodes: Any  # (N,), ascending
    weights: Any  # (N,)


def axis_over(low: float, high: float, lengthscale: float) -> Axis:
    """Of the interval from ``low`` to ``high`` for kernels of this ``lengthscale`` or longer."""
    extent = max(high - low, 1e-3 * lengthscale)
    count = NODES_PER_LENGTHSCALE * extent / lengthscale + LEAST_NODES
    at, weights = _gauss_legendre(ROUND * math.ceil(count / ROUND))
    half = 0.5 * extent
    return Axis(0.5 * (low + high) + half * at, half * weights)


@lru_cache(maxsize=64)
def _gauss_legendre(count: int) -> tuple[np.ndarray, np.ndarray]:
    return roots_legendre(count)


def cardinal(axis: Axis, x: np.ndarray) -> np.ndarray:
    """The cardinal functions at ``x`` (n,): (n, N), by the barycentric formula."""
    middle, half = 0.5 * (axis.nodes[0] + axis.nodes[-1]), 0.5 * (axis.nodes[-1] - axis.nodes[0])
    at, scaled = (axis.nodes - middle) / half, (x - middle) / half
    extreme = _gauss_legendre(len(at))[0][-1]
    barycentric = np.sqrt((1.0 - (at * extreme) ** 2) * axis.weights)
    barycentric[1::2] *= -1.0
    apart = scaled[:, None] - at
    exact = apart == 0.0
    terms = barycentric / np.where(exact, 1.0, apart)
    terms[exact.any(axis=1)] = 0.0
    terms[exact] = 1.0
    return terms / terms.sum(axis=1, keepdims=True)


def weights_at_nodes(axes: tuple[Axis, ...], x: np.ndarray) -> np.ndarray:
    """(N_1, ..., N_D): of the points (n, D), a block of them at a time."""
    shape = tuple(len(axis.nodes) for axis in axes)
    total = np.zeros((shape[0], math.prod(shape[1:])))
    block = max(16, BLOCK_ENTRIES // total.shape[1])
    for start in range(0, len(x), block):
        first, *rest = (
            cardinal(axis, column)
            for axis, column in zip(axes, x[start : start + block].T, strict=True)
        )
        others = rest[0]
        for more in rest[1:]:
            others = (others[:, :, None] * more[:, None, :]).reshape(len(others), -1)
        total += first.T @ others
    return total.reshape(shape)


def along_axes(matrices: list[jax.Array] | tuple[jax.Array, ...], tensor: jax.Array) -> jax.Array:
    """The tensor (N_1, ..., N_D, ...) with the matrix (k_d, N_d) applied along each axis d."""
    for axis, matrix in enumerate(matrices):
        tensor = jnp.moveaxis(jnp.tensordot(matrix, tensor, (1, axis)), 0, axis)
    return tensor


def kernel_on(axis: Axis, lengthscale: jax.Array) -> jax.Array:
    """(N, N): the squared exponential of one column at the nodes."""
    apart = jnp.asarray(axis.nodes)[:, None] - jnp.asarray(axis.nodes)
    return jnp.exp(-0.5 * (apart / lengthscale) ** 2)
