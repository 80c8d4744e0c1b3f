"""Kernels for embeddings and tests only, without derivatives or a smoothed kernel r."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..linalg.precision import check_positive, concrete
from ..linalg.pytrees import register_dataclass
from .covariance import Covariance, differences, parameter, squared_norm


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Dirac(Covariance):
    """k(x, y) = 1 where the rows x and y are equal, 0 elsewhere: for numbered categories.

    Embeddings are then tables of probabilities, and rules between them those of finite spaces.
    """

    characteristic = True

    def matrix(self, X: jax.Array, Y: jax.Array) -> jax.Array:
        """Return the Gram matrix 1[x_i = y_j]."""
        return jnp.all(X[:, None, :] == Y[None, :, :], axis=2).astype(jnp.float64)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Distance(Covariance):
    """k(x, y) = (|x - c|^a + |y - c|^a - |x - y|^a) / 2, positive definite for 0 < a <= 2.

    The distance-induced kernel of Sejdinovic et al. (2013). The squared MMD (biased) is half the
    energy distance ``2 E|X-Y|^a - E|X-X'|^a - E|Y-Y'|^a``, and HSIC a quarter of the squared
    distance covariance, whatever the center. Not bounded: distributions need a moment of order a.

    Args:
        exponent: a; characteristic below 2.
        center: c, a number or one per column.
    """

    exponent: Any = parameter(1.0)
    center: Any = parameter(0.0)

    def __post_init__(self) -> None:
        check_positive(self.exponent, "exponent")
        if isinstance(self.exponent, (int, float, np.number)) and self.exponent > 2:
            raise ValueError(f"exponent must be at most 2, got {self.exponent}")

    @property
    def characteristic(self) -> bool:  # type: ignore[override]
        """True if the MMD of any two different distributions is positive."""
        return bool(self.exponent < 2)

    def matrix(self, X: jax.Array, Y: jax.Array) -> jax.Array:
        """Return the Gram matrix k(x_i, y_j)."""
        center = jnp.broadcast_to(jnp.asarray(self.center, dtype=X.dtype), (1, X.shape[1]))
        return 0.5 * (self._powers(X, center) + self._powers(center, Y) - self._powers(X, Y))

    def _powers(self, X: jax.Array, Y: jax.Array) -> jax.Array:
        squared = squared_norm(differences(X, Y))
        # The power has no derivative at zero.
        distinct = squared > 0
        return jnp.where(distinct, jnp.where(distinct, squared, 1.0) ** (0.5 * self.exponent), 0.0)


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
        """Return the Gram matrix k(x_i, y_j)."""
        return (X @ Y.T + self.constant) ** self.degree


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Rotation(Covariance):
    """k(A, B) = Tr[A B'] for rotations A, B in SO(3), as rows of their 9 entries.

    1 + 2 cos of the angle between them; the kernel of the camera in the slides *Kernel Method for
    Bayesian Inference* (Fukumizu). Its features are the 9 entries: not characteristic, an
    embedding is the mean rotation matrix.

    Calling it with rows that are not rotations of 9 entries raises ``ValueError``.
    """

    characteristic = False

    def matrix(self, X: jax.Array, Y: jax.Array) -> jax.Array:
        """Return the Gram matrix Tr[A_i B_j']."""
        return X @ Y.T

    def check_points(self, X: jax.Array, tolerance: float = 1e-6) -> None:
        """Refuse rows that are not rotations.

        Args:
            X: (n, 9).
            tolerance: largest entry of A A' - I, and of det A - 1. Not tuned.
        """
        if X.shape[1] != 9:
            raise ValueError(f"a rotation is a row of 9 entries, got {X.shape[1]}")
        values = concrete(X)
        if not isinstance(values, np.ndarray):
            return
        matrices = values.reshape(-1, 3, 3)
        error = np.abs(matrices @ matrices.swapaxes(1, 2) - np.eye(3)).max(axis=(1, 2))
        error = np.maximum(error, np.abs(np.linalg.det(matrices) - 1.0))
        if np.any(error > tolerance):
            raise ValueError(f"row {int(np.argmax(error > tolerance)) + 1} is not a rotation")


def rotations(rotation_vectors: np.ndarray) -> np.ndarray:
    """Return rotations as rows of 9 entries, from rotation vectors (n, 3): axis times radians."""
    from scipy.spatial.transform import Rotation as Rotations  # slow to import

    vectors = np.atleast_2d(np.asarray(rotation_vectors, dtype=float))
    return np.asarray(Rotations.from_rotvec(vectors).as_matrix()).reshape(-1, 9)
