"""Short lengthscales of one column: a grid of Gaussian bumps, and bands of R.

R is by definition the integral over u of k(x, u) k(u, y), and k, up to a constant, that over m of
b(x - m) b(m - y) with the bump b(t) = exp(-t^2 / lengthscale^2). The trapezoid rule has double
precision, for the first on a grid of half a lengthscale (relative error 2 exp(-4 pi^2), Trefethen
and Weideman, SIAM Review 56 (2014), section 5), for the second on one of a quarter. With the sums
over the points q(m) = sum_i b(x_i - m), up to constants,

    mu_hat(x) = sum_m b(x - m) q(m),
    R = Phi Phi',  Phi = K_xu,  Phi'Phi[u, v] = exp(-(u - v)^2 / (4 lengthscale^2)) q((u + v) / 2).

Phi'Phi is a band, so one pass over the grid gives the Gaussian term by

    log |R + s I| = log |Phi'Phi + s I| + (n - m) log s,
    mu_hat' (R + s I)^-1 mu_hat = (mu_hat' mu_hat - z' (Phi'Phi + s I)^-1 z) / s,  z = Phi' mu_hat,

and the slope of mu_hat in every cell as a polynomial. The points enter by sums of powers over the
cells of a grid that does not move while the lengthscale doubles.

Where the lengthscale is so short that every point has few neighbors, R itself is a band.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

from ...linalg.pytrees import register_dataclass
from ...linalg.rows import PaddedRows
from .base import MAX_DENSE, Sums, gaussian_taylor, horner, pad_rows
from .pairs import neighbor_sums

#: Taylor coefficients of a cell, which is half the shortest lengthscale wide: the next term of a
#: bump is at most (1/4)^18 2^9 / sqrt(18!) = 9e-17 of its height. A cell has sums of the powers in
#: a product of two such polynomials.
TERMS = 18
POWERS = 2 * TERMS - 1
#: Cells of a block. Phi'Phi is below exp(-37) at larger distances, even at the longest lengthscale,
#: which is four cells. Also points of a block of R: those of twice as many take longer than a pass
#: over the grid.
BLOCK = 48
#: Cells that a bump and a kernel reach at the longest lengthscale: exp(-39), exp(-36).
BUMP_REACH, KERNEL_REACH = 25, 34
#: Empty blocks after the last with points, through which the pass continues.
TRAIL = 5
#: The longest over the shortest lengthscale of a range.
RANGE_FACTOR = 2.0
#: Offsets of the cells, and of the half cells, that contribute to one.
_BUMPS = np.arange(-BUMP_REACH, BUMP_REACH + 1)
_KERNELS = np.arange(-KERNEL_REACH, KERNEL_REACH + 1)
_HALF_OFFSETS = np.arange(-2 * BUMP_REACH, 2 * BUMP_REACH + 1)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class ShortLengthscales:
    """A grid for each range of lengthscales, a factor of two, from the longest down.

    Attributes:
        shortest: lengthscale of each range, (ranges,); -1 where the array is padded.
        scaled: the points in cells, ascending from 0, without the long gaps, (ranges, N).
        first: first block of each grid, (ranges,).
        count: number of its blocks, (ranges,); each grid has empty blocks behind it.
        powers: sums over the points of a cell of u^p, u in widths from the center,
            (blocks, BLOCK, POWERS).
        slots: position of a cell among the cells of its grid with points, (blocks, BLOCK);
            ``num_slots`` for cells without.
        num_slots: the largest number of cells with points.
    """

    shortest: Any
    scaled: Any
    first: Any
    count: Any
    powers: Any
    slots: Any
    num_slots: int = dataclasses.field(metadata={"static": True})

    def range_of(self, lengthscale: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return the range of the ``lengthscale``, and whether there is one."""
        index = jnp.sum(lengthscale < self.shortest)
        return index, index < jnp.sum(self.shortest > 0.0)

    def sums(
        self, n: jax.Array, lengthscale: jax.Array, noise_variance: jax.Array
    ) -> tuple[jax.Array, ...]:
        """Compute sums over ``n`` points for a lengthscale in one of the ranges.

        Returns:
            As :meth:`.LongLengthscales.sums`. In the points, long gaps are shortened.
        """
        index, _ = self.range_of(lengthscale)
        width = 0.5 * self.shortest[index]
        first, count, scaled = self.first[index], self.count[index], self.scaled[index]
        ratio = width / lengthscale
        offsets = (_BUMPS + 0.5, _BUMPS, -0.5 * _HALF_OFFSETS, _KERNELS + 0.5)
        sizes = [len(o) for o in offsets]
        scale = math.sqrt(2.0) * ratio * np.repeat([1.0, 1.0, 1.0, math.sqrt(0.5)], sizes)
        taylor = gaussian_taylor(scale * np.concatenate(offsets), scale, TERMS)
        edge, center, embedding, kernel = jnp.split(taylor, np.cumsum(sizes)[:-1], axis=1)
        height = ratio / math.sqrt(math.pi)
        embedding = 0.5 * ratio / (n * math.sqrt(0.5 * math.pi)) * embedding
        # Coefficients by which sums over cells act on what surrounds them: on q at a cell's left
        # edge and center, of q on mu_hat and the size of its slope, on z at a cell's left edge.
        to_q = jnp.stack([edge, center], axis=2)
        to_embedding = embedding.T
        to_size = jax.lax.stop_gradient(jnp.sum(jnp.abs(embedding[1:3]), axis=0) / width)
        to_z = jnp.sqrt(height) * kernel
        band = height * jnp.exp(-0.25 * (ratio * np.arange(2.0 * BLOCK)) ** 2)

        cell = np.arange(BLOCK)[:, None]
        bumps, kernels = np.arange(len(_BUMPS)), np.arange(len(_KERNELS))
        difference, total = cell - cell.T, cell + cell.T

        def step(i: jax.Array, state: Any) -> Any:
            """Advance by a block: q of block i - 1, mu_hat of i - 2, elimination of i - 3."""
            powers, contributions, q, weighted, left, derivatives, square = state
            new = jax.lax.dynamic_index_in_dim(self.powers, first + i, keepdims=False)
            added = jnp.tensordot(new[:, :TERMS], to_q, 1)
            contributions = jnp.concatenate([contributions, added])  # of blocks i - 2, i - 1, i
            new_q = jnp.sum(contributions[BLOCK + cell + _BUMPS, bumps], axis=1).reshape(-1)
            q = jnp.concatenate([q, new_q[None]])  # of blocks i - 4 to i - 1

            around = q[1:].reshape(-1)[2 * BLOCK + 2 * cell + 1 + _HALF_OFFSETS]
            embedding = around @ to_embedding
            slope = embedding[:, 1:] * np.arange(1.0, TERMS) / width
            slope = jnp.concatenate([slope, (around @ to_size)[:, None]], axis=1)
            # Sums over a cell of u^p mu_hat, from those of u^(p + k).
            products = sum(
                embedding[:, k, None] * powers[0][:, k : k + TERMS] for k in range(TERMS)
            )
            weighted = jnp.concatenate([weighted, products @ to_z])  # of blocks i - 4, i - 3, i - 2
            z = jnp.sum(weighted[BLOCK + cell + _KERNELS, kernels], axis=1)

            near = q[:2].reshape(-1)
            below = band[BLOCK + difference] * near[BLOCK + total]
            block = band[np.abs(difference)] * near[2 * BLOCK + total]
            left = eliminate(left, below, block + noise_variance * jnp.eye(BLOCK), z)
            slots = jax.lax.dynamic_index_in_dim(
                self.slots, first + jnp.maximum(i - 2, 0), keepdims=False
            )
            return (
                jnp.stack([powers[1], new]),
                contributions[BLOCK:],
                q[1:],
                weighted[BLOCK:],
                left,
                derivatives.at[slots].set(slope, mode="drop"),
                square + jnp.sum(embedding * products),
            )

        start = (
            jnp.zeros((2, BLOCK, POWERS)),
            jnp.zeros((2 * BLOCK, len(bumps), 2)),
            jnp.zeros((3, 2 * BLOCK)),
            jnp.zeros((2 * BLOCK, len(kernels))),
            _no_block(),
            jnp.zeros((self.num_slots, TERMS)),
            jnp.zeros(()),
        )
        *_, left, coefficients, square = jax.lax.fori_loop(0, count + TRAIL, step, start)
        _, _, explained, log_determinant = left
        # Points of the grid whose pivots are in the log-determinant.
        log_determinant += (n - BLOCK * (count + TRAIL - 1)) * jnp.log(noise_variance)

        cell_index = jnp.floor(scaled).astype(jnp.int32)
        offset = scaled - cell_index - 0.5
        slot = self.slots.reshape(-1).at[first * BLOCK + cell_index].get(mode="promise_in_bounds")
        values = horner(coefficients[:, :-1], slot, offset)
        sizes = coefficients[:, -1].at[slot].get(mode="promise_in_bounds")
        return (square - explained) / noise_variance, log_determinant, values, sizes, width * scaled


