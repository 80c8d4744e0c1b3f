"""The kernel of a distance, for which MMD is the energy distance and HSIC distance covariance."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..linalg.pytrees import register_dataclass
from .base import Covariance, check_positive, differences, squared_norm
from .parameters import parameter


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Distance(Covariance):
    """k(x, y) = (|x - c|^a + |y - c|^a - |x - y|^a) / 2, positive definite for 0 < a <= 2.

    The distance-induced kernel of Sejdinovic et al. (2013). The squared MMD (biased) is half the
    energy distance ``2 E|X-Y|^a - E|X-X'|^a - E|Y-Y'|^a``, and HSIC a quarter of the squared
    distance covariance, whatever the centre. Not bounded: distributions need a moment of order a.

    Args:
        exponent: a; characteristic below 2.
        centre: c, a number or one per column.
    """

    exponent: Any = parameter(1.0)
    centre: Any = parameter(0.0)

    def __post_init__(self) -> None:
        check_positive(self.exponent, "exponent")
        if isinstance(self.exponent, (int, float, np.number)) and self.exponent > 2:
            raise ValueError(f"exponent must be at most 2, got {self.exponent}")

    @property
    def characteristic(self) -> bool:  # type: ignore[override]
        """Whether the MMD of any two distributions that differ is positive."""
        return bool(self.exponent < 2)

    def matrix(self, X: jax.Array, Y: jax.Array) -> jax.Array:
        """The Gram matrix k(x_i, y_j)."""
        centre = jnp.broadcast_to(jnp.asarray(self.centre, dtype=X.dtype), (1, X.shape[1]))
        return 0.5 * (self._between(X, centre) + self._between(centre, Y) - self._between(X, Y))

    def _between(self, X: jax.Array, Y: jax.Array) -> jax.Array:
        squared = squared_norm(differences(X, Y))
        # The power has no derivative at zero.
        apart = squared > 0
        return jnp.where(apart, jnp.where(apart, squared, 1.0) ** (0.5 * self.exponent), 0.0)
