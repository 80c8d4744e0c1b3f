"""log |I + G| from a random part of the rows and columns of a small G.

    log |I + G| = tr G - tr G^2 / 2 + tr G^3 / 3 - ...

Traces of powers are sums over single rows, pairs and triples, which those of a random subset
estimate without bias. The series stops being of use where an eigenvalue of G nears one; the sum is
then closed by the spectrum that has the same second and third moments with all of its eigenvalues
alike, which never falls faster than a logarithm. The difference that this closure makes stands for
what it leaves out, generously so where it is large.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

#: An eigenvalue below which the closure is not taken, and one below which it is its own series.
LOWEST, SMALL = -0.5, 1e-3


class Determinant(NamedTuple):
    """An estimate of log |I + G| with what its error is told from."""

    value: jax.Array  # ()
    #: (s,): its variance over subsets is that of the sum of n / s of them.
    influence: jax.Array
    #: (), what the closure differs by from the series to second order.
    closure: jax.Array


def log_determinant(G: jax.Array, n: int) -> Determinant:
    """Log |I + G| from the (s, s) part of an (n, n) matrix G at rows chosen at random."""
    s = len(G)
    diagonal = jnp.diagonal(G)
    apart = G - jnp.diag(diagonal)
    # What a sum over rows, over a row's partners, and over pairs of these is to be scaled by.
    single, partner = n / s, (n - 1.0) / max(s - 1.0, 1.0)
    pair = partner * (n - 2.0) / max(s - 2.0, 1.0)
    twos = partner * jnp.sum(apart * apart.T, axis=1)
    threes = pair * jnp.sum((apart @ apart) * apart.T, axis=1)
    mixed = 3.0 * diagonal * twos
    second = single * jnp.sum(twos + diagonal**2)
    third = single * jnp.sum(threes + mixed + diagonal**3)
    rest, (of_second, of_third) = jax.value_and_grad(_closed, argnums=(0, 1))(second, third)
    influence = (
        diagonal
        + of_second * (2.0 * twos + diagonal**2)
        + of_third * (3.0 * threes + 2.0 * mixed + diagonal**3)
    )
    value = single * jnp.sum(diagonal) + rest
    return Determinant(value, influence, rest + 0.5 * second)


def _closed(second: jax.Array, third: jax.Array) -> jax.Array:
    """Sum of log(1 + g) - g over equal eigenvalues g with these sums of squares and cubes."""
    positive = second > 0.0
    g = jnp.maximum(jnp.where(positive, third / jnp.where(positive, second, 1.0), 0.0), LOWEST)
    small = jnp.abs(g) < SMALL
    one = jnp.where(small, 1.0, g)
    ratio = jnp.where(
        small, -0.5 + g * (1.0 / 3.0 + g * (-0.25 + 0.2 * g)), (jnp.log1p(one) - one) / one**2
    )
    return second * ratio
