"""A covariance times a number, as of the Lebesgue measure's smoothed kernel."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax

from ..linalg.pytrees import register_dataclass
from .base import Covariance


@register_dataclass
@dataclasses.dataclass(frozen=True)
class ScaledCovariance(Covariance):
    """A constant times another covariance."""

    variance: Any
    covariance: Covariance

    @property
    def numerical(self) -> bool:  # type: ignore[override]
        """Whether the other covariance is."""
        return self.covariance.numerical

    def matrix(self, X: jax.Array, Y: jax.Array) -> jax.Array:
        """The matrix r(x_i, y_j)."""
        matrix: jax.Array = self.variance * self.covariance.matrix(X, Y)
        return matrix
