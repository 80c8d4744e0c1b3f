"""The integral of a kernel Student-t density over a box, by adaptive cubature."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from jax.typing import ArrayLike
from scipy.integrate import cubature

from .density import KernelStudentT

MOST_DIMENSIONS = 2
MOST_SUBDIVISIONS = 5000
#: The lower and the upper corner of a box, each (D,) or a number for every column.
Bounds: TypeAlias = tuple[ArrayLike, ArrayLike]


class Normaliser(NamedTuple):
    """log of the integral of q over a box; see :func:`log_normaliser`."""

    value: float
    error: float  # estimated, of the value
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
        bounds: the lower and the upper corner, each shape (D,) or a number; may be infinite where q
            falls to zero, so that ``None``, all of R^D, does for polynomial kernels.
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
        lambda at: np.exp(np.asarray(density.log_density(at)) - offset), data, low, high, tolerance
    )
    integral = float(found.estimate)
    error = float(found.error) / integral
    return Normaliser(offset + float(np.log(integral)), error, low, high)


def integrate(
    function: Callable[[np.ndarray], np.ndarray],
    data: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    tolerance: float,
) -> Any:
    """SciPy's result for a function of points (m, D), to (m, ...), whose modes are about ``data``.

    Raises:
        ArithmeticError: it does not converge to a positive finite value.
    """
    # An axis without ends is x = middle + width t / (1 - t^2): SciPy's own way there takes no
    # account of where the data are.
    endless = ~np.isfinite(low) | ~np.isfinite(high)
    middle = np.median(data, axis=0)
    width = np.ptp(data, axis=0)
    width = np.where(width > 0.0, width, np.maximum(1.0, np.abs(middle)))

    def on_finite_box(t: np.ndarray) -> np.ndarray:
        rest = np.where(endless, np.maximum(1.0 - t**2, 1e-12), 1.0)
        values = function(np.where(endless, middle + width * t / rest, t))
        stretch = np.prod(np.where(endless, width * (1.0 + t**2) / rest**2, 1.0), axis=1)
        return (values.T * stretch).T

    start, end = np.where(endless, -1.0, low), np.where(endless, 1.0, high)
    # Cut at the median row first, so that no mode lies between the first nodes.
    cut = np.where(endless, 0.0, middle)
    found = cubature(
        on_finite_box,
        start,
        end,
        rtol=tolerance,
        atol=0.0,
        max_subdivisions=MOST_SUBDIVISIONS,
        points=[cut] if np.all((cut > start) & (cut < end)) else [],
    )
    finite = np.all((found.estimate > 0.0) & (found.estimate < np.inf))
    if found.status != "converged" or not finite:
        relative = float(np.max(found.error / np.maximum(found.estimate, 1e-300)))
        raise ArithmeticError(
            f"the integral of the density did not converge within {MOST_SUBDIVISIONS} boxes "
            f"(relative error about {relative:.1e}): its modes are too narrow beside the bounds, "
            "or alpha is too small for it to be finite there"
        )
    return found


def box_of(density: KernelStudentT, bounds: Bounds | None) -> tuple[np.ndarray, np.ndarray]:
    """The corners of a box that a density can be integrated over, each (D,).

    Raises:
        ValueError: it cannot, see :func:`log_normaliser`.
    """
    D = density.dimension
    if D > MOST_DIMENSIONS:
        raise ValueError(
            f"the normaliser is found by quadrature in up to {MOST_DIMENSIONS} columns, and there "
            f"are {D}; the density remains known up to a constant"
        )
    low, high = check_bounds((-np.inf, np.inf) if bounds is None else bounds, D)
    if density.kernel.translation_invariant and not np.all(np.isfinite([low, high])):
        raise ValueError(
            "the density of a kernel of x - y does not fall to zero far from the data: it needs "
            "finite bounds"
        )
    outside = ~np.all((density.rows.data >= low) & (density.rows.data <= high), axis=1)
    if outside.any():
        raise ValueError(f"the bounds leave out row {int(np.argmax(outside)) + 1} of the data")
    return low, high


def check_bounds(bounds: Bounds, dimension: int) -> tuple[np.ndarray, np.ndarray]:
    """Both corners as (D,).

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
    return low, high
