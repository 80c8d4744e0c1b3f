"""Data with the landmarks that they are seen from."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from ..kernels.base import check_columns


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class LandmarkView:
    """What the landmark model is told: its likelihood takes these for any kernel."""

    points: jax.Array  # (n, D)
    landmarks: jax.Array  # (m, D)

    @property
    def entries(self) -> int:
        """Kernel values that one likelihood takes."""
        return len(self.points) * len(self.landmarks)


def landmark_view(points: jax.Array, landmarks: jax.Array) -> LandmarkView:
    """Of points (n, D) and landmarks (m, D).

    Raises:
        ValueError: for landmarks of other columns, fewer than D, two at one place, or one that is
            an observation.
    """
    dimension = points.shape[1]
    check_columns(points, landmarks, "landmarks")
    if len(landmarks) < dimension:
        raise ValueError(
            f"landmarks has {len(landmarks)} rows, but the volume in {dimension} columns needs at "
            f"least {dimension}"
        )
    if not isinstance(points, jax.core.Tracer) and not isinstance(landmarks, jax.core.Tracer):
        _check_apart(np.asarray(points), np.asarray(landmarks))
    return LandmarkView(jnp.asarray(points), jnp.asarray(landmarks))


def _check_apart(points: np.ndarray, landmarks: np.ndarray) -> None:
    """Refuse two landmarks in one, and one on an observation, which it gives no volume."""
    _, first, counts = np.unique(landmarks, axis=0, return_index=True, return_counts=True)
    if (counts > 1).any():
        at = int(first[counts > 1].min()) + 1
        raise ValueError(f"landmark {at} is there more than once: R is singular, take it once")
    near = np.flatnonzero(np.isin(points[:, 0], landmarks[:, 0]))
    for index, place in enumerate(landmarks):
        same = near[(points[near] == place).all(axis=1)]
        if same.size:
            raise ValueError(
                f"landmark {index + 1} is row {same[0] + 1} of X: there the gradient of k is zero, "
                "so that this landmark gives the row no volume; choose landmarks off the data"
            )