def short_lengthscales(
    x: np.ndarray,
    weights: np.ndarray | None,
    size: int,
    longest: float,
    least: float,
    max_blocks: int = 3000,
    max_blocks_dense: int = 400,
    blocks_as_600_rows: int = 80,
    max_ranges: int = 24,
    step: int = 4,
    max_gap: float = 14.0,
) -> ShortLengthscales:
    """Prepare ascending points (n,), with ``weights`` (n,), padded to ``size``.

    Args:
        x: points.
        weights: number of rows that each stands for.
        size: number of points with padding.
        longest: lengthscale of the first range.
        least: lengthscale from which on no ranges are needed.
        max_blocks: maximum for a grid where there are no matrices.
        max_blocks_dense: the same where there are: such short lengthscales are rare then, and every
            range takes time to prepare.
        blocks_as_600_rows: number of blocks that cost as much as the matrices of 600 rows.
        max_ranges: for data so far from each other that shorter lengthscales need no more blocks.
        step: the ranges are padded to a multiple of this, which similar data share.
        max_gap: gaps of the points are shortened to this many lengthscales: k is nothing beyond,
            and r 5e-22.
    """
    if size <= MAX_DENSE:
        max_blocks = int(min(max_blocks_dense, blocks_as_600_rows * (size / 600) ** 3))
    shortest: list[float] = []
    scaled: list[np.ndarray] = []
    while len(shortest) < max_ranges and not (shortest and longest <= least):
        below = longest / RANGE_FACTOR
        gaps = np.minimum(np.diff(x), max_gap * longest)
        grid = np.append(0.0, np.cumsum(gaps)) / (0.5 * below)
        if shortest and grid[-1] // BLOCK + 1 > max_blocks:
            break
        shortest.append(below)
        scaled.append(grid)
        longest = below
    powers, slots, num_slots, first, count = grid_tables(scaled, max_blocks, size, weights)
    padding = -len(shortest) % step
    return ShortLengthscales(
        np.array(shortest + [-1.0] * padding),
        pad_rows(np.stack(scaled + scaled[-1:] * padding, axis=1), size).T,
        np.pad(first, (0, padding)),
        np.pad(count, (0, padding)),
        powers,
        slots,
        num_slots,
    )


