"""Where a witness is evaluated unless its user says: a line, a mesh, or the data themselves."""

from __future__ import annotations

import numpy as np

LINE_POINTS = 200
MESH_SIDE = 30
#: The line or mesh extends beyond the data by this part of their range.
MARGIN = 0.1


def default_points(P: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """Where to evaluate: a line (D = 1), a mesh (D = 2) over the data, else the data points."""
    pooled = np.concatenate([P, Q])
    if pooled.shape[1] > 2:
        return pooled
    low, high = pooled.min(axis=0), pooled.max(axis=0)
    margin = MARGIN * (high - low)
    side = LINE_POINTS if pooled.shape[1] == 1 else MESH_SIDE
    axes = [np.linspace(a, b, side) for a, b in zip(low - margin, high + margin, strict=True)]
    return np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
