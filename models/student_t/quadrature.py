"""Adaptive quadrature in one or two columns, and normalizers of kernel Student-t densities."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from jax.typing import ArrayLike

from ..kernels.base import Covariance
from .density import KernelStudentT

#: The lower and the upper corner of a box, each (D,) or a number for every column.
Bounds: TypeAlias = tuple[ArrayLike, ArrayLike]
#: A function of points (m, D), with values (m, ...).
Function: TypeAlias = Callable[[np.ndarray], np.ndarray]
MAX_DIMENSION = 2


class Normalizer(NamedTuple):
    """log of the integral of q over a box; see :func:`log_normalizer`."""

    value: float
    error: float  # estimated relative error of the integral
    low: np.ndarray  # (D,)
    high: np.ndarray  # (D,)

    def contains(self, points: ArrayLike) -> np.ndarray:
        """Return whether points (m, D) are in the box, (m,)."""
        return np.asarray(np.all((points >= self.low) & (points <= self.high), axis=1))


def log_normalizer(
    density: KernelStudentT, bounds: Bounds | None = None, *, tolerance: float = 1e-6
) -> Normalizer:
    """Compute the log of the integral of q over a box: log q minus this is a density there.

    Args:
        density: on R or R^2.
        bounds: the lower and the upper corner, each shape (D,) or a number. Both bounds of a column
            may be infinite where q falls to zero: ``None``, all of R^D, works for polynomial
            kernels.
        tolerance: relative tolerance of the integral.

    Raises:
        ValueError: more than 2 columns, invalid bounds, or a kernel of x - y without finite bounds:
            its density does not fall to zero and has no integral.
        ArithmeticError: the integral does not converge.
    """
    value, error, (low, high) = log_integral(density, density.log_density, bounds, tolerance)
    return Normalizer(float(value), error, low, high)


def log_integral(
    density: KernelStudentT,
    log_function: Callable[[np.ndarray], ArrayLike],
    bounds: Bounds | None,
    tolerance: float,
) -> tuple[np.ndarray, float, tuple[np.ndarray, np.ndarray]]:
    """Compute the log of the integral of exp(log_function) over a box.

    Args:
        density: log q, which the function resembles; its rows are where the function is large.
        log_function: of points (m, D), to (m, ...).
        bounds: see :func:`log_normalizer`.
        tolerance: see :func:`log_normalizer`.

    Returns:
        The logarithm, of the trailing shape of the function's values; the relative error of the
        integral; and the corners of the box.

    Raises:
        ValueError: see :func:`log_normalizer`.
        ArithmeticError: see :func:`log_normalizer`.
    """
    D, data = density.dimension, np.asarray(density.rows.data)
    if D > MAX_DIMENSION:
        raise ValueError(
            f"the normalizer is found by quadrature in up to {MAX_DIMENSION} columns, and there "
            f"are {D}; the density remains known up to a constant"
        )
    box = (-np.inf, np.inf) if bounds is None else bounds
    low, high = check_bounds(data, density.kernel, box)
    lengths = np.asarray(getattr(density.kernel, "lengthscale", 1.0), dtype=float)
    lengths = lengths if lengths.shape == (D,) else np.ones(1)
    # The integrand is at most about 1, so that numbers do not overflow.
    offset = float(np.max(density.log_density(data)))

    def integrand(at: np.ndarray) -> np.ndarray:
        return np.asarray(np.exp(np.asarray(log_function(at)) - offset))

    integral, error = integrate(integrand, data, low, high, tolerance, lengths)
    return offset + np.log(integral), error, (low, high)


def check_bounds(
    points: np.ndarray, kernel: Covariance, bounds: Bounds
) -> tuple[np.ndarray, np.ndarray]:
    """Return the corners of a box that contains points (N, D), each (D,).

    Raises:
        ValueError: bounds are invalid, leave out some of the points, or are not finite where the
            density does not fall to zero.
    """
    D = points.shape[1]
    try:
        low, high = (np.broadcast_to(np.asarray(corner, dtype=float), (D,)) for corner in bounds)
    except (TypeError, ValueError):
        raise ValueError(
            f"bounds must be a lower and an upper corner, each a number or of {D} columns, "
            f"got {bounds!r}"
        ) from None
    if not np.all(low < high):
        raise ValueError(f"each lower bound must be below the upper one, got {bounds!r}")
    if not np.array_equal(np.isfinite(low), np.isfinite(high)):
        raise ValueError(f"a column is bounded at both ends or at none, got {bounds!r}")
    if kernel.translation_invariant and not np.all(np.isfinite([low, high])):
        raise ValueError(
            "the density of a kernel of x - y does not fall to zero far from the data: it needs "
            "finite bounds"
        )
    outside = ~np.all((points >= low) & (points <= high), axis=1)
    if outside.any():
        raise ValueError(f"the bounds leave out row {int(np.argmax(outside)) + 1} of the data")
    return low, high


def integrate(
    function: Function,
    data: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    tolerance: float,
    lengths: ArrayLike = 1.0,
    *,
    size: int = 8,
    max_points: int = 2_000_000,
    max_level: int = 60,
) -> tuple[np.ndarray, float]:
    """Integrate a positive function whose modes are near rows of ``data`` over a box.

    The Gauss-Legendre rule is applied in regions, and the regions of the largest errors are halved
    in every column until the sum of errors is small. The error of a region is the root mean square
    of the terms of the two highest degrees in the polynomial through the nodes, far more than the
    error of the integral where the polynomial is accurate. The nodes may miss narrow modes.
    Therefore

    - the largest difference between the polynomial and the function at rows in the region counts as
      error too, over all of the region: a mode with a row is found, however narrow it is;
    - regions that touch differ by a factor of two at most, so that a mode that extends into a
      region without rows is found there too.

    A mode that is narrow in one column and long in the other, beyond the ratio of ``lengths``, may
    be missed far from all rows.

    ``scipy.integrate.cubature`` (SciPy 1.17, rules gk21 and genz-malik) does not replace this, see
    ``benchmarks/libraries.py``: at a tolerance of 1e-6 it misses narrow modes (log integrals wrong
    by up to 6.6) unless all rows are its ``points``; then it takes 5 to 50 times the CPU time, and
    one of five log integrals is wrong by 1e-4. It calls the function for one region at a time, and
    its error does not use the values at rows.

    Args:
        function: of points (m, D), to (m, ...).
        data: (N, D), in the box.
        low: lower corner of the box, (D,); minus infinity where the column is unbounded.
        high: upper corner; infinite in the same columns.
        tolerance: relative tolerance of the integral.
        lengths: over which the function changes, (D,) or one; only their ratio counts, and only
            where all columns are bounded.
        size: nodes in each column of a region; not tuned.
        max_points: nodes after which the integral is taken not to converge; not tuned.
        max_level: halvings of one region after which it is taken not to converge: beyond these its
            sides are near the rounding of its corners.

    Returns:
        The integral, of the trailing shape of the function's values, and an estimate of its
        relative error, the largest of all entries.

    Raises:
        ArithmeticError: the integral does not converge to a positive finite value.
    """
    bounded = np.all(np.isfinite(low))
    function, rows, low, high = _map_to_finite_box(function, data, low, high)
    at_rows = function(rows)
    shape, at_rows = at_rows.shape[1:], at_rows.reshape(len(rows), -1)
    rows = np.minimum(rows, low + (high - low))  # in the last region, whose corner is rounded
    grid, regions = _initial_regions(low, high, lengths if bounded else high - low)
    results = _integrate_regions(function, grid, regions, rows, at_rows, size)
    while True:
        total, error = np.sum(results, axis=1)
        # At first all may be error: zero at all nodes, and more at rows.
        if not np.all((total + error > 0.0) & (total + error < np.inf)):
            break
        relative = float(np.max(error / (total + error)))
        if relative <= tolerance:
            return total.reshape(shape), relative
        # Regions with the smallest errors, half of the tolerance together, are not refined.
        largest = np.max(results[1] / (total + error), axis=1)
        order = np.argsort(largest)
        refine = np.zeros(len(regions), bool)
        refine[order[np.cumsum(largest[order]) > 0.5 * tolerance]] = True
        index = np.arange(len(regions))  # among the regions integrated before; -1 for new ones
        while refine.any():
            children = _halve(regions[refine])
            regions = np.concatenate([regions[~refine], children])
            index = np.concatenate([index[~refine], np.full(len(children), -1)])
            refine = _touch_small_regions(regions, regions[index < 0])
        if size ** len(low) * len(regions) > max_points or regions[:, 0].max() > max_level:
            break
        new = _integrate_regions(function, grid, regions[index < 0], rows, at_rows, size)
        results = np.concatenate([results[:, index[index >= 0]], new], axis=1)
    raise ArithmeticError(
        f"the integral of the density did not converge with {max_points:.0e} points: it has many "
        "kinks, modes far narrower in one column than in the other or far higher than at any row, "
        "or alpha is too small for it to be finite there"
    )


def gauss_legendre(low: np.ndarray, high: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes (size^D, D) and logs of weights of the product rule on a box."""
    node, weight = np.polynomial.legendre.leggauss(size)
    nodes = low + (high - low) * _product([0.5 * (node + 1.0)] * len(low))
    log_weights = np.sum(_product([np.log(0.5 * weight)] * len(low)), axis=1)
    return nodes, log_weights + np.sum(np.log(high - low))


