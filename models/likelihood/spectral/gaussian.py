"""The Gaussian term of BKE (13) in the basis of waves: no n x n matrix, and no point, is needed.

With cosines and sines Phi (n, m), R = Phi diag(w r) Phi' and mu_hat = Phi (w k t) / n, for the
spectral densities r and k, the trapezoid rule's weights w and the sums t of the waves over the
points. Everything then follows from Phi'Phi, whose entries are sums of waves of other frequencies:
with A = D Phi'Phi D, D^2 = diag(w r) and mu_hat = Phi D c,

    mu_hat' (R + s I)^-1 mu_hat = c' A (A + s I)^-1 c,
    log |R + s I| = log |A + s I| + (n - m) log s.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve, solve_triangular

from ...kernels.squared_exponential import SquaredExponential
from ...measures import Measure


class Basis(NamedTuple):
    """What the Gaussian term knows of the data."""

    products: jax.Array  # (m, m), Phi'Phi: the cosines of all frequencies, then the sines
    sums: jax.Array  # (m,), Phi'1
    weights: jax.Array  # (m,), of the trapezoid rule
    points: jax.Array  # (), n


def basis(cosines: jax.Array, sines: jax.Array, spacing: jax.Array, count: Any) -> Basis:
    """The basis from sums of cos and sin (k spacing x) over points, k = 0, ..., 2 f.

    They are (2 f + 1,) each.


    By cos a cos b = (cos(a - b) + cos(a + b)) / 2 and the like.
    """
    f = (len(cosines) - 1) // 2
    k = jnp.arange(f + 1)
    both, apart = k[:, None] + k, jnp.abs(k[:, None] - k)
    sign = jnp.sign(k - k[:, None])
    cc = 0.5 * (cosines[apart] + cosines[both])
    ss = 0.5 * (cosines[apart] - cosines[both])[1:, 1:]
    cs = 0.5 * (sines[both] + sign * sines[apart])[:, 1:]
    products = jnp.block([[cc, cs], [cs.T, ss]])
    twice = jnp.where(k > 0, 2.0, 1.0) * spacing / (2.0 * math.pi)
    return Basis(
        products,
        jnp.concatenate([cosines[: f + 1], sines[1 : f + 1]]),
        jnp.concatenate([twice, twice[1:]]),
        jnp.asarray(count, cosines.dtype),
    )


def on_waves(of_frequencies: jax.Array) -> jax.Array:
    """A function of the frequencies (f + 1,) on the basis (2 f + 1,)."""
    return jnp.concatenate([of_frequencies, of_frequencies[1:]])


class Spectra(NamedTuple):
    """Log spectral densities of k and r, of the same shape; the waves beyond are nothing."""

    log_kernel: jax.Array
    log_smoothed: jax.Array


def spectra(kernel: SquaredExponential, measure: Measure, frequencies: jax.Array) -> Spectra:
    """Spectra at ``frequencies`` (m,): r is k convolved with itself, relative or not."""
    log_kernel = kernel.log_spectral_density(frequencies[:, None])
    log_smoothed = 2.0 * log_kernel
    if measure.relative:
        origin = jnp.zeros((1, 1))
        log_smoothed = log_smoothed - jnp.log(
            kernel.lebesgue_smoothed(1, relative=False).matrix(origin, origin)[0, 0]
        )
    return Spectra(log_kernel, log_smoothed)


@jax.custom_jvp
def gaussian_term(spectra: Spectra, noise_variance: jax.Array, data: Basis) -> jax.Array:
    """Log N(mu_hat; 0, R + noise_variance I), a scalar."""
    return _value_and_slopes(spectra, noise_variance, data, slopes=False)[0]


@gaussian_term.defjvp
def _gaussian_term_jvp(primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    spectra_dot, noise_dot, _ = tangents
    value, of_spectra, of_noise = _value_and_slopes(*primals, slopes=True)
    return value, (
        of_spectra.log_kernel @ spectra_dot.log_kernel
        + of_spectra.log_smoothed @ spectra_dot.log_smoothed
        + of_noise * noise_dot
    )


def _value_and_slopes(
    spectra: Spectra, noise_variance: jax.Array, data: Basis, *, slopes: bool
) -> tuple[jax.Array, Spectra, jax.Array]:
    m = len(data.sums)
    root = jnp.sqrt(data.weights) * jnp.exp(0.5 * spectra.log_smoothed)
    A = root[:, None] * data.products * root
    c = jnp.sqrt(data.weights) * jnp.exp(spectra.log_kernel - 0.5 * spectra.log_smoothed)
    c = c * data.sums / data.points
    cholesky = jnp.linalg.cholesky(A + noise_variance * jnp.eye(m, dtype=A.dtype))
    w = cho_solve((cholesky, True), c)
    v = A @ w  # D Phi' (R + s I)^-1 mu_hat
    log_determinant = 2.0 * jnp.sum(jnp.log(jnp.diagonal(cholesky)))
    log_determinant = log_determinant + (data.points - m) * jnp.log(noise_variance)
    value = -0.5 * (v @ c + log_determinant + data.points * math.log(2.0 * math.pi))
    # As by the matrices: no number where the noise is lost to rounding beside tr R = tr A.
    value = jnp.where(jnp.trace(A) * jnp.finfo(A.dtype).eps < noise_variance, value, jnp.nan)
    if not slopes:
        return value, spectra, noise_variance
    inverse_diagonal = _inverse_diagonal(cholesky)
    of_smoothed = 0.5 * v**2 - 0.5 * (1.0 - noise_variance * inverse_diagonal)
    trace = (data.points - m) / noise_variance + jnp.sum(inverse_diagonal)
    return value, Spectra(-v * c, of_smoothed), 0.5 * (w @ v - trace)


#: Triangular matrices beyond this are inverted by halves: products are faster than substitution.
BLOCK = 128


def _inverse_diagonal(cholesky: jax.Array) -> jax.Array:
    """The diagonal of the inverse (m, m), from its Cholesky factor."""

    def inverse(factor: jax.Array) -> jax.Array:
        m = len(factor)
        if m <= BLOCK:
            return solve_triangular(factor, jnp.eye(m, dtype=factor.dtype), lower=True)
        h = m // 2
        upper, lower = inverse(factor[:h, :h]), inverse(factor[h:, h:])
        edge = -lower @ (factor[h:, :h] @ upper)
        return jnp.block([[upper, jnp.zeros((h, m - h), factor.dtype)], [edge, lower]])

    return jnp.sum(inverse(cholesky) ** 2, axis=0)
