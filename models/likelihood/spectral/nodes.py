"""Points in a box, replaced by weights at the nodes of a tensor grid.

A sum over n points of a smooth function is one over the nodes of a tensor grid of Chebyshev's
points: with the weight ``sum_i L_a(x_i) L_b(y_i) ...`` at node (a, b, ...), for the cardinal
functions L of interpolation, the two agree for every polynomial below the nodes' number in each
column. The weights do not depend on the lengthscale, so only their computation sees the points.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

#: Nodes of an interval, for functions that vary as the product of two kernels: its Chebyshev
#: coefficient of degree d is exp(-(d lengthscale / extent)^2), here below 1e-15, and some more,
#: as an interval of few lengthscales needs.
NODES_PER_LENGTHSCALE, LEAST_NODES = 6.0, 24
#: Their number is a multiple of this, so that similar data share compiled programs.
ROUND = 8
#: Numbers in one block of points by nodes.
BLOCK_ENTRIES = 2**22


class Axis(NamedTuple):
    """Chebyshev nodes of one column, its ends among them."""

    nodes: Any  # (N,), ascending


def axis_over(low: float, high: float, lengthscale: float) -> Axis:
    """Nodes from ``low`` to ``high`` for kernels of this ``lengthscale`` or longer."""
    extent = max(high - low, 1e-3 * lengthscale)
    count = NODES_PER_LENGTHSCALE * extent / lengthscale + LEAST_NODES
    angle = np.linspace(0.0, np.pi, ROUND * math.ceil(count / ROUND))
    # From the first end on: points are often close together at one.
    return Axis(low + extent * np.sin(0.5 * angle) ** 2)


def cardinal(axis: Axis, x: np.ndarray) -> np.ndarray:
    """The cardinal functions at ``x`` (n,): (n, N), by the barycentric formula.

    Berrut and Trefethen, SIAM Review 46 (2004), (4.2) and (5.4): they add up to 1 to rounding.
    """
    signs = np.ones(len(axis.nodes))
    signs[1::2] = -1.0
    signs[[0, -1]] *= 0.5
    apart = x[:, None] - axis.nodes
    exact = apart == 0.0
    terms = signs / np.where(exact, 1.0, apart)
    hits = exact.any(axis=1)
    terms[hits] = exact[hits]
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
