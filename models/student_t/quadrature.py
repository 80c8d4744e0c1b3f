"""Integrals over a box in one or two columns, in cells that are halved where it needs them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

MOST_DIMENSIONS = 2
#: How often all cells are halved at first, by the number of columns: 16 cells.
FIRST_HALVINGS = {1: 4, 2: 2}
#: Nodes in each column of a cell, and degrees of polynomials through them that are to be nothing.
SIZE, LAST_DEGREES = 8, 2
#: A cell whose nodes see less than this of a row's value in it may have missed its mode.
SEEN = 0.9
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
) -> Integral:
    """The integral of a positive function whose modes are about rows of ``data``.

    By Gauss and Legendre's rule in each cell. The error is what the polynomial through the nodes
    has of the highest degrees, the root of its mean square, and far above that of the integral
    where the polynomial is close. Cells of the largest errors are halved in every column until
    their sum is small. The nodes may miss narrow modes. So

    - where the function is larger at a row than at the nodes of the row's cell, all that the row's
      value would come to over the cell counts as error: a mode with a row is found, however narrow
      and far from others it is;
    - cells that touch differ by a factor of two at most, so that a mode that reaches into a cell
      without rows is seen there too.

    Args:
        function: of points (m, D), to (m, ...).
        data: (N, D), in the box.
        low: lower corner of the box, (D,); minus infinity where the axis has no end.
        high: upper corner; infinite in the same columns.
        tolerance: of the integral, relative.

    Raises:
        ArithmeticError: it does not converge to a positive finite value.
    """
    function, rows, low, high = _on_finite_box(function, data, low, high)
    starts = range(0, len(rows), BLOCK)
    at_rows = np.concatenate([function(rows[start : start + BLOCK]) for start in starts])
    shape, at_rows = at_rows.shape[1:], at_rows.reshape(len(rows), -1)
    cells = _Cells.whole(low, high, len(rows))
    for _ in range(FIRST_HALVINGS[len(low)]):
        cells = cells.halved(np.ones(len(cells.level), bool), rows)
    integrals, errors = _measured(function, cells, 0, at_rows)
    while True:
        total = np.sum(integrals, axis=0)
        if not np.all((total > 0.0) & (total < np.inf)):
            break
        error = float(np.max(np.sum(errors, axis=0) / total))
        if error <= tolerance:
            return Integral(total.reshape(shape), error)
        # The smallest errors, of half the tolerance together, stay as they are.
        worst = np.max(errors / total, axis=1)
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
        fresh = _measured(function, cells, len(old), at_rows)
        integrals = np.concatenate([integrals[old], fresh[0]])
        errors = np.concatenate([errors[old], fresh[1]])
    raise ArithmeticError(
        f"the integral of the density did not converge with {MOST_POINTS:.0e} points: it has too "
        "many kinks for that, or alpha is too small for it to be finite there"
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
    high: np.ndarray  # (D,)
    level: np.ndarray  # (c,), how often the whole box was halved
    place: np.ndarray  # (c, D), among the 2^level of each column
    home: np.ndarray  # (N,)

    @classmethod
    def whole(cls, low: np.ndarray, high: np.ndarray, rows: int) -> _Cells:
        """One cell."""
        at_zero = np.zeros((1, len(low)), np.int64)
        return cls(low, high, np.zeros(1, np.int64), at_zero, np.zeros(rows, np.int64))

    @property
    def side(self) -> np.ndarray:
        """(c, D)."""
        side: np.ndarray = (self.high - self.low) * 0.5 ** self.level[:, None]
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
    function: Callable[[np.ndarray], np.ndarray], cells: _Cells, first: int, at_rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The integrals over cells from the ``first`` on, and what they may be wrong by, (c, m) each.

    Args:
        function: see :func:`integrate`.
        cells: all of them.
        first: of those that are asked for.
        at_rows: the function's values at rows, (N, m).
    """
    side = cells.side[first:]
    corner = cells.low + side * cells.place[first:]
    D, m = corner.shape[1], at_rows.shape[1]
    nodes, polynomials, last = _expansion(D)
    integral, error, highest = (np.zeros((len(corner), m)) for _ in range(3))
    each = max(1, BLOCK // len(nodes))
    for start in range(0, len(corner), each):
        some = slice(start, start + each)
        at = corner[some, None] + side[some, None] * nodes
        values = function(at.reshape(-1, D)).reshape(len(at), len(nodes), m)
        coefficients = polynomials @ values
        integral[some] = coefficients[:, 0]
        error[some] = np.sqrt(np.sum(coefficients[:, last] ** 2, axis=1))
        highest[some] = np.max(values, axis=1)
    inside = cells.home >= first
    of_rows = np.zeros_like(highest)
    np.maximum.at(of_rows, cells.home[inside] - first, at_rows[inside])
    unseen = np.where(highest < SEEN * of_rows, of_rows, 0.0)
    volume = np.prod(side, axis=1)[:, None]
    return volume * integral, volume * np.maximum(error, unseen)


def _expansion(D: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nodes (G, D) on the unit box, and coefficients of polynomials from values there, (G, G).

    The polynomials are orthonormal products of Legendre's, the constant is first; (G,) says which
    are of the last degrees in some column.
    """
    nodes, log_weights = gauss_legendre(np.zeros(D), np.ones(D), SIZE)
    values = np.polynomial.legendre.legvander(2.0 * nodes - 1.0, SIZE - 1)  # (G, D, degrees)
    values *= np.sqrt(2.0 * np.arange(SIZE) + 1.0)
    product, degree = values[:, 0], np.arange(SIZE)
    for column in range(1, D):
        product = (product[:, :, None] * values[:, column, None]).reshape(len(nodes), -1)
        degree = np.maximum(degree[:, None], np.arange(SIZE)).ravel()
    return nodes, product.T * np.exp(log_weights), degree >= SIZE - LAST_DEGREES


def _on_finite_box(
    function: Callable[[np.ndarray], np.ndarray],
    data: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
) -> tuple[Callable[[np.ndarray], np.ndarray], np.ndarray, np.ndarray, np.ndarray]:
    """The same integral, rows and corners with axes x = middle + width t / (1 - t^2), |t| < 1.

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
