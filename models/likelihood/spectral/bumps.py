"""Short lengthscales of one column, by Gaussian bumps on a grid, each of which sees what is near.

R is by definition the integral over u of k(x, u) k(u, y), and k, up to a constant, that over m of
b(x - m) b(m - y) with the bump b(t) = exp(-t^2 / lengthscale^2). The trapezoid rule is right to
double precision, for the first on a grid of half a lengthscale (relative error 2 exp(-4 pi^2),
Trefethen and Weideman, SIAM Review 56 (2014), section 5), for the second on one of a quarter. With
the sums over the points q(m) = sum_i b(x_i - m), up to constants,

    mu_hat(x) = sum_m b(x - m) q(m),
    R = Phi Phi',  Phi = K_xu,  Phi'Phi[u, v] = exp(-(u - v)^2 / (4 lengthscale^2)) q((u + v) / 2).

Phi'Phi is a band, so one pass over the grid gives the Gaussian term by

    log |R + s I| = log |Phi'Phi + s I| + (n - m) log s,
    mu_hat' (R + s I)^-1 mu_hat = (mu_hat' mu_hat - z' (Phi'Phi + s I)^-1 z) / s,  z = Phi' mu_hat,

and the slope of mu_hat in every cell as a polynomial. The points enter by sums of powers over the
cells of a grid that stays where it is while the lengthscale doubles.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ...linalg.pytrees import register_dataclass
from ...measures import Measure
from .elimination import eliminate

#: Taylor coefficients of a cell, which is half the shortest lengthscale wide: the next term of a
#: bump is at most (1/4)^18 2^9 / sqrt(18!) = 9e-17 of its height.
TERMS = 18
#: Powers of which a cell has sums: those of a product of two polynomials.
POWERS = 2 * TERMS - 1
#: Cells to a block. Phi'Phi is below exp(-37) between points of the grid further apart, even at the
#: longest lengthscale, which is four cells.
BLOCK = 48
#: Cells that a bump and a kernel reach at the longest lengthscale: exp(-39), exp(-36).
BUMP_REACH, KERNEL_REACH = 25, 34
#: Rows up to which there is room for as many blocks as most data have.
USUAL_ROWS = 5000
#: Blocks after the last with points that the pass goes on for.
TRAIL = 5


class Rules(NamedTuple):
    """How sums over cells act on places around them, at one lengthscale."""

    sums: jax.Array  # (TERMS, cells around, 2): on q at a cell's left edge and centre
    embedding: jax.Array  # (half cells around, TERMS): of q on the Taylor coefficients of mu_hat
    size: jax.Array  # (half cells around,): of q on a size of its slope
    kernel: jax.Array  # (TERMS, cells around): on z at a cell's left edge
    band: jax.Array  # (2 BLOCK,): Phi'Phi over q by the distance of two grid points
    width: jax.Array  # (), of a cell


def rules(lengthscale: jax.Array, width: jax.Array, n: jax.Array, measure: Measure) -> Rules:
    """Rules for cells of ``width``, a quarter to half a ``lengthscale``, and ``n`` points."""
    bump, kernel = (np.arange(-reach, reach + 1.0) for reach in (BUMP_REACH, KERNEL_REACH))
    halves = 0.5 * np.arange(-2 * BUMP_REACH, 2 * BUMP_REACH + 1)
    ratio = width / lengthscale
    of_bumps = [bump + 0.5, bump, -halves]
    ratios = [*[ratio] * 3, ratio / math.sqrt(2.0)]
    edge, centre, embedding, of_kernel = _taylor([*of_bumps, kernel + 0.5], ratios)
    embedding = 0.5 * ratio / (n * math.sqrt(0.5 * math.pi)) * embedding
    of_R = ratio / math.sqrt(math.pi) if measure.relative else width
    return Rules(
        jnp.stack([edge, centre], axis=2),
        embedding.T,
        jax.lax.stop_gradient(jnp.sum(jnp.abs(embedding[1:3]), axis=0) / width),
        jnp.sqrt(of_R) * of_kernel,
        of_R * jnp.exp(-0.25 * (ratio * np.arange(2.0 * BLOCK)) ** 2),
        width,
    )


def _taylor(offsets: list[np.ndarray], ratios: list[jax.Array]) -> list[jax.Array]:
    """(TERMS, k) coefficients of u^p in exp(-(ratio (offset + u))^2) for each (k,) offsets."""
    ratio = jnp.concatenate(
        [jnp.broadcast_to(r, o.shape) for r, o in zip(ratios, offsets, strict=True)]
    )
    scaled = ratio * np.concatenate(offsets)

    # A loop: unrolled, Hermite's recursion was most of what there is to compile.
    def step(two: tuple[jax.Array, jax.Array], p: jax.Array) -> tuple[Any, jax.Array]:
        before, last = two
        return (last, (-2.0 / p) * ratio * (scaled * last + ratio * before)), last

    start = jnp.zeros_like(scaled), jnp.exp(-(scaled**2))
    _, coefficients = jax.lax.scan(step, start, jnp.arange(1.0, TERMS + 1))
    return jnp.split(coefficients, np.cumsum([len(o) for o in offsets])[:-1], axis=1)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Cells:
    """The cells of any number of grids, in blocks, each grid with five empty blocks behind it."""

    powers: Any  # (blocks, BLOCK, POWERS): sums over the points of a cell of u^p, u in widths
    slots: Any  # (blocks, BLOCK): its place among the cells of its grid with points; else none
    most_slots: int = dataclasses.field(metadata={"static": True})


class Sums(NamedTuple):
    """What a pass over all blocks has found."""

    slopes: jax.Array  # (slots, TERMS): of u^p in the slope of mu_hat; last the size of its terms
    square: jax.Array  # (), mu_hat' mu_hat
    explained: jax.Array  # (), z' (Phi'Phi + s I)^-1 z
    log_determinant: jax.Array  # (), log |Phi'Phi + s I|


class _State(NamedTuple):
    """What the pass knows before step i; in brackets, of which blocks."""

    powers: jax.Array  # (2, BLOCK, POWERS) [i-2, i-1]
    shares: jax.Array  # (2, BLOCK, cells around, 2) [i-2, i-1]: in q around every cell
    q: jax.Array  # (3, 2 BLOCK) [i-4 .. i-2]: at the left edge and the centre of every cell
    weighted: jax.Array  # (2, BLOCK, cells around) [i-4, i-3]: shares in z around every cell
    pivot: jax.Array  # (BLOCK, BLOCK) [i-4]
    remainder: jax.Array  # (BLOCK,) [i-4]
    found: Sums


def pass_over(
    cells: Cells, first: jax.Array, count: jax.Array, rules: Rules, noise_variance: jax.Array
) -> Sums:
    """One pass over ``count`` blocks from the ``first`` on and the five empty ones behind them."""

    def step(i: jax.Array, state: _State) -> _State:
        powers, slots = (
            jax.lax.dynamic_index_in_dim(each, first + place, keepdims=False)
            for each, place in ((cells.powers, i), (cells.slots, jnp.maximum(i - 2, 0)))
        )
        return _step(i, state, powers, slots, rules, noise_variance)

    return jax.lax.fori_loop(0, count + TRAIL, step, _start(cells.most_slots)).found


def unknowns(count: jax.Array) -> jax.Array:
    """Points of the grid whose pivots are in the log determinant of a pass."""
    return BLOCK * (count + TRAIL - 1)


def _start(slots: int) -> _State:
    zero = jnp.zeros(())
    return _State(
        jnp.zeros((2, BLOCK, POWERS)),
        jnp.zeros((2, BLOCK, 2 * BUMP_REACH + 1, 2)),
        jnp.zeros((3, 2 * BLOCK)),
        jnp.zeros((2, BLOCK, 2 * KERNEL_REACH + 1)),
        jnp.eye(BLOCK),  # no block before the first: nothing in the log determinant
        jnp.zeros(BLOCK),
        Sums(jnp.zeros((slots, TERMS)), zero, zero, zero),
    )


_CELL = np.arange(BLOCK)[:, None]
#: Shares of cell BLOCK + c + o of three blocks in what is at cell c of the middle one.
_BUMPS, _KERNELS = np.arange(2 * BUMP_REACH + 1), np.arange(2 * KERNEL_REACH + 1)
_NEAR_BUMPS = BLOCK + _CELL + _BUMPS - BUMP_REACH
_NEAR_KERNELS = BLOCK + _CELL + _KERNELS - KERNEL_REACH
#: Half cells around the centre of cell c of the middle block of three.
_AROUND = 2 * BLOCK + 2 * _CELL + 1 + np.arange(-2 * BUMP_REACH, 2 * BUMP_REACH + 1)
#: Of two grid points, where q between them is, and how far apart they are.
_BETWEEN, _APART = _CELL + _CELL.T, _CELL - _CELL.T


def _step(
    i: jax.Array,
    state: _State,
    powers: jax.Array,
    slots: jax.Array,
    rules: Rules,
    noise_variance: jax.Array,
) -> _State:
    """One block further: of q [i-1], of mu_hat [i-2], of the elimination [i-3]."""
    share = jnp.tensordot(powers[:, :TERMS], rules.sums, 1)
    shares = jnp.concatenate([*state.shares, share])
    q = jnp.sum(shares[_NEAR_BUMPS, _BUMPS], axis=1).reshape(-1)
    q = jnp.concatenate([state.q, q[None]])  # [i-4 .. i-1]

    around = q[1:].reshape(-1)[_AROUND]
    embedding = around @ rules.embedding
    sizes = around @ rules.size
    slopes = embedding[:, 1:] * np.arange(1.0, TERMS) / rules.width
    slopes = jnp.concatenate([slopes, sizes[:, None]], axis=1)
    # Sums over a cell of u^p mu_hat, from those of u^(p + k).
    weighted = sum(embedding[:, k, None] * state.powers[0][:, k : k + TERMS] for k in range(TERMS))
    square = jnp.sum(embedding * weighted)
    weighted = jnp.concatenate([*state.weighted, weighted @ rules.kernel])
    z = jnp.sum(weighted[_NEAR_KERNELS, _KERNELS], axis=1)

    near = q[:2].reshape(-1)
    edge = rules.band[BLOCK + _APART] * near[BLOCK + _BETWEEN]
    block = rules.band[np.abs(_APART)] * near[2 * BLOCK + _BETWEEN]
    block = block + noise_variance * jnp.eye(BLOCK)
    left = eliminate(state.pivot, state.remainder, edge, block, z)

    found = state.found
    return _State(
        jnp.stack([state.powers[1], powers]),
        jnp.stack([state.shares[1], share]),
        q[1:],
        weighted[BLOCK:].reshape(2, BLOCK, -1),
        left.pivot,
        left.remainder,
        Sums(
            found.slopes.at[slots].set(slopes, mode="drop"),
            found.square + square,
            found.explained + left.explained,
            found.log_determinant + left.log_determinant,
        ),
    )


def slopes_at(
    found: Sums, cells: Cells, first: jax.Array, scaled: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Slope of mu_hat, and the size of its terms, at points (n,) in units of a cell's width."""
    cell = jnp.floor(scaled).astype(jnp.int32)
    offset = scaled - cell - 0.5
    slot = cells.slots.reshape(-1).at[first * BLOCK + cell].get(mode="promise_in_bounds")
    *slopes, sizes = (
        column.at[slot].get(mode="promise_in_bounds")
        for column in jnp.unstack(found.slopes, axis=1)
    )
    value = jnp.zeros_like(offset)
    for column in slopes[::-1]:
        value = value * offset + column
    return value, sizes


