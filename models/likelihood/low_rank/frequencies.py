"""Frequencies from the spectral densities of k and of r, as smooth functions of the kernel.

By Bochner's theorem (KER-14) k(x - y) = k(0) E cos(omega'(x - y)) for a random frequency omega. It
is drawn once in a standard form, and the kernel's parameters scale it: the same draws serve every
lengthscale, and the value is smooth in them. r is k convolved with itself, so that its density is
the square of that of k.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import chi2, norm, qmc

from ...kernels.base import Kernel, per_column
from ...kernels.components import Components
from ...kernels.matern import Matern
from ...measures import Measure


class Draws(NamedTuple):
    """Standard draws for every component of a kernel, or of its r."""

    normal: np.ndarray | jax.Array  # (Q, M, D)
    radial: np.ndarray | jax.Array  # (Q, M), a factor of each; 1 but for the Matern kernel


def fourier_obstacle(kernel: Kernel, measure: Measure, dimension: int) -> str | None:
    """Why there are no frequencies to draw, in a few words; ``None`` where there are."""
    if not measure.translation_invariant:
        return "r is a function of x - y for measure='unit' and 'lebesgue' only"
    if isinstance(kernel, Matern):
        rough = "the gradient of Matern(nu=0.5) has no spectral density of finite variance"
        return rough if kernel.nu < 1.0 else None
    if kernel.components(dimension) is None:
        return f"{type(kernel).__name__} has no spectral density to draw from here"
    return None


def draw(kernel: Kernel, pairs: int, dimension: int, seed: int) -> tuple[Draws, Draws]:
    """Draws for k and for r, ``pairs`` each or a few more: every component has as many."""
    if isinstance(kernel, Matern):
        # A Student t density: nu is half its degrees of freedom, and of r 2 nu + D / 2 is.
        degrees = 2.0 * kernel.nu, 4.0 * kernel.nu + dimension
        return tuple(_draws(1, pairs, dimension, seed + i, degrees[i]) for i in (0, 1))  # type: ignore[return-value]
    components = kernel.components(dimension)
    assert components is not None
    count = len(components.log_weight)
    twice = 1 if components.frequency is None else 2
    of_smoothed = twice * count * (count + 1) // 2
    return (
        _draws(count, pairs, dimension, seed, None),
        _draws(of_smoothed, pairs, dimension, seed + 1, None),
    )


def _draws(count: int, pairs: int, dimension: int, seed: int, degrees: float | None) -> Draws:
    """Points of a scrambled Sobol' sequence for each component, mapped to normal and 1 / chi."""
    each = -(-pairs // count)
    rounds = math.ceil(math.log2(max(each, 2)))
    # A sequence dealt out to components would give each a part of the cube.
    points = np.stack(
        [
            qmc.Sobol(dimension + 1, rng=one).random_base2(rounds)[:each]
            for one in np.random.default_rng(seed).spawn(count)
        ]
    )
    points = np.clip(points, 1e-12, 1.0 - 1e-12)
    radial = np.ones((count, each))
    if degrees is not None:
        radial = 1.0 / np.sqrt(chi2(degrees).ppf(points[..., 0]))
    return Draws(norm.ppf(points[..., 1:]), radial)


def kernel_frequencies(kernel: Kernel, draws: Draws) -> tuple[jax.Array, jax.Array]:
    """Omega (M, D) and weights (M,) with k(x - y) ~ sum_j weight_j cos(omega_j'(x - y))."""
    dimension = draws.normal.shape[2]
    if isinstance(kernel, Matern):
        return _matern(kernel, draws)
    return _of_components(_components(kernel, dimension), draws)


def smoothed_frequencies(kernel: Kernel, draws: Draws) -> tuple[jax.Array, jax.Array]:
    """Frequencies and weights of r, the weights up to a constant factor."""
    dimension = draws.normal.shape[2]
    if isinstance(kernel, Matern):
        return _matern(kernel, draws)
    found = _components(kernel, dimension).convolve()
    return _of_components(
        found._replace(log_weight=found.log_weight - jax.nn.logsumexp(found.log_weight)), draws
    )


def _components(kernel: Kernel, dimension: int) -> Components:
    components = kernel.components(dimension)
    assert components is not None
    return components


def _matern(kernel: Matern, draws: Draws) -> tuple[jax.Array, jax.Array]:
    """Omega = rate z / chi: both densities fall with the same rate sqrt(2 nu) / lengthscale."""
    _, count, dimension = draws.normal.shape
    lengthscale = per_column(kernel.lengthscale, dimension, "lengthscale").reshape(-1)
    rate = math.sqrt(2.0 * kernel.nu) / lengthscale
    omega = jnp.asarray(draws.normal[0] * draws.radial[0][:, None]) * rate
    return omega, jnp.full(count, 1.0 / count)


def _of_components(components: Components, draws: Draws) -> tuple[jax.Array, jax.Array]:
    """Normal frequencies around +-2 pi f with the precision of each for their covariance."""
    count, each, dimension = draws.normal.shape
    if components.precision.ndim == 2:
        omega = jnp.asarray(draws.normal) * jnp.sqrt(components.precision)[:, None]
    else:
        omega = jnp.asarray(draws.normal) @ jnp.swapaxes(
            jnp.linalg.cholesky(components.precision), 1, 2
        )
    if components.frequency is not None:
        omega = omega + 2.0 * math.pi * components.frequency[:, None]
    weight = jnp.repeat(jnp.exp(components.log_weight) / each, each)
    return omega.reshape(count * each, dimension), weight