def _product(axes: list[np.ndarray]) -> np.ndarray:
    """Return the Cartesian product of values (k_1,), ..., (k_D,), shape (k_1 ... k_D, D)."""
    return np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)


def _initial_regions(
    low: np.ndarray, high: np.ndarray, lengths: ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    """Divide a box into 16 (D = 1) or 4 (D = 2) regions along its shortest side over ``lengths``.

    In the other column there are up to 256 times as many, so that regions are about square in units
    of ``lengths``. These numbers are not tuned.

    Returns:
        The grid (2, D), the lower corner of the box and the side of regions of level 0; and the
        regions (c, 1 + D), each its level and its index among the regions of this level.
    """
    extent = (high - low) / np.asarray(lengths)
    count = 2 ** np.clip(np.log2(extent / np.min(extent)).astype(int), 0, 8)
    level = 4 // len(low)
    indices = _product([np.arange(number * 2**level) for number in count])
    return np.stack([low, (high - low) / count]), np.insert(indices, 0, level, axis=1)


def _halve(regions: np.ndarray) -> np.ndarray:
    """Return the 2^D parts that halving every column makes of each region."""
    steps = _product([np.arange(2)] * (regions.shape[1] - 1))
    children = np.repeat(regions, len(steps), axis=0)
    children[:, 0] += 1
    children[:, 1:] = 2 * children[:, 1:] + np.tile(steps, (len(regions), 1))
    return children


def _touch_small_regions(regions: np.ndarray, small: np.ndarray) -> np.ndarray:
    """Return whether regions touch one of the ``small`` ones of a quarter of their side, (c,)."""
    steps = _product([np.arange(-1, 2)] * (regions.shape[1] - 1))
    touched = np.repeat(small, len(steps), axis=0)
    touched[:, 0] -= 2
    touched[:, 1:] = (touched[:, 1:] + np.tile(steps, (len(small), 1))) // 4
    _, labels = np.unique(np.concatenate([regions, touched]), axis=0, return_inverse=True)
    return np.isin(labels[: len(regions)], labels[len(regions) :])


def _integrate_regions(
    function: Function,
    grid: np.ndarray,
    regions: np.ndarray,
    rows: np.ndarray,
    at_rows: np.ndarray,
    size: int,
) -> np.ndarray:
    """Return the integrals over regions and estimates of their errors, (2, c, m).

    The function is evaluated at 16384 nodes at once, which bounds its memory; not tuned.

    Args:
        function: see :func:`integrate`.
        grid: see :func:`_initial_regions`.
        regions: see :func:`_initial_regions`.
        rows: (N, D).
        at_rows: the function's values there, (N, m).
        size: nodes in each column.
    """
    D, m = rows.shape[1], at_rows.shape[1]
    nodes, log_weights = gauss_legendre(np.zeros(D), np.ones(D), size)
    polynomials, highest = _legendre_polynomials(nodes, size)
    projection = polynomials.T * np.exp(log_weights)
    side = grid[1] * 0.5 ** regions[:, :1]
    # A corner has the same value in all regions that share it, whatever their level.
    low, high = grid[0] + side * regions[:, 1:], grid[0] + side * (regions[:, 1:] + 1)
    integrals, errors = results = np.zeros((2, len(regions), m))
    step = 2**14 // len(nodes)
    for start in range(0, len(regions), step):
        part = slice(start, start + step)
        values = function((low[part, None] + side[part, None] * nodes).reshape(-1, D))
        coefficients = projection @ values.reshape(-1, len(nodes), m)
        integrals[part] = coefficients[:, 0]
        with np.errstate(over="ignore"):  # an infinite error ends the integration
            errors[part] = np.sqrt(np.sum(coefficients[:, highest] ** 2, axis=1))
        inside = np.all((rows >= low[part, None]) & (rows <= high[part, None]), axis=2)
        for region in np.flatnonzero(inside.any(axis=1)):
            at = (rows[inside[region]] - low[start + region]) / side[start + region]
            expected = _legendre_polynomials(at, size)[0] @ coefficients[region]
            difference = np.max(np.abs(at_rows[inside[region]] - expected), axis=0)
            errors[start + region] = np.maximum(errors[start + region], difference)
    return results * np.prod(side, axis=1)[:, None]


def _legendre_polynomials(at: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return orthonormal products (k, G) of Legendre polynomials at points (k, D) of [0, 1]^D.

    The constant is the first. Also returns which are of the two highest degrees in some column,
    (G,).
    """
    values = np.polynomial.legendre.legvander(2.0 * at - 1.0, size - 1)  # (k, D, degrees)
    values *= np.sqrt(2.0 * np.arange(size) + 1.0)
    product = values[:, 0]
    for column in range(1, at.shape[1]):
        product = (product[:, :, None] * values[:, column, None]).reshape(len(at), -1)
    degrees = _product([np.arange(size)] * at.shape[1])
    return product, np.max(degrees, axis=1) >= size - 2


def _map_to_finite_box(
    function: Function,
    data: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
) -> tuple[Function, np.ndarray, np.ndarray, np.ndarray]:
    """Substitute x = center + width t / (1 - t^2), |t| < 1, in unbounded columns.

    Returns the function of t with the Jacobian determinant, the rows, and the corners of the box.
    """
    unbounded = ~np.isfinite(low)
    center, width = np.median(data, axis=0), np.ptp(data, axis=0)
    width = np.where(width > 0.0, width, np.maximum(1.0, np.abs(center)))
    scaled = (data - center) / width
    rows = np.where(unbounded, 2.0 * scaled / (1.0 + np.sqrt(1.0 + 4.0 * scaled**2)), data)

    def of_t(t: np.ndarray) -> np.ndarray:
        # Rounding may give |t| = 1.
        remainder = np.where(unbounded, np.maximum(1.0 - t**2, 1e-12), 1.0)
        values = function(np.where(unbounded, center + width * t / remainder, t))
        jacobian = np.where(unbounded, width * (1.0 + t**2) / remainder**2, 1.0)
        return (values.T * np.prod(jacobian, axis=1)).T

    return of_t, rows, np.where(unbounded, -1.0, low), np.where(unbounded, 1.0, high)
