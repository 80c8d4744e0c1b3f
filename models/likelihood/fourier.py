"""Frequencies from the spectral densities of k and of r, as smooth functions of the kernel.

By Bochner's theorem (KER-14) k(x - y) = k(0) E cos(omega'(x - y)) for a random frequency omega. It
is drawn once in a standard form, and the kernel's parameters scale it: the same draws serve every
lengthscale, and the value is smooth in them. r is k convolved with itself, so that its density is
the square of that of k.
"""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import chi2, norm, qmc

from ..kernels.base import Covariance, Kernel, per_column
from ..kernels.components import Components
from ..kernels.matern import Matern
from ..linalg.pytrees import register_dataclass
from ..measures import Measure
from .low_rank import FeatureBasis, LowRank, log_norm


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


@register_dataclass
@dataclasses.dataclass(frozen=True)
class FourierBasis(FeatureBasis):
    """k(x, y) ~ sum_j w_j cos(omega_j'(x - y)), and r likewise with frequencies of its own.

    Rahimi and Recht (2007), with frequencies from a scrambled Sobol' sequence in place of
    independent ones. Cosine and sine of each frequency are both features, so that k(x, x) and
    r(x, x) are exact.

    The poorer of the two bases by far: an error of mu_hat that is the same everywhere is a large
    one of log gamma where mu_hat is flat. With 2000 rows of 10 normal columns and 300 features the
    standard deviation of that of one row is 0.05 (0.07 with independent frequencies, 0.04 with
    orthogonal ones), where 300 landmarks give 0.0006; with Student t columns of 4 degrees of
    freedom it is 0.14, and 4 at the outermost row, where landmarks give 0.002 and 0.06. The
    correction by exact rows takes most of it, see ``benchmarks/low_rank.py``, and what is left is
    in the error that is printed.
    """

    of_kernel: Draws
    of_smoothed: Draws

    semidefinite_remainder = False

    @property
    def size(self) -> int:
        """The number of features of r, m."""
        count, each, _ = self.of_smoothed.normal.shape
        return int(2 * count * each)

    def whitening(self, smoothed: Covariance) -> jax.Array:
        """The value r(x, x): the weights of the features add up to it."""
        dimension = self.of_kernel.normal.shape[2]
        origin = jnp.zeros((1, dimension))
        return smoothed.matrix(origin, origin)[0, 0]

    def smoothed_features(
        self, X: jax.Array, kernel: Kernel, smoothed: Covariance, whitening: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Psi (n, m) with R ~ Psi Psi', and the diagonal of the remainder, which is zero."""
        omega, weight = smoothed_frequencies(kernel, self.of_smoothed)
        phase = X @ omega.T
        amplitude = jnp.sqrt(whitening * weight / jnp.sum(weight))
        waves = [amplitude * jnp.cos(phase), amplitude * jnp.sin(phase)]
        return jnp.concatenate(waves, axis=1), jnp.zeros(len(X))

    def embedding_features(self, X: jax.Array, kernel: Kernel) -> jax.Array:
        """What :meth:`weights` needs the mean of over rows."""
        phase = X @ kernel_frequencies(kernel, self.of_kernel)[0].T
        return jnp.concatenate([jnp.cos(phase), jnp.sin(phase)], axis=1)

    def weights(self, mean: jax.Array, kernel: Kernel) -> jax.Array:
        """Weights of the cosines, then of the sines, in mu_hat."""
        weight = kernel_frequencies(kernel, self.of_kernel)[1]
        return jnp.tile(weight, 2) * mean

    def embedding(
        self, X: jax.Array, kernel: Kernel, weights: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Mu_hat and log gamma at the rows of ``X`` (n, D), (n,) each."""
        omega = kernel_frequencies(kernel, self.of_kernel)[0]
        phase = X @ omega.T
        cosine, sine = jnp.cos(phase), jnp.sin(phase)
        of_cosine, of_sine = jnp.split(weights, 2)
        value = cosine @ of_cosine + sine @ of_sine
        return value, log_norm((cosine * of_sine - sine * of_cosine) @ omega)


@dataclasses.dataclass(frozen=True)
class Fourier(LowRank):
    """R and mu_hat as sums of ``rank`` random waves: less accurate by far than Nystrom.

    Args:
        rank: m, from 1 to the number of rows; the cost is that of n m (m + D).
    """

    name = "fourier"
    title = "Fourier"

    def basis(
        self,
        data: np.ndarray,
        kernel: Kernel,
        measure: Measure,
        rng: np.random.Generator,
        seed: int,
    ) -> FourierBasis:
        """Frequencies from the spectral densities of k and r."""
        dimension = data.shape[1]
        if obstacle := fourier_obstacle(kernel, measure, dimension):
            raise ValueError(f"likelihood='fourier' cannot be used here: {obstacle}")
        of_kernel, of_smoothed = draw(kernel, max(1, self.rank // 2), dimension, seed)
        return cast(FourierBasis, jax.tree.map(jnp.asarray, FourierBasis(of_kernel, of_smoothed)))
