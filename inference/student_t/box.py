"""The box that a density of a kernel of x - y is restricted to."""

from __future__ import annotations

import numpy as np
from bke.models.kernels.base import Covariance
from bke.models.student_t.normaliser import Bounds, box_around

from ..core.errors import InputError

#: How far the box goes beyond the data at each side by default, over their range.
MARGIN = 0.5


def box_for(
    points: np.ndarray, kernel: Covariance, bounds: Bounds | None
) -> tuple[np.ndarray, np.ndarray]:
    """Choose the box for points (N, D): its lower and upper corner, each (D,).

    ``None`` is the range of every column and half of it more at each side; all of R^D for kernels
    that are not of x - y, whose densities fall to zero by themselves.

    Raises:
        InputError: bounds that are none, or leave out some of the points.
    """
    if bounds is not None:
        try:
            return box_around(points, kernel, bounds)
        except ValueError as error:
            raise InputError(str(error)) from None
    if not kernel.translation_invariant:
        return np.full(points.shape[1], -np.inf), np.full(points.shape[1], np.inf)
    low, high = points.min(axis=0), points.max(axis=0)
    width = np.where(high > low, high - low, 1.0)
    return low - MARGIN * width, high + MARGIN * width
