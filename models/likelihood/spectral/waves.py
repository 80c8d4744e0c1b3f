"""One column in a basis of cosines and sines, for lengthscales long compared with its extent.

By the trapezoid rule in frequency, with cosines and sines Phi (n, m), R = Phi diag(w r) Phi' and
mu_hat = Phi (w k t) / n, for the spectral densities r and k, the rule's weights w and the sums t of
the waves over the points. With A = D Phi'Phi D, D^2 = diag(w r) and mu_hat = Phi D c,

    mu_hat' (R + s I)^-1 mu_hat = c' A (A + s I)^-1 c = c'c - s c' (A + s I)^-1 c,
    log |R + s I| = log |A + s I| + (n - m) log s,

and the entries of Phi'Phi are sums of waves of other frequencies. The points enter by moments of
cells of equal width: a function that varies over a lengthscale is, to double precision, a
polynomial of low degree on a cell of half a lengthscale, and a smooth function reaches the points
through Taylor coefficients of every cell.
"""

from __future__ import annotations

import dataclasses
import math
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ...kernels.squared_exponential import SquaredExponential
from ...linalg.pytrees import register_dataclass
from ...measures import Measure, Unit
from .base import horner, pad_rows, quadratic_and_log_determinant

#: Taylor coefficients, and moments, of a cell. With cells of half a lengthscale the next term of
#: the derivative of a Gaussian is (1/4)^16 sqrt(17 / 16!) = 2e-16 of its height.
TERMS = 16
CELL_DENSITY = 2
#: Highest frequency of r, in units of 1 / lengthscale: the Gaussian term must be accurate compared
#: with sigma^2, and k has fallen to 2e-11, r to 5e-22.
MAX_FREQUENCY = 7.0
#: Extent of the data over the shortest lengthscale. The basis then has 125 functions; for shorter
#: lengthscales the grid takes less time.
WAVES_RATIO = 45.0
#: Lengthscales between the data and their periodic copy: r falls to 1e-12 there, k to 1e-24.
GAP = 10.5
#: Number of frequencies of r, and of mu_hat: beyond 8.8 / lengthscale, k has less than 1.5e-17 of
#: its mass.
SMOOTHED_WAVES, EMBEDDING_WAVES = (
    math.ceil(frequency * (WAVES_RATIO + GAP) / (2.0 * math.pi))
    for frequency in (MAX_FREQUENCY, 8.8)
)

Waves = tuple[jax.Array, jax.Array]


class CellMoments(NamedTuple):
    """Consecutive cells of equal width from 0, with the moments of the points in them.

    Attributes:
        width: ().
        moments: sums of u^p / p! with u in widths from the center, (count, TERMS).
    """

    width: jax.Array
    moments: jax.Array

    @property
    def centers(self) -> jax.Array:
        """Centers of the cells, (count,), in the units of the data."""
        return self.width * (jnp.arange(len(self.moments)) + 0.5)

    def locate(self, x: Any, xp: ModuleType = jnp) -> tuple[Any, Any]:
        """Return the cell of every entry, and the offset from its center in widths."""
        scaled = x / self.width
        cell = xp.minimum(xp.floor(scaled), len(self.moments) - 1).astype(xp.int32)
        return cell, scaled - cell - 0.5


def cell_moments(
    x: np.ndarray, width: float, count: int, weights: np.ndarray | None = None
) -> CellMoments:
    """Return ``count`` cells that contain the ascending ``x`` (n,), with ``weights`` (n,)."""
    moments = np.zeros((count, TERMS))
    grid = CellMoments(np.float64(width), moments)  # type: ignore[arg-type]
    cell, offset = grid.locate(x, np)
    occupied, starts = np.unique(cell, return_index=True)
    power = np.ones_like(x) if weights is None else weights
    for p in range(TERMS):
        moments[occupied, p] = np.add.reduceat(power, starts)
        power = power * offset / (p + 1)
    return grid


