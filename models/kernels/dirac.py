"""The kernel of labels."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from ..linalg.pytrees import register_dataclass
from .base import Covariance


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Dirac(Covariance):
    """k(x, y) = 1 where the rows x and y are equal, 0 elsewhere (KER-9): for numbered categories.

    Embeddings are then tables of probabilities, and rules between them those of finite spaces.
    """

    characteristic = True

    def matrix(self, X: jax.Array, Y: jax.Array) -> jax.Array:
        """The Gram matrix 1[x_i = y_j]."""
        return jnp.all(X[:, None, :] == Y[None, :, :], axis=2).astype(jnp.float64)
