"""Integrals over a box in one or two columns, in cells that are halved where it needs them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from jax.typing import ArrayLike

from ..kernels.base import Covariance
from .density import KernelStudentT

MOST_DIMENSIONS = 2
#: How often each column is halved at first, by their number; the longer one, in lengthscales, so
#: many times more that cells are about square, up to a limit.
FIRST_HALVINGS, MOST_MORE = {1: 4, 2: 2}, 8
#: Nodes in each column of a cell, and degrees of polynomials through them that are to be nothing.
SIZE, LAST_DEGREES = 8, 2
#: Points, and halvings of one cell, after which it does not converge.
MOST_POINTS, MOST_HALVINGS = 2_000_000, 60
#: Points at which the function is asked for at once.
BLOCK = 2**14
#: What is nothing beside 1 at the end of an endless axis.
LEAST = 1e-12


class Integral(NamedTuple):
    """What was found, and an estimate of its error, relative to it."""

    estimate: Any  # a number or an array
    error: float


def integrate(
    function: Callable[[np.ndarray], np.ndarray],
    data: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    tolerance: float,
    lengths: ArrayLike = 1.0,
) -> Integral:
    """The integral of a positive function whose modes are about rows of ``data``.

    By Gauss and Legendre's rule in each cell. The error is what the polynomial through the nodes
    has of the highest degrees, the root of its mean square, and far above that of the integral
    where the polynomial is close. Cells of the largest errors are halved in every column until
    their sum is small. The nodes may miss narrow modes. So

    - how far the polynomial is from the function at rows counts as error too, over all of the cell:
      a mode with a row is found, however narrow and far from others it is;
    - cells that touch differ by a factor of two at most, so that a mode that reaches into a cell
      without rows is seen there too.

    What is narrow in one column and long in the other, beyond the ratio of ``lengths``, may be
    missed far from all rows.

    Args:
        function: of points (m, D), to (m, ...).
        data: (N, D), in the box.
        low: lower corner of the box, (D,); minus infinity where the axis has no end.
        high: upper corner; infinite in the same columns.
        tolerance: of the integral, relative.
        lengths: over which the function changes, (D,) or one; only their ratio counts, and only
            where no axis is endless.

    Raises:
        ArithmeticError: it does not converge to a positive finite value.
    """
    bounded = bool(np.all(np.isfinite(low)))
    function, rows, low, high = _on_finite_box(function, data, low, high)
    starts = range(0, len(rows), BLOCK)
    at_rows = np.concatenate([function(rows[start : start + BLOCK]) for start in starts])
    shape, at_rows = at_rows.shape[1:], at_rows.reshape(len(rows), -1)
    cells = _Cells.of_box(low, high, lengths if bounded else high - low, rows)
    for _ in range(FIRST_HALVINGS[len(low)]):
        cells = cells.halved(np.ones(len(cells.level), bool), rows)
    integrals, errors = _measured(function, cells, 0, rows, at_rows)
    while True:
        total, wrong = np.sum(integrals, axis=0), np.sum(errors, axis=0)
        # All may be error at first: nothing at any node, something at rows.
        if not np.all((total + wrong > 0.0) & (total + wrong < np.inf)):
            break
        error = float(np.max(wrong / (total + wrong)))
        if error <= tolerance:
            return Integral(total.reshape(shape), error)
        # The smallest errors, of half the tolerance together, stay as they are.
        worst = np.max(errors / (total + wrong), axis=1)
        order = np.argsort(worst)
        which = np.zeros(len(worst), bool)
        which[order[np.cumsum(worst[order]) > 0.5 * tolerance]] = True
        old = np.arange(len(worst))
        while which.any():
            cells = cells.halved(which, rows)
            old = old[~which[: len(old)]]
            which = cells.beside_small(len(old))
        points = SIZE ** len(low) * len(cells.level)
        if points > MOST_POINTS or cells.level.max() > MOST_HALVINGS:
            break
        fresh = _measured(function, cells, len(old), rows, at_rows)
        integrals = np.concatenate([integrals[old], fresh[0]])
        errors = np.concatenate([errors[old], fresh[1]])
    raise ArithmeticError(
        f"the integral of the density did not converge with {MOST_POINTS:.0e} points: it has many "
        "kinks, modes far narrower in one column than in the other or far higher than at any row, "
        "or alpha is too small for it to be finite there"
    )


def gauss_legendre(low: np.ndarray, high: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes (size^D, D) and logarithms of weights of the tensor rule on a box of 1 or 2 columns."""
    if len(low) > MOST_DIMENSIONS:
        raise ValueError(f"a tensor rule is for up to {MOST_DIMENSIONS} columns, not {len(low)}")
    node, weight = np.polynomial.legendre.leggauss(size)
    grids = np.meshgrid(*[0.5 * (node + 1.0)] * len(low), indexing="ij")
    nodes = low + (high - low) * np.stack([one.ravel() for one in grids], axis=1)
    weights = np.meshgrid(*[np.log(0.5 * weight)] * len(low), indexing="ij")
    return nodes, sum(one.ravel() for one in weights) + np.sum(np.log(high - low))