def waves_over(grid: CellMoments, spacing: jax.Array, m: int, direct: int = 16) -> Waves:
    """Return cosines and sines of the frequencies ``spacing`` (0, ..., ``m``) at cell centers.

    The first ``direct`` are computed by themselves, the others by rotation; not tuned.

    Returns:
        Arrays (count, m + 1).
    """
    centers = grid.centers[:, None]
    cosine, sine = jnp.cos(direct * spacing * centers), jnp.sin(direct * spacing * centers)

    # A loop: XLA would compute every cosine again for each product that contains it.
    def rotate(waves: Waves, _: None) -> tuple[Waves, Waves]:
        a, b = waves
        return (a * cosine - b * sine, b * cosine + a * sine), waves

    angles = spacing * centers * jnp.arange(direct)
    start = jnp.cos(angles), jnp.sin(angles)
    _, blocks = jax.lax.scan(rotate, start, None, length=m // direct + 1)
    cosines, sines = (jnp.moveaxis(b, 0, 1).reshape(len(centers), -1) for b in blocks)
    return cosines[:, : m + 1], sines[:, : m + 1]


def _powers(x: jax.Array) -> Waves:
    """Real parts of (i x)^0, (i x)^2, ..., imaginary parts of (i x)^1, ...: (m, TERMS / 2)."""
    ones = jnp.ones_like(x)
    even = jnp.cumprod(jnp.stack([ones, *[-(x**2)] * (TERMS // 2 - 1)], axis=1), axis=1)
    return even, even * x[:, None]


def wave_sums(grid: CellMoments, waves: Waves, frequencies: jax.Array) -> Waves:
    """Compute the sums over the points of cos(omega x) and sin(omega x), (m,)."""
    cosines, sines = waves
    even, odd = _powers(frequencies * grid.width)
    real, imaginary = grid.moments[:, ::2] @ even.T, grid.moments[:, 1::2] @ odd.T
    return (
        jnp.sum(cosines * real - sines * imaginary, axis=0),
        jnp.sum(sines * real + cosines * imaginary, axis=0),
    )


def taylor(
    grid: CellMoments, waves: Waves, frequencies: jax.Array, a: jax.Array, b: jax.Array
) -> jax.Array:
    """Compute the Taylor coefficients (count, TERMS) of the derivative of a sum of waves.

    The sum is ``sum_k a_k cos(omega_k x) + b_k sin(omega_k x)``; its derivative in cell c is
    ``sum_q taylor[c, q] u^q``.
    """
    cosines, sines = waves
    even, odd = _powers(frequencies * grid.width)
    a, b = (frequencies * a)[:, None], (frequencies * b)[:, None]
    # d/du^q of cos and sin (omega x) at the center, for even and for odd q.
    even_terms = cosines @ (b * even) - sines @ (a * even)
    odd_terms = -sines @ (b * odd) - cosines @ (a * odd)
    both = jnp.stack([even_terms, odd_terms], axis=2).reshape(len(grid.moments), TERMS)
    return both / np.array([math.factorial(q) for q in range(TERMS)], dtype=float)


def evaluate(grid: CellMoments, coefficients: jax.Array, x: jax.Array) -> jax.Array:
    """Evaluate the cells' polynomials (count, TERMS) at ``x`` (n,)."""
    return horner(coefficients, *grid.locate(x))


def basis(
    cosines: jax.Array, sines: jax.Array, spacing: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Compute the inner products of the basis: the cosines, then the sines but for frequency 0.

    By cos a cos b = (cos(a - b) + cos(a + b)) / 2 and its like.

    Args:
        cosines: sums over the points of cos(k spacing x) for k = 0, ..., 2 f, (2 f + 1,).
        sines: sums of the sines, (2 f + 1,).
        spacing: distance of the frequencies.

    Returns:
        Phi'Phi (m, m), the sums Phi'1 (m,) and the weights (m,) of the trapezoid rule, m = 2 f + 1.
    """
    f = (len(cosines) - 1) // 2
    k = jnp.arange(f + 1)
    total, difference = k[:, None] + k, jnp.abs(k[:, None] - k)
    cc = 0.5 * (cosines[difference] + cosines[total])
    ss = 0.5 * (cosines[difference] - cosines[total])[1:, 1:]
    cs = 0.5 * (sines[total] + jnp.sign(k - k[:, None]) * sines[difference])[:, 1:]
    weights = jnp.where(k > 0, 2.0, 1.0) * spacing / (2.0 * math.pi)
    sums = jnp.concatenate([cosines[: f + 1], sines[1 : f + 1]])
    return jnp.block([[cc, cs], [cs.T, ss]]), sums, on_waves(weights)


def on_waves(values: jax.Array) -> jax.Array:
    """Return a function of the frequencies (f + 1,) for every function of the basis, (2 f + 1,)."""
    return jnp.concatenate([values, values[1:]])


def spectra(kernel: SquaredExponential, measure: Measure, frequencies: jax.Array) -> Waves:
    """Return the log spectral densities of k and r at ``frequencies`` (m,)."""
    log_kernel = kernel.log_spectral_density(frequencies[:, None])
    log_smoothed = 2.0 * log_kernel
    if measure.relative:
        origin = jnp.zeros((1, 1))
        smoothed = kernel.lebesgue_smoothed(1, relative=False)
        log_smoothed = log_smoothed - jnp.log(smoothed.matrix(origin, origin)[0, 0])
    return log_kernel, log_smoothed


@register_dataclass
@dataclasses.dataclass(frozen=True)
class LongLengthscales:
    """Sums over one column for the ``shortest`` lengthscale and all above.

    Attributes:
        shortest: ().
        x: the points (N,), ascending from 0; the last ones are padding.
        extent: extent of the points, ().
        grid: moments of their cells.
    """

    shortest: Any
    x: Any
    extent: Any
    grid: CellMoments

    def sums(
        self, n: jax.Array, kernel: SquaredExponential, noise_variance: jax.Array
    ) -> tuple[jax.Array, ...]:
        """Compute sums over ``n`` points.

        Args:
            n: number of points.
            kernel: its lengthscale is ().
            noise_variance: sigma^2.

        Returns:
            Quadratic form and log-determinant of BKE (13), derivatives of mu_hat (N,), the sizes of
            their terms, and the points (N,).
        """
        # The sums do not depend on the spacing, up to their tolerance.
        lengthscale = jnp.asarray(kernel.lengthscale)
        spacing = jax.lax.stop_gradient(2.0 * math.pi / (self.extent + GAP * lengthscale))
        f, m = SMOOTHED_WAVES, EMBEDDING_WAVES  # m < 2 f
        frequencies = spacing * jnp.arange(2 * f + 1)
        waves = waves_over(self.grid, spacing, 2 * f)
        cosines, sines = wave_sums(self.grid, waves, frequencies)
        frequencies = frequencies[: m + 1]
        log_kernel, log_smoothed = spectra(kernel, Unit(), frequencies)
        products, sums, weights = basis(cosines, sines, spacing)
        half = 0.5 * on_waves(log_smoothed[: f + 1])
        root = jnp.sqrt(weights) * jnp.exp(half)
        c = jnp.sqrt(weights) * jnp.exp(on_waves(log_kernel[: f + 1]) - half) * sums / n
        quadratic, log_determinant = quadratic_and_log_determinant(
            root[:, None] * products * root, c, noise_variance
        )
        log_determinant = log_determinant + (n - len(c)) * jnp.log(noise_variance)
        height = jnp.where(frequencies > 0.0, 2.0, 1.0) * spacing / (2.0 * math.pi * n)
        a, b = (height * jnp.exp(log_kernel) * total[: m + 1] for total in (cosines, sines))
        waves = (waves[0][:, : m + 1], waves[1][:, : m + 1])
        derivatives = evaluate(self.grid, taylor(self.grid, waves, frequencies, a, b), self.x)
        sizes = jnp.full_like(derivatives, jnp.sum(frequencies * jnp.hypot(a, b)))
        return c @ c - noise_variance * quadratic, log_determinant, derivatives, sizes, self.x


def long_lengthscales(x: np.ndarray, weights: np.ndarray | None, size: int) -> LongLengthscales:
    """Prepare ascending points (n,), with ``weights`` (n,), padded to ``size``."""
    extent = float(x[-1] - x[0])
    count = math.ceil(CELL_DENSITY * WAVES_RATIO)
    return LongLengthscales(
        np.float64(extent / WAVES_RATIO),
        pad_rows(x - x[0], size),
        np.float64(extent),
        cell_moments(x - x[0], extent / count, count, weights),
    )
