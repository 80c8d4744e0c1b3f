"""The slope of mu_hat at points in several columns, by Taylor polynomials of cells.

mu_hat is a sum over the weighted nodes of :mod:`.nodes`, and in a cell of a quarter or a third of a
lengthscale a polynomial of low total degree, to double precision. A product of kernels of one
column has the product of their Taylor coefficients, so those of all cells that hold points follow
from the weights by one small matrix for each column, and every point evaluates its own cell's.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ...linalg.pytrees import register_dataclass
from ...linalg.rows import map_rows
from .nodes import Axis, along_axes

#: Cells to the shortest lengthscale of a range, by columns.
PER_LENGTHSCALE = {2: 4.0, 3: 3.0}
#: Total degree of a cell's polynomial, by columns. With half a cell's diagonal of h lengthscales,
#: the slope of the next term, of degree d + 1, is at most h^d sqrt((d + 1) / d!) = 4e-16 of a
#: kernel's height over the lengthscale.
DEGREE = {2: 14, 3: 16}
#: Powers of two between sizes that data may share: others would compile anew.
STEPS = 2


@register_dataclass
@dataclasses.dataclass(frozen=True)
class TensorCells:
    """The cells of a box that hold points, in slabs along its first column."""

    centres: Any  # tuple of (C_d,), of the cells along each column
    width: Any  # ()
    slabs: Any  # (C_1, k): which cells of a slab hold points, row by row; filled up with any

    @property
    def slots(self) -> int:
        """Places for cells with points."""
        return math.prod(self.slabs.shape)

    def polynomials(
        self, axes: tuple[Axis, ...], weights: jax.Array, lengthscale: jax.Array, n: int
    ) -> jax.Array:
        """Taylor coefficients (slots, terms) of mu_hat over a cell's width.

        mu_hat is the mean over ``n`` points with these ``weights`` at nodes.
        """
        dimension = len(axes)
        degrees = multi_indices(dimension)
        first, *others = (
            _taylor(centres, axis, self.width, lengthscale, DEGREE[dimension])
            for centres, axis in zip(self.centres, axes, strict=True)
        )
        others = [each.reshape(-1, each.shape[2]) for each in others]
        terms = DEGREE[dimension] + 1
        weights = weights / n

        def of_slab(args: tuple[jax.Array, jax.Array]) -> jax.Array:
            along_first, cells = args
            tensor = along_axes([along_first, *others], weights)
            # (terms, C_2 terms, ...) to (C_2, ..., terms, terms, ...)
            shape = itertools.chain(*((each.shape[0] // terms, terms) for each in others))
            tensor = tensor.reshape(terms, *shape)
            order = (*range(1, 2 * dimension - 1, 2), *range(0, 2 * dimension - 1, 2))
            tensor = jnp.transpose(tensor, order).reshape(-1, *[terms] * dimension)
            return tensor[cells][:, *degrees.T]

        coefficients = jax.lax.map(of_slab, (first, self.slabs))
        return coefficients.reshape(-1, len(degrees)) / self.width


class Places(NamedTuple):
    """Cell and offset of each of n points."""

    slot: Any  # (n,): in the cells; the last of all where it is in none
    offset: Any  # (n, D), from the centre of its cell, in widths

    def slopes(self, polynomials: jax.Array) -> jax.Array:
        """(n, D): of the cells' polynomials (slots, terms)."""
        dimension = self.offset.shape[1]
        degrees = multi_indices(dimension)
        exponents = np.arange(1, DEGREE[dimension] + 1)

        def at_point(place: Places) -> jax.Array:
            slot, offset = place
            powers = jnp.cumprod(jnp.broadcast_to(offset[:, None], (dimension, len(exponents))), 1)
            powers = jnp.concatenate([jnp.ones((dimension, 1)), powers], axis=1)
            rising = jnp.concatenate([jnp.zeros((dimension, 1)), exponents * powers[:, :-1]], 1)
            own = polynomials[slot]

            def along(column: int) -> jax.Array:
                product = own
                for d in range(dimension):
                    product = product * (rising if d == column else powers)[d][degrees[:, d]]
                return jnp.sum(product)

            return jnp.stack([along(column) for column in range(dimension)])

        return map_rows(at_point, self, len(degrees))


def multi_indices(dimension: int) -> np.ndarray:
    """(terms, D): exponents up to the total degree."""
    degree = DEGREE[dimension]
    every = itertools.product(range(degree + 1), repeat=dimension)
    return np.array([each for each in every if sum(each) <= degree], dtype=np.int32)


def _taylor(
    centres: jax.Array, axis: Axis, width: jax.Array, lengthscale: jax.Array, degree: int
) -> jax.Array:
    """(C, degree + 1, N): of u^p in k(centre + u width, node)."""
    ratio = width / lengthscale
    scaled = (jnp.asarray(centres)[:, None] - jnp.asarray(axis.nodes)) / lengthscale

    # A loop: unrolled, Hermite's recursion would be most of what there is to compile.
    def step(two: tuple[jax.Array, jax.Array], p: jax.Array) -> tuple[Any, jax.Array]:
        before, last = two
        return (last, (-ratio / p) * (scaled * last + ratio * before)), last

    start = jnp.zeros_like(scaled), jnp.exp(-0.5 * scaled**2)
    _, coefficients = jax.lax.scan(step, start, jnp.arange(1.0, degree + 2.0))
    return jnp.moveaxis(coefficients, 0, 1)


def tensor_cells(x: np.ndarray, inside: np.ndarray, shortest: float) -> tuple[TensorCells, Places]:
    """Cells and the places of points in them, for lengthscales from the ``shortest`` on.

    Args:
        x: (n, D), where the points lie.
        inside: (n,), which of them are to be in a cell.
        shortest: lengthscale.
    """
    width = shortest / PER_LENGTHSCALE[x.shape[1]]
    place = np.floor((x[inside] - x[inside].min(axis=0)) / width)
    centre = x[inside].min(axis=0) + (place + 0.5) * width
    centres, along = [], []
    for column, middles in zip(place.T, centre.T, strict=True):
        _, some, which = np.unique(column, return_index=True, return_inverse=True)
        centres.append(_filled(middles[some]))
        along.append(which)
    shape = [len(each) for each in centres]
    others = np.ravel_multi_index(along[1:], shape[1:])
    own, first, which = np.unique(
        along[0] * math.prod(shape[1:]) + others, return_index=True, return_inverse=True
    )
    slab = along[0][first]
    counts = np.bincount(slab, minlength=shape[0])
    most = _size(int(counts.max()))
    rank = np.arange(len(own)) - (np.cumsum(counts) - counts)[slab]
    slabs = np.zeros((shape[0], most), dtype=np.int32)
    slabs[slab, rank] = others[first]
    slot = np.full(len(x), slabs.size, dtype=np.int32)
    slot[inside] = (slab * most + rank)[which]
    offset = np.zeros_like(x)
    offset[inside] = (x[inside] - centre) / width
    return TensorCells(tuple(centres), np.float64(width), slabs), Places(slot, offset)


def _filled(values: np.ndarray) -> np.ndarray:
    return np.append(values, np.full(_size(len(values)) - len(values), values[-1]))


def _size(length: int) -> int:
    return math.ceil(2.0 ** (math.ceil(STEPS * math.log2(max(length, 4))) / STEPS))
