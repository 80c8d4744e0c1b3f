"""Data with the landmarks that they are seen from, in parts that devices can share."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jax.typing import ArrayLike

from ..linalg.padding import shared_size
from ..linalg.pytrees import register_dataclass

#: Entries of the gradients of one block of rows, as fit into a processor's cache, and enough to
#: keep a GPU busy.
BLOCK_ENTRIES, BLOCK_ENTRIES_OF_GPU = 2**17, 2**24
#: Parts at most. They do not depend on the devices, so that neither does rounding.
MOST_PARTS = 256
#: Sizes of a part in every factor of two: data of similar size share compiled programs.
SIZES_PER_OCTAVE = 8
#: Axis of a mesh of devices.
ROWS = "rows"


@register_dataclass
@dataclasses.dataclass(frozen=True)
class LandmarkView:
    """Rows in parts, and landmarks, that sums over rows are taken of for any kernel."""

    parts: jax.Array  # (parts, k, D): the rows in order, then repeats of the last
    count: jax.Array  # (), rows
    landmarks: jax.Array  # (m, D)
    #: The devices that share the parts; ``None``: one has them all.
    mesh: Mesh | None = dataclasses.field(default=None, metadata={"static": True})

    @property
    def entries(self) -> int:
        """Kernel values that one likelihood takes."""
        parts, rows, _ = self.parts.shape
        return parts * rows * len(self.landmarks)

    @property
    def shared_entries(self) -> int:
        """Entries of the gradients, of rows that devices may share."""
        return self.entries * self.landmarks.shape[1]

    @property
    def shares_rows(self) -> bool:
        """Whether devices share the rows."""
        return self.mesh is not None

    def sharded(self, devices: Any) -> Self:
        """The view on several devices, of one process or, each giving all rows, of several."""
        mesh = Mesh(np.asarray(devices), (ROWS,))
        parts = np.asarray(self.parts)
        more = -len(parts) % len(devices)
        parts = np.concatenate([parts, parts[-1:].repeat(more, axis=0)])
        return dataclasses.replace(
            self,
            parts=_placed(parts, mesh, PartitionSpec(ROWS)),
            count=_placed(np.asarray(self.count), mesh, PartitionSpec()),
            landmarks=_placed(np.asarray(self.landmarks), mesh, PartitionSpec()),
            mesh=mesh,
        )


def _placed(array: np.ndarray, mesh: Mesh, spec: PartitionSpec) -> jax.Array:
    sharding = NamedSharding(mesh, spec)
    return jax.make_array_from_callback(array.shape, sharding, lambda part: array[part])


def in_parts(points: ArrayLike, landmarks: ArrayLike, room: int = 0) -> LandmarkView:
    """Any points (n, D) with landmarks (m, D), in the shape that ``room`` points have."""
    xp: Any = jnp if isinstance(points, jax.core.Tracer) else np
    rows = xp.asarray(points)
    n, dimension = rows.shape
    room = max(room, n)
    blocks = -(-room * len(jnp.asarray(landmarks)) * dimension // BLOCK_ENTRIES)
    parts = 2 ** int(math.log2(min(blocks, MOST_PARTS)))
    size = shared_size(-(-room // parts), SIZES_PER_OCTAVE)
    rows = xp.pad(rows, ((0, parts * size - n), (0, 0)), mode="edge")
    return LandmarkView(
        jnp.asarray(rows.reshape(parts, size, dimension)),
        jnp.asarray(n, rows.dtype),
        jnp.asarray(landmarks),
    )


def check_apart(
    points: np.ndarray, landmarks: np.ndarray, *, first: int = 1, of: str = "X"
) -> None:
    """Refuse two landmarks in one, and one on an observation, which it gives no volume.

    Args:
        points: (n, D).
        landmarks: (m, D).
        first: number of the first row.
        of: what has the rows.

    Raises:
        ValueError: naming the landmark, and the row.
    """
    _, places, counts = np.unique(landmarks, axis=0, return_index=True, return_counts=True)
    if (counts > 1).any():
        at = int(places[counts > 1].min()) + 1
        raise ValueError(f"landmark {at} is there more than once: R is singular, take it once")
    near = np.flatnonzero(np.isin(points[:, 0], landmarks[:, 0]))
    for index, place in enumerate(landmarks):
        same = near[(points[near] == place).all(axis=1)]
        if same.size:
            raise ValueError(
                f"landmark {index + 1} is row {first + same[0]} of {of}: there the gradient of k "
                "is zero, so that this landmark gives the row no volume; choose landmarks off the "
                "data"
            )