class _Cells(NamedTuple):
    """Boxes that fill a box, and in which of them each row is."""

    low: np.ndarray  # (D,), of the whole box
    first: np.ndarray  # (D,), side of the cells of level 0
    level: np.ndarray  # (c,), how often those were halved
    place: np.ndarray  # (c, D), among the cells of that level
    home: np.ndarray  # (N,)

    @classmethod
    def of_box(
        cls, low: np.ndarray, high: np.ndarray, lengths: ArrayLike, rows: np.ndarray
    ) -> _Cells:
        """The cells of level 0."""
        extent = (high - low) / np.asarray(lengths)
        count = 2 ** np.clip(np.log2(extent / np.min(extent)).astype(int), 0, MOST_MORE)
        first = (high - low) / count
        places = [np.arange(one) for one in count]
        place = np.stack([one.ravel() for one in np.meshgrid(*places, indexing="ij")], axis=1)
        of_rows = np.clip(((rows - low) // first).astype(np.int64), 0, count - 1)
        home = np.ravel_multi_index(tuple(of_rows.T), tuple(count))
        return cls(low, first, np.zeros(len(place), np.int64), place, home)

    @property
    def side(self) -> np.ndarray:
        """(c, D)."""
        side: np.ndarray = self.first * 0.5 ** self.level[:, None]
        return side

    def halved(self, which: np.ndarray, rows: np.ndarray) -> _Cells:
        """Halves, in every column, of cells (c,) that are true, behind all others."""
        D = rows.shape[1]
        steps = np.arange(2**D)[:, None] // 2 ** np.arange(D) % 2
        place = (2 * self.place[which][:, None] + steps).reshape(-1, D)
        first = np.sum(~which) + len(steps) * (np.cumsum(which) - 1)
        middle = self.low + self.side * (self.place + 0.5)
        step = (rows >= middle[self.home]) @ 2 ** np.arange(D)
        return self._replace(
            level=np.concatenate([self.level[~which], np.repeat(self.level[which] + 1, 2**D)]),
            place=np.concatenate([self.place[~which], place]),
            home=np.where(which, first, np.cumsum(~which) - 1)[self.home]
            + np.where(which[self.home], step, 0),
        )

    def beside_small(self, first: int) -> np.ndarray:
        """Whether cells touch one from the ``first`` on of a quarter of their side, (c,)."""
        around = np.array(list(itertools.product((-1, 0, 1), repeat=len(self.low))))
        beside = (self.place[first:, None] + around) // 4
        level = np.broadcast_to(self.level[first:, None, None] - 2, (*beside.shape[:2], 1))
        small = np.concatenate([level, beside], axis=2).reshape(-1, 1 + len(self.low))
        cells = np.concatenate([self.level[:, None], self.place], axis=1)
        _, names = np.unique(np.concatenate([cells, small]), axis=0, return_inverse=True)
        return np.isin(names[: len(cells)], names[len(cells) :])


def _measured(
    function: Callable[[np.ndarray], np.ndarray],
    cells: _Cells,
    first: int,
    rows: np.ndarray,
    at_rows: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """The integrals over cells from the ``first`` on, and what they may be wrong by, (c, m) each.

    Args:
        function: see :func:`integrate`.
        cells: all of them.
        first: of those that are asked for.
        rows: (N, D).
        at_rows: the function's values there, (N, m).
    """
    side = cells.side[first:]
    corner = cells.low + side * cells.place[first:]
    D, m = corner.shape[1], at_rows.shape[1]
    nodes, log_weights = gauss_legendre(np.zeros(D), np.ones(D), SIZE)
    polynomials, last = _polynomials(nodes)
    projection = polynomials.T * np.exp(log_weights)
    order = np.argsort(cells.home, kind="stable")
    ends = np.searchsorted(cells.home[order], first + np.arange(len(corner) + 1))
    integral, error = np.zeros((len(corner), m)), np.zeros((len(corner), m))
    each = max(1, BLOCK // len(nodes))
    for start in range(0, len(corner), each):
        some = slice(start, start + each)
        at = corner[some, None] + side[some, None] * nodes
        values = function(at.reshape(-1, D)).reshape(len(at), len(nodes), m)
        coefficients = projection @ values
        integral[some] = coefficients[:, 0]
        with np.errstate(over="ignore"):  # infinite then, which is told
            error[some] = np.sqrt(np.sum(coefficients[:, last] ** 2, axis=1))
        for cell, own in enumerate(coefficients, start):
            inside = order[ends[cell] : ends[cell + 1]]
            if len(inside):
                expected = _polynomials((rows[inside] - corner[cell]) / side[cell])[0] @ own
                apart = np.max(np.abs(at_rows[inside] - expected), axis=0)
                error[cell] = np.maximum(error[cell], apart)
    volume = np.prod(side, axis=1)[:, None]
    return volume * integral, volume * error


def _polynomials(at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Orthonormal products (k, G) of Legendre's polynomials at points (k, D) of the unit box.

    The constant is first; (G,) says which are of the last degrees in some column.
    """
    values = np.polynomial.legendre.legvander(2.0 * at - 1.0, SIZE - 1)  # (k, D, degrees)
    values *= np.sqrt(2.0 * np.arange(SIZE) + 1.0)
    product, degree = values[:, 0], np.arange(SIZE)
    for column in range(1, at.shape[1]):
        product = (product[:, :, None] * values[:, column, None]).reshape(len(at), -1)
        degree = np.maximum(degree[:, None], np.arange(SIZE)).ravel()
    return product, degree >= SIZE - LAST_DEGREES


def _on_finite_box(
    function: Callable[[np.ndarray], np.ndarray],
    data: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
) -> tuple[Callable[[np.ndarray], np.ndarray], np.ndarray, np.ndarray, np.ndarray]:
    """The integral with axes x = middle + width t / (1 - t^2), |t| < 1, for rows and corners.

    Only those without ends are changed.
    """
    endless = ~np.isfinite(low)
    if not endless.any():
        return function, data, low, high
    middle = np.median(data, axis=0)
    width = np.ptp(data, axis=0)
    width = np.where(width > 0.0, width, np.maximum(1.0, np.abs(middle)))
    away = (data - middle) / width
    rows = np.where(endless, 2.0 * away / (1.0 + np.sqrt(1.0 + 4.0 * away**2)), data)

    def on_box(t: np.ndarray) -> np.ndarray:
        rest = np.where(endless, np.maximum(1.0 - t**2, LEAST), 1.0)
        values = function(np.where(endless, middle + width * t / rest, t))
        stretch = np.prod(np.where(endless, width * (1.0 + t**2) / rest**2, 1.0), axis=1)
        return (values.T * stretch).T

    return on_box, rows, np.where(endless, -1.0, low), np.where(endless, 1.0, high)


#: The lower and the upper corner of a box, each (D,) or a number for every column.
Bounds: TypeAlias = tuple[ArrayLike, ArrayLike]


class Normalizer(NamedTuple):
    """log of the integral of q over a box; see :func:`log_normalizer`."""

    value: float
    error: float  # of the integral, relative; an estimate
    low: np.ndarray  # (D,)
    high: np.ndarray  # (D,)

    def contains(self, points: ArrayLike) -> np.ndarray:
        """Whether points (m, D) are in the box, (m,)."""
        inside: np.ndarray = np.all((points >= self.low) & (points <= self.high), axis=1)
        return inside


def log_normalizer(
    density: KernelStudentT, bounds: Bounds | None = None, *, tolerance: float = 1e-6
) -> Normalizer:
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
        lengths_of(density),
    )
    return Normalizer(offset + float(np.log(found.estimate)), found.error, low, high)


def lengths_of(density: KernelStudentT) -> np.ndarray:
    """The kernel's lengthscales, (D,) or one, equal where it has several of a column or none."""
    known = np.asarray(getattr(density.kernel, "lengthscale", 1.0), dtype=float)
    return known if known.shape == (density.dimension,) else np.ones(1)


def box_of(density: KernelStudentT, bounds: Bounds | None) -> tuple[np.ndarray, np.ndarray]:
    """The corners of a box that a density can be integrated over, each (D,).

    Raises:
        ValueError: it cannot, see :func:`log_normalizer`.
    """
    if density.dimension > MOST_DIMENSIONS:
        raise ValueError(
            f"the normalizer is found by quadrature in up to {MOST_DIMENSIONS} columns, and there "
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
