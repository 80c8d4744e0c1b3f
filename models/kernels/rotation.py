"""A kernel on rotations of three-dimensional space."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np

from ..linalg.precision import concrete
from ..linalg.pytrees import register_dataclass
from .base import Covariance

#: Largest entry of A A' - I, and of det A - 1, in what is called a rotation.
TOLERANCE = 1e-6


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Rotation(Covariance):
    """k(A, B) = Tr[A B'] for rotations A, B in SO(3), as rows of their 9 entries.

    1 + 2 cos of the angle between them; the kernel of the camera in the slides *Kernel Method for
    Bayesian Inference* (Fukumizu). Its features are the 9 entries: not characteristic, an
    embedding is the mean rotation matrix.

    Called with rows that are not 9 numbers, or not a rotation, it raises ``ValueError``.
    """

    characteristic = False

    def matrix(self, X: jax.Array, Y: jax.Array) -> jax.Array:
        """The Gram matrix Tr[A_i B_j']."""
        return X @ Y.T

    def check_points(self, X: jax.Array) -> None:
        """Refuse rows that are no rotations."""
        if X.shape[1] != 9:
            raise ValueError(f"a rotation is a row of 9 entries, got {X.shape[1]}")
        values = concrete(X)
        if not isinstance(values, np.ndarray):
            return
        matrices = values.reshape(-1, 3, 3)
        away = np.abs(matrices @ matrices.swapaxes(1, 2) - np.eye(3)).max(axis=(1, 2))
        away = np.maximum(away, np.abs(np.linalg.det(matrices) - 1.0))
        if np.any(away > TOLERANCE):
            raise ValueError(f"row {int(np.argmax(away > TOLERANCE)) + 1} is not a rotation")


def rotations(rotation_vectors: np.ndarray) -> np.ndarray:
    """Rotations as rows of 9 entries, from rotation vectors (n, 3): axis times angle, radians."""
    vectors = np.atleast_2d(np.asarray(rotation_vectors, dtype=float))
    angle = np.linalg.norm(vectors, axis=1)[:, None, None]
    x, y, z = vectors.T
    zero = np.zeros_like(x)
    cross = np.stack([zero, -z, y, z, zero, -x, -y, x, zero], axis=1).reshape(-1, 3, 3)
    # sin(a)/a and (1 - cos a)/a^2, which numpy's sinc gives without dividing by zero.
    first, second = np.sinc(angle / np.pi), 0.5 * np.sinc(angle / (2.0 * np.pi)) ** 2
    return np.asarray(np.eye(3) + first * cross + second * cross @ cross).reshape(-1, 9)
