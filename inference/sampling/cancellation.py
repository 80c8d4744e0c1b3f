"""Rows whose density factor is exactly zero because equal neighbours on both sides cancel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from bke.models.likelihood.jacobian import embedding_and_log_jacobian
from bke.models.linalg.rows import PaddedRows, map_rows

from ..core.jit import jit
from .target import Target

#: Below this, |sum of terms| / sum of |terms| is rounding error: the derivative is exactly zero.
CANCELLED = 1e-12


def cancelled_rows(target: Target) -> Callable[[Any, PaddedRows], jax.Array]:
    """Compile the search for rows (N,) with a volume factor of exactly zero, BKE (12).

    What is returned takes unconstrained draws of the hyperparameters, along the leading axis, and
    the rows; a row counts where the factor vanishes at any of the draws.
    """

    @jit
    def cancelled(z: dict[str, jax.Array], X: PaddedRows) -> jax.Array:
        def at(one: dict[str, jax.Array]) -> jax.Array:
            kernel = target.kernel_at(target.constrain(one))
            remain = map_rows(
                lambda x: embedding_and_log_jacobian(x, X, kernel)[2], X.points, len(X)
            )
            return remain <= CANCELLED

        return jnp.any(jax.lax.map(at, z), axis=0)

    return cancelled
