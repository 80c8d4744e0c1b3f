"""Cells of equal width over one column of data: sums of exponentials from their moments.

A function that varies over a lengthscale is a polynomial of low degree on a cell half as wide, to
double precision. So n points enter a sum of exponentials through a few moments per cell, and a
smooth function reaches n points through a few Taylor coefficients per cell.
"""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

#: Taylor coefficients, and moments, of a cell. On a cell of half a lengthscale the next term of the
#: derivative of a Gaussian is (1/4)^16 sqrt(17 / 16!) = 2e-16 of its height.
TERMS = 16


class Cells(NamedTuple):
    """``count`` cells of one width from 0 on; the points are known by where they lie."""

    width: jax.Array  # ()
    moments: jax.Array  # (count, TERMS): sum of u^p / p!, u in widths from the centre

    @property
    def centres(self) -> jax.Array:
        """(count,), in the units of the data."""
        return self.width * (jnp.arange(len(self.moments)) + 0.5)


def cells_over(x: np.ndarray, width: float, count: int, weights: np.ndarray | None = None) -> Cells:
    """``count`` cells that hold every entry of the ascending ``x`` (n,), with ``weights`` (n,)."""
    cell, offset = _place(x, width, count, np)
    occupied, starts = np.unique(cell, return_index=True)
    moments = np.zeros((count, TERMS))
    power = np.ones_like(x) if weights is None else weights
    for p in range(TERMS):
        moments[occupied, p] = np.add.reduceat(power, starts)
        power = power * offset / (p + 1)
    return Cells(np.float64(width), moments)  # type: ignore[arg-type]


def _place(x: Any, width: Any, count: int, xp: ModuleType) -> tuple[Any, Any]:
    """The cell of every entry and where it lies in it, in widths from the centre."""
    scaled = x / width
    cell = xp.minimum(xp.floor(scaled), count - 1).astype(xp.int32)
    return cell, scaled - cell - 0.5


class Waves(NamedTuple):
    """cos and sin of ``k spacing x`` at the cells' centres, (count, m + 1) each."""

    cosines: jax.Array
    sines: jax.Array

    def first(self, m: int) -> Waves:
        """The waves of the frequencies 0, ..., ``m`` only."""
        return Waves(self.cosines[:, : m + 1], self.sines[:, : m + 1])


#: Waves whose cosine is computed itself; the others are turned on from these.
FINE = 16


def waves_over(cells: Cells, spacing: jax.Array, m: int) -> Waves:
    """Waves of the frequencies ``spacing`` times 0, ..., ``m``."""
    centres = cells.centres[:, None]
    turn = FINE * spacing * centres
    cosine, sine = jnp.cos(turn), jnp.sin(turn)

    # A loop: XLA would work every cosine out anew for each product it is in.
    def further(waves: Waves, _: None) -> tuple[Waves, Waves]:
        a, b = waves
        return Waves(a * cosine - b * sine, b * cosine + a * sine), waves

    first = spacing * centres * jnp.arange(FINE)
    start = Waves(jnp.cos(first), jnp.sin(first))
    _, blocks = jax.lax.scan(further, start, None, length=m // FINE + 1)
    return Waves(*(jnp.moveaxis(b, 0, 1).reshape(len(centres), -1) for b in blocks)).first(m)


def _powers(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Real parts of (i x)^0, (i x)^2, ..., imaginary parts of (i x)^1, ...: (m, TERMS / 2) each."""
    ones = jnp.ones_like(x)
    even = jnp.cumprod(jnp.stack([ones, *[-(x**2)] * (TERMS // 2 - 1)], axis=1), axis=1)
    return even, even * x[:, None]


def wave_sums(cells: Cells, waves: Waves, frequencies: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Sums over the points of cos(omega x) and of sin(omega x), (m,) each."""
    even, odd = _powers(frequencies * cells.width)
    real, imaginary = cells.moments[:, ::2] @ even.T, cells.moments[:, 1::2] @ odd.T
    return (
        jnp.sum(waves.cosines * real - waves.sines * imaginary, axis=0),
        jnp.sum(waves.sines * real + waves.cosines * imaginary, axis=0),
    )


def taylor(
    cells: Cells, waves: Waves, frequencies: jax.Array, cosines: jax.Array, sines: jax.Array
) -> jax.Array:
    """Taylor coefficients (count, TERMS) in every cell of the derivative of a sum of waves.

    The function is ``sum_k cosines_k cos(omega_k x) + sines_k sin(omega_k x)``, its derivative in
    cell c the polynomial ``sum_q taylor[c, q] u^q``.
    """
    even, odd = _powers(frequencies * cells.width)
    a, b = (frequencies * cosines)[:, None], (frequencies * sines)[:, None]
    # d/du^q of cos and sin (omega x) at the centre, for even and for odd q in turn.
    even_terms = waves.cosines @ (b * even) - waves.sines @ (a * even)
    odd_terms = -waves.sines @ (b * odd) - waves.cosines @ (a * odd)
    both = jnp.stack([even_terms, odd_terms], axis=2).reshape(len(cells.moments), TERMS)
    return both / np.array([math.factorial(q) for q in range(TERMS)], dtype=float)


def evaluate(cells: Cells, coefficients: jax.Array, x: jax.Array) -> jax.Array:
    """The cells' polynomials (count, TERMS) at ``x`` (n,)."""
    cell, offset = _place(x, cells.width, len(cells.moments), jnp)
    value = jnp.zeros_like(x)
    for column in jnp.unstack(coefficients, axis=1)[::-1]:
        value = value * offset + column.at[cell].get(mode="promise_in_bounds")
    return value
