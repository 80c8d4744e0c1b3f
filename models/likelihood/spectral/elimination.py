"""Elimination of a symmetric block tridiagonal system, a block at a time, with its derivative."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular


class Eliminated(NamedTuple):
    """What is left of the next block of M x = z, and what the one before gave."""

    pivot: jax.Array  # (b, b), the Schur complement
    remainder: jax.Array  # (b,), of z
    log_determinant: jax.Array  # (), of the pivot before
    explained: jax.Array  # (), its part of z' M^-1 z


@jax.custom_jvp
def eliminate(
    pivot: jax.Array, remainder: jax.Array, edge: jax.Array, block: jax.Array, z: jax.Array
) -> Eliminated:
    """Eliminate the block with ``pivot`` and ``remainder`` from the next one.

    Args:
        pivot: (b, b), positive definite, of the block before.
        remainder: (b,), of the block before.
        edge: (b, b), M between this block (rows) and the one before (columns).
        block: (b, b), M within this block.
        z: (b,), this block of the right-hand side.
    """
    return _eliminate(pivot, remainder, edge, block, z)[0]


def _eliminate(
    pivot: jax.Array, remainder: jax.Array, edge: jax.Array, block: jax.Array, z: jax.Array
) -> tuple[Eliminated, jax.Array, jax.Array, jax.Array]:
    """One step, with L^-1 of the pivot L L', L^-1 edge' and L^-1 remainder."""
    factor = jnp.linalg.cholesky(pivot, symmetrize_input=False)
    # One inverse and products: several substitutions take longer than these at such sizes.
    inverse = solve_triangular(factor, jnp.eye(len(pivot), dtype=pivot.dtype), lower=True)
    along, scaled = inverse @ edge.T, inverse @ remainder
    log_determinant = 2.0 * jnp.sum(jnp.log(jnp.diagonal(factor)))
    left = Eliminated(block - along.T @ along, z - scaled @ along, log_determinant, scaled @ scaled)
    return left, inverse, along, scaled


@eliminate.defjvp
def _eliminate_jvp(primals: Any, tangents: Any) -> tuple[Eliminated, Eliminated]:
    left, inverse, along, scaled = _eliminate(*primals)
    pivot, remainder, edge, block, z = tangents
    W = along.T @ inverse  # edge pivot^-1
    solution = scaled @ inverse  # pivot^-1 remainder
    half = (edge - 0.5 * W @ pivot) @ W.T
    moved = pivot @ solution
    return left, Eliminated(
        block - half - half.T,
        z - edge @ solution - W @ (remainder - moved),
        jnp.sum((inverse @ pivot) * inverse),
        (2.0 * remainder - moved) @ solution,
    )
