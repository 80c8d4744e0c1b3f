"""The box that a density of a kernel of x - y is restricted to."""

from __future__ import annotations

import numpy as np
from bke.models.kernels import Covariance
from bke.models.student_t.normaliser import Bounds, check_bounds

from ..errors import InputError

#: How far the box goes beyond the data at each side by default, over their range.
MARGIN = 0.5


def box_for(
    points: np.ndarray, kernel: Covariance, bounds: Bounds | None
) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper corner, each (D,), for points (N, D).

    ``None`` is the range of every column and half of it more at each side; all of R^D for kernels
    that are not of x - y, whose densities fall to zero by themselves.

    Raises:
        InputError: bounds that are none, or leave out some of the points.
    """
    D = points.shape[1]
    if bounds is None:
        if not kernel.translation_invariant:
            return np.full(D, -np.inf), np.full(D, np.inf)
        low, high = points.min(axis=0), points.max(axis=0)
        width = np.where(high > low, high - low, 1.0)
        return low - MARGIN * width, high + MARGIN * width
    try:
        low, high = check_bounds(bounds, D)
    except ValueError as error:
        raise InputError(str(error)) from None
    if kernel.translation_invariant and not np.all(np.isfinite([low, high])):
        raise InputError(
            "the density of a kernel of x - y does not fall to zero far from the data: it needs "
            "finite bounds"
        )
    outside = ~np.all((points >= low) & (points <= high), axis=1)
    if outside.any():
        raise InputError(f"the bounds leave out row {int(np.argmax(outside)) + 1} of the data")
    return low, high
