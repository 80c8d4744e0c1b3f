"""Kernels of moments: two distributions with the same first moments are one to them."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np

from ..linalg.pytrees import register_dataclass
from .base import Covariance
from .parameters import parameter


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Polynomial(Covariance):
    """k(x, y) = (<x, y> + constant)^degree; not characteristic.

    With constant > 0 the MMD is zero exactly where all moments up to ``degree`` agree.

    Args:
        degree: whole number of at least 1; 1 with constant 0 is the linear kernel.
        constant: at least 0.
    """

    degree: int = parameter(2, static=True)
    constant: Any = parameter(1.0)

    characteristic = False

    def __post_init__(self) -> None:
        if isinstance(self.degree, bool) or self.degree != int(self.degree) or self.degree < 1:
            raise ValueError(f"degree must be a whole number of at least 1, got {self.degree!r}")
        numeric = isinstance(self.constant, (int, float, np.number))
        if isinstance(self.constant, str) or (numeric and not 0 <= self.constant < np.inf):
            raise ValueError(f"constant must be at least 0, got {self.constant!r}")

    def matrix(self, X: jax.Array, Y: jax.Array) -> jax.Array:
        """The Gram matrix k(x_i, y_j)."""
        return (X @ Y.T + self.constant) ** self.degree