def grid_tables(
    grids: list[np.ndarray], max_blocks: int, max_rows: int, weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, int, np.ndarray, np.ndarray]:
    """Return the cells of the ascending points (n,) of each grid, in widths from its first cell.

    Args:
        grids: the points of each grid.
        max_blocks: number of blocks that grids usually have at most.
        max_rows: number of points with padding.
        weights: number of rows that each point stands for, (n,).

    Returns:
        ``powers``, ``slots``, ``num_slots``, ``first`` and ``count`` of :class:`ShortLengthscales`.
    """
    count = np.array([int(scaled[-1]) // BLOCK + 1 for scaled in grids])
    first = np.cumsum(count + TRAIL) - count - TRAIL
    # Padded to sizes that most data share: others would compile anew.
    usual = 2.5 * max_blocks if max_rows <= MAX_DENSE else 0.0
    total = 2 ** math.ceil(math.log2(max(first[-1] + count[-1] + TRAIL, usual)))
    num_slots = min(max(max_blocks, *count) * BLOCK, max_rows)
    powers = np.zeros((total * BLOCK, POWERS))
    slots = np.full(total * BLOCK, num_slots, dtype=np.int32)
    for scaled, begin in zip(grids, first * BLOCK, strict=True):
        cell = np.floor(scaled).astype(int)
        offset = scaled - cell - 0.5
        occupied, starts = np.unique(cell, return_index=True)
        slots[begin + occupied] = np.arange(len(occupied))
        power = np.ones_like(offset) if weights is None else weights
        for p in range(POWERS):
            powers[begin + occupied, p] = np.add.reduceat(power, starts)
            power = power * offset
    shape = (total, BLOCK)
    return powers.reshape(*shape, POWERS), slots.reshape(shape), num_slots, first, count


def longest_banded(x: np.ndarray, reach: float = 12.0) -> float:
    """Return the longest lengthscale at which R of ascending points (n,) is a band of two blocks.

    The 48th point after each is then ``reach`` lengthscales away or more, where r is below 3e-16
    of its height. Farther points contribute less than exp(-72) of the nearest neighbor to gamma.
    """
    return float(np.min(x[BLOCK:] - x[:-BLOCK]) / reach)


def banded_sums(rows: PaddedRows, lengthscale: jax.Array, noise_variance: jax.Array) -> Sums:
    """Compute the parts of BKE (13) from blocks of ascending rows."""
    n, blocks = rows.number, -(-len(rows) // BLOCK)
    # An empty block before the first and two behind the last.
    padding = (BLOCK, (blocks + 2) * BLOCK - len(rows))
    x = jnp.pad(rows.points[:, 0], padding).reshape(-1, BLOCK)
    weights = jnp.pad(rows.known.astype(x.dtype), padding).reshape(-1, BLOCK)

    def step(left: Any, i: jax.Array) -> tuple[Any, jax.Array]:
        around, weight = (
            jax.lax.dynamic_slice_in_dim(array, i, 3).reshape(-1) for array in (x, weights)
        )
        inner = slice(BLOCK, 2 * BLOCK)
        delta = (around[inner, None] - around) / lengthscale
        embedding, log_slope = neighbor_sums(delta, jnp.broadcast_to(weight, delta.shape))
        pairs = weight[inner, None] * weight[: 2 * BLOCK]
        covariance = jnp.exp(-0.25 * delta[:, : 2 * BLOCK] ** 2) * pairs
        block = covariance[:, BLOCK:] + noise_variance * jnp.eye(BLOCK)
        mean = weight[inner] * embedding / n
        left = eliminate(left, covariance[:, :BLOCK], block, mean)
        return left, log_slope - jnp.log(n * lengthscale)

    # The block behind the last adds that one's pivot to the sums.
    left, log_jacobian = jax.lax.scan(step, _no_block(), jnp.arange(blocks + 1))
    _, _, quadratic, log_determinant = left
    log_determinant = log_determinant + (n - blocks * BLOCK) * jnp.log(noise_variance)
    return Sums(quadratic, log_determinant, log_jacobian.reshape(-1)[: len(rows)])


Eliminated = tuple[jax.Array, jax.Array, jax.Array, jax.Array]


def _no_block() -> Eliminated:
    """Return the state of an elimination before the first block, with log-determinant 0."""
    return jnp.eye(BLOCK), jnp.zeros(BLOCK), jnp.zeros(()), jnp.zeros(())


@jax.custom_jvp
def eliminate(left: Eliminated, edge: jax.Array, block: jax.Array, z: jax.Array) -> Eliminated:
    """Eliminate a block of a symmetric block tridiagonal system M x = z from the next one.

    Args:
        left: what the blocks before leave: Schur complement (b, b) and right-hand side (b,) of the
            last, and the sums z' M^-1 z and log-determinant over those before it.
        edge: M between this block (rows) and the one before (columns), (b, b).
        block: M within this block, (b, b).
        z: this block of the right-hand side, (b,).

    Returns:
        The same after this block.
    """
    return _eliminate(left, edge, block, z)[0]


def _eliminate(
    left: Eliminated, edge: jax.Array, block: jax.Array, z: jax.Array
) -> tuple[Eliminated, jax.Array, jax.Array, jax.Array]:
    """Return the results, with L^-1 of the pivot L L', L^-1 edge' and L^-1 remainder."""
    pivot, remainder, explained, log_determinant = left
    factor = jnp.linalg.cholesky(pivot, symmetrize_input=False)
    # One inverse and products: several substitutions take longer than these at such sizes.
    inverse = solve_triangular(factor, jnp.eye(len(pivot), dtype=pivot.dtype), lower=True)
    along, scaled = inverse @ edge.T, inverse @ remainder
    log_determinant = log_determinant + 2.0 * jnp.sum(jnp.log(jnp.diagonal(factor)))
    schur, right = block - along.T @ along, z - scaled @ along
    return (schur, right, explained + scaled @ scaled, log_determinant), inverse, along, scaled


@eliminate.defjvp
def _eliminate_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    left, inverse, along, scaled = _eliminate(*primals)
    (pivot, remainder, explained, log_determinant), edge, block, z = tangents
    weights = along.T @ inverse  # edge pivot^-1
    solution = scaled @ inverse  # pivot^-1 remainder
    half = (edge - 0.5 * weights @ pivot) @ weights.T
    product = pivot @ solution
    return left, (
        block - half - half.T,
        z - edge @ solution - weights @ (remainder - product),
        explained + (2.0 * remainder - product) @ solution,
        log_determinant + jnp.sum((inverse @ pivot) * inverse),
    )
