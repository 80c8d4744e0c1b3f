"""The integral of a kernel Student-t density over a box."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from jax.typing import ArrayLike

from ..kernels.base import Covariance
from .density import KernelStudentT
from .quadrature import MOST_DIMENSIONS, integrate

#: The lower and the upper corner of a box, each (D,) or a number for every column.
Bounds: TypeAlias = tuple[ArrayLike, ArrayLike]


class Normaliser(NamedTuple):
    """log of the integral of q over a box; see :func:`log_normaliser`."""

    value: float
    error: float  # of the integral, relative; an estimate
    low: np.ndarray  # (D,)
    high: np.ndarray  # (D,)

    def contains(self, points: ArrayLike) -> np.ndarray:
        """Whether points (m, D) are in the box, (m,)."""
        inside: np.ndarray = np.all((points >= self.low) & (points <= self.high), axis=1)
        return inside


def log_normaliser(
    density: KernelStudentT, bounds: Bounds | None = None, *, tolerance: float = 1e-6
) -> Normaliser:
    """Log of the integral of q over a box, so that log q minus this is a density there.

    Args:
        density: on R or R^2.
        bounds: the lower and the upper corner, each shape (D,) or a number; may be infinite, both
            of a column, where q falls to zero, so that ``None``, all of R^D, does for polynomial
            kernels.
        tolerance: of the integral, relative.

    Raises:
        ValueError: for more than 2 columns, bounds that are none, a kernel of x - y without finite
            ones: its density does not fall to zero and has no integral.
        ArithmeticError: the integral does not converge.
    """
    low, high = box_of(density, bounds)
    data = np.asarray(density.rows.data)
    # Where the largest values are about: numbers near one do not overflow.
    offset = float(np.max(density.log_density(data)))
    found = integrate(
        lambda at: np.exp(np.asarray(density.log_density(at)) - offset),
        data,
        low,
        high,
        tolerance,
        length_parameters(density),
    )
    return Normaliser(offset + float(np.log(found.estimate)), found.error, low, high)


def length_parameters(density: KernelStudentT) -> np.ndarray:
    """The kernel's lengthscales, (D,) or one, equal where it has several of a column or none."""
    known = np.asarray(getattr(density.kernel, "lengthscale", 1.0), dtype=float)
    return known if known.shape == (density.dimension,) else np.ones(1)


def box_of(density: KernelStudentT, bounds: Bounds | None) -> tuple[np.ndarray, np.ndarray]:
    """The corners of a box that a density can be integrated over, each (D,).

    Raises:
        ValueError: it cannot, see :func:`log_normaliser`.
    """
    if density.dimension > MOST_DIMENSIONS:
        raise ValueError(
            f"the normaliser is found by quadrature in up to {MOST_DIMENSIONS} columns, and there "
            f"are {density.dimension}; the density remains known up to a constant"
        )
    everywhere = (-np.inf, np.inf) if bounds is None else bounds
    return box_around(np.asarray(density.rows.data), density.kernel, everywhere)


def box_around(
    points: np.ndarray, kernel: Covariance, bounds: Bounds
) -> tuple[np.ndarray, np.ndarray]:
    """The corners of a box with points (N, D) in it, each (D,).

    Raises:
        ValueError: bounds that are none, leave out some of the points, or are not finite where the
            density does not fall to zero.
    """
    low, high = check_bounds(bounds, points.shape[1])
    if kernel.translation_invariant and not np.all(np.isfinite([low, high])):
        raise ValueError(
            "the density of a kernel of x - y does not fall to zero far from the data: it needs "
            "finite bounds"
        )
    outside = ~np.all((points >= low) & (points <= high), axis=1)
    if outside.any():
        raise ValueError(f"the bounds leave out row {int(np.argmax(outside)) + 1} of the data")
    return low, high


def check_bounds(bounds: Bounds, dimension: int) -> tuple[np.ndarray, np.ndarray]:
    """The corners of a box as (D,) each.

    Raises:
        ValueError: they are none.
    """
    try:
        low, high = (
            np.broadcast_to(np.asarray(corner, dtype=float), (dimension,)) for corner in bounds
        )
    except (TypeError, ValueError):
        raise ValueError(
            f"bounds must be a lower and an upper corner, each a number or of {dimension} columns, "
            f"got {bounds!r}"
        ) from None
    if not np.all(low < high):
        raise ValueError(f"each lower bound must be below the upper one, got {bounds!r}")
    if not np.array_equal(np.isfinite(low), np.isfinite(high)):
        raise ValueError(f"a column is bounded at both ends or at none, got {bounds!r}")
    return low, high