def cells_of(
    grids: list[np.ndarray], most_blocks: int, most_rows: int, weights: np.ndarray | None = None
) -> tuple[Cells, np.ndarray, np.ndarray]:
    """Cells of the ascending points (n,) of each grid, in cell widths from its first cell.

    Also the first block of each grid and how many there are; usually at most ``most_blocks``. There
    is room for ``most_rows`` points, with ``weights`` (n,).
    """
    count = np.array([blocks_of(scaled) for scaled in grids])
    first = np.cumsum(count + TRAIL) - count - TRAIL
    # Filled up to sizes that most data share: others would compile anew.
    usual = 2.5 * most_blocks if most_rows <= USUAL_ROWS else 0.0
    total = 2 ** math.ceil(math.log2(max(first[-1] + count[-1] + TRAIL, usual)))
    powers = np.zeros((total * BLOCK, POWERS))
    occupied = []
    for scaled, begin in zip(grids, first * BLOCK, strict=True):
        cell = np.floor(scaled).astype(int)
        offset = scaled - cell - 0.5
        own, starts = np.unique(cell, return_index=True)
        occupied.append(begin + own)
        power = np.ones_like(offset) if weights is None else weights
        for p in range(POWERS):
            powers[occupied[-1], p] = np.add.reduceat(power, starts)
            power = power * offset
    most_slots = min(max(most_blocks, *count) * BLOCK, most_rows)
    slots = np.full(total * BLOCK, most_slots, dtype=np.int32)
    for own in occupied:
        slots[own] = np.arange(len(own))
    cells = Cells(powers.reshape(total, BLOCK, POWERS), slots.reshape(total, BLOCK), most_slots)
    return cells, first, count


def blocks_of(scaled: np.ndarray) -> int:
    """How many hold the ascending points (n,) in units of a cell's width."""
    return int(scaled[-1]) // BLOCK + 1
