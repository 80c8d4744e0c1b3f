"""Where a witness is evaluated unless its user says: a line, a mesh, or the data themselves."""

from __future__ import annotations

import numpy as np
import xarray as xr

LINE_POINTS = 200
MESH_SIDE = 30


def default_points(P: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """Where to evaluate: a line (D = 1), a mesh (D = 2) over the data, else the data points.

    Nothing beyond the data, where a witness is extrapolated.
    """
    pooled = np.concatenate([P, Q])
    if pooled.shape[1] > 2:
        return pooled
    low, high = pooled.min(axis=0), pooled.max(axis=0)
    side = LINE_POINTS if pooled.shape[1] == 1 else MESH_SIDE
    axes = [np.linspace(a, b, side) for a, b in zip(low, high, strict=True)]
    return np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)


def in_range(at: np.ndarray, P: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """Return which of the points (m, D) are within the range of the pooled rows in every column."""
    pooled = np.concatenate([P, Q])
    return ((at >= pooled.min(axis=0)) & (at <= pooled.max(axis=0))).all(axis=1)


def within_range(witness: xr.DataTree) -> xr.DataTree:
    """Return a witness at its points within the range of the data, or at all where none is."""
    inside = np.asarray(witness["in_range"].values, dtype=bool)
    return witness.isel(point=inside) if inside.any() else witness
