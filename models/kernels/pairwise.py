"""Kernels given by their value at one pair of points; the derivative is JAX's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp

from .covariance import ValueAndGrad, check_columns

#: Of two points (D,), a number.
OfPair: TypeAlias = Callable[[jax.Array, jax.Array], Any]
#: Stands for the difference of equal points: the square root has no derivative at zero, and
#: squares of this do not underflow.
APART = 1e-30


def as_number(value: Any) -> jax.Array:
    """What a kernel says of one pair, as a scalar.

    Raises:
        ValueError: where it is more than one number.
    """
    number = jnp.asarray(value, dtype=jnp.float64)
    if number.size != 1:
        raise ValueError(
            f"a kernel's value at one pair of points must be a number, got shape {number.shape}: a "
            "length may be one per column, so divide x - y by it before the sum over columns (or "
            "fit with scale='pooled', which keeps one number)"
        )
    return number.reshape(())


def pairwise_terms(of_pair: OfPair, X: jax.Array, Y: jax.Array, *, log: bool) -> ValueAndGrad:
    """Value and derivative in the first argument at all pairs.

    Args:
        of_pair: k(x, y), or with ``log`` its logarithm.
        X: (n, D).
        Y: (m, D).
        log: see above.
    """
    check_columns(X, Y, "Y")
    pair = jax.value_and_grad(lambda x, y: as_number(of_pair(x, y)))
    value, slope = jax.vmap(jax.vmap(pair, (None, 0)), (0, None))(X, Y)
    gradient = jnp.moveaxis(slope, -1, 0)
    if log:
        return ValueAndGrad(value, jnp.ones_like(value), gradient)
    return ValueAndGrad(jnp.zeros_like(value), value, gradient)


def stationary_terms(of_pair: OfPair, delta: jax.Array, *, log: bool) -> ValueAndGrad:
    """The terms of a kernel of x - y at differences (D, n, m); equal points have derivative 0."""
    dimension, *shape = delta.shape
    apart = jnp.any(delta != 0.0, axis=0)
    moved = jnp.where(apart, delta, APART).reshape(dimension, -1).T
    terms = pairwise_terms(of_pair, moved, jnp.zeros((1, dimension)), log=log)
    gradient = jnp.where(apart, terms.gradient.reshape(delta.shape), 0.0)
    return ValueAndGrad(terms.log_scale.reshape(shape), terms.value.reshape(shape), gradient)
