"""Random Fourier features: k and r as sums of waves.

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
from .jacobian import log_norm


class FrequencyDraws(NamedTuple):
    """Standard draws for each of Q components of a kernel, or of its r.

    Args:
        normal: shape (Q, M, D).
        radial: a factor of each, shape (Q, M); 1 except for the Matern kernel.
    """

    normal: np.ndarray | jax.Array
    radial: np.ndarray | jax.Array


@register_dataclass
@dataclasses.dataclass(frozen=True)
class FourierBasis:
    """k(x, y) ~ sum_j w_j cos(omega_j'(x - y)), and r alike with other frequencies.

    Rahimi and Recht (2007), with frequencies from a scrambled Sobol' sequence instead of
    independent ones. Cosine and sine of each frequency are both features, so that k(x, x) and
    r(x, x) are exact.

    Far less accurate than landmarks: an error of mu_hat that is the same everywhere is a large one
    of log gamma where mu_hat is flat. With 2000 rows of 10 normal columns and 300 features the
    standard deviation of that of one row is 0.05 (0.07 with independent frequencies, 0.04 with
    orthogonal ones), where 300 landmarks give 0.0006; with Student t columns of 4 degrees of
    freedom it is 0.14, and 4 at the outermost row, where landmarks give 0.002 and 0.06. The
    correction by exact rows removes most of it, see ``benchmarks/low_rank.py``, and the error
    estimate includes the rest.

    Args:
        of_kernel: draws of the frequencies of k.
        of_smoothed: draws of the frequencies of r.
    """

    of_kernel: FrequencyDraws
    of_smoothed: FrequencyDraws

    @property
    def size(self) -> int:
        """Number of features of r, m."""
        return 2 * math.prod(self.of_smoothed.radial.shape)

    def whitening(self, smoothed: Covariance) -> jax.Array:
        """Compute r(x, x), the sum of the weights of the features."""
        origin = jnp.zeros((1, self.of_kernel.normal.shape[2]))
        return smoothed.matrix(origin, origin)[0, 0]

    def smoothed_features(
        self, X: jax.Array, kernel: Kernel, smoothed: Covariance, whitening: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Compute the waves of r, and the diagonal of the remainder, which is zero."""
        omega, weight = smoothed_frequencies(kernel, self.of_smoothed)
        amplitude = jnp.sqrt(whitening * weight / jnp.sum(weight))
        return jnp.tile(amplitude, 2) * _waves(X, omega), jnp.zeros(len(X))

    def embedding_features(self, X: jax.Array, kernel: Kernel) -> jax.Array:
        """Compute the cosines, then the sines, of the frequencies of k."""
        return _waves(X, kernel_frequencies(kernel, self.of_kernel)[0])

    def weights(self, mean: jax.Array, kernel: Kernel) -> jax.Array:
        """Compute the weights of the cosines, then of the sines, in mu_hat."""
        return jnp.tile(kernel_frequencies(kernel, self.of_kernel)[1], 2) * mean

    def embedding(
        self, X: jax.Array, kernel: Kernel, weights: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Compute mu_hat and log gamma as sums of waves."""
        omega, _ = kernel_frequencies(kernel, self.of_kernel)
        waves = _waves(X, omega)
        cosine, sine = jnp.split(waves, 2, axis=1)
        cosine_weights, sine_weights = jnp.split(weights, 2)
        gradient = (cosine * sine_weights - sine * cosine_weights) @ omega
        return waves @ weights, log_norm(gradient)


def _waves(X: jax.Array, omega: jax.Array) -> jax.Array:
    """Compute the cosines, then the sines, of ``X`` (n, D) at frequencies (M, D), (n, 2 M)."""
    phase = X @ omega.T
    return jnp.concatenate([jnp.cos(phase), jnp.sin(phase)], axis=1)


def unsupported_reason(kernel: Kernel, measure: Measure, dimension: int) -> str | None:
    """Return why there is no spectral density to draw from, or ``None`` if there is."""
    if not measure.translation_invariant:
        return "r is a function of x - y for measure='unit' and 'lebesgue' only"
    if isinstance(kernel, Matern):
        rough = "the gradient of Matern(nu=0.5) has no spectral density of finite variance"
        return rough if kernel.nu < 1.0 else None
    if kernel.components(dimension) is None:
        return f"{type(kernel).__name__} has no spectral density to draw from here"
    return None


def draw_frequencies(
    kernel: Kernel, pairs: int, dimension: int, seed: int
) -> tuple[FrequencyDraws, FrequencyDraws]:
    """Draw at least ``pairs`` frequencies for k and for r, equally many of every component."""
    degrees: tuple[float | None, float | None] = None, None
    if isinstance(kernel, Matern):
        # A Student t density: nu is half its degrees of freedom, 2 nu + D / 2 that of r.
        counts, degrees = (1, 1), (2.0 * kernel.nu, 4.0 * kernel.nu + dimension)
    else:
        components = cast(Components, kernel.components(dimension))
        count, signs = len(components.log_weight), 1 if components.frequency is None else 2
        counts = count, signs * count * (count + 1) // 2
    of_kernel, of_smoothed = (
        _draw(counts[i], pairs, dimension, seed + i, degrees[i]) for i in (0, 1)
    )
    return of_kernel, of_smoothed


def _draw(
    count: int, pairs: int, dimension: int, seed: int, degrees: float | None
) -> FrequencyDraws:
    """Map points of a scrambled Sobol' sequence for each component to normal and 1 / chi."""
    size = -(-pairs // count)
    # One sequence divided among the components would give each a part of the cube.
    points = np.stack(
        [
            qmc.Sobol(dimension + 1, rng=rng).random_base2(math.ceil(math.log2(max(size, 2))))[
                :size
            ]
            for rng in np.random.default_rng(seed).spawn(count)
        ]
    )
    points = np.clip(points, 1e-12, 1.0 - 1e-12)
    radial = np.ones((count, size))
    if degrees is not None:
        radial = 1.0 / np.sqrt(chi2(degrees).ppf(points[..., 0]))
    return FrequencyDraws(norm.ppf(points[..., 1:]), radial)


def kernel_frequencies(kernel: Kernel, draws: FrequencyDraws) -> tuple[jax.Array, jax.Array]:
    """Compute omega (M, D) and weights (M,) with k(x - y) ~ sum_j weight_j cos(omega_j'(x - y))."""
    if isinstance(kernel, Matern):
        return _matern_frequencies(kernel, draws)
    components = cast(Components, kernel.components(draws.normal.shape[2]))
    return _component_frequencies(components, draws)


def smoothed_frequencies(kernel: Kernel, draws: FrequencyDraws) -> tuple[jax.Array, jax.Array]:
    """Compute frequencies and weights of r, the weights up to a constant factor."""
    if isinstance(kernel, Matern):
        return _matern_frequencies(kernel, draws)
    components = cast(Components, kernel.components(draws.normal.shape[2])).convolve()
    log_weight = components.log_weight - jax.nn.logsumexp(components.log_weight)
    return _component_frequencies(components._replace(log_weight=log_weight), draws)


def _matern_frequencies(kernel: Matern, draws: FrequencyDraws) -> tuple[jax.Array, jax.Array]:
    """Compute omega = rate z / chi: both densities fall with the rate sqrt(2 nu) / lengthscale."""
    _, count, dimension = draws.normal.shape
    lengthscale = per_column(kernel.lengthscale, dimension, "lengthscale").reshape(-1)
    rate = math.sqrt(2.0 * kernel.nu) / lengthscale
    omega = jnp.asarray(draws.normal[0] * draws.radial[0][:, None]) * rate
    return omega, jnp.full(count, 1.0 / count)


def _component_frequencies(
    components: Components, draws: FrequencyDraws
) -> tuple[jax.Array, jax.Array]:
    """Compute normal frequencies around +-2 pi f whose covariance is each component's precision."""
    count, size, dimension = draws.normal.shape
    if components.precision.ndim == 2:
        omega = jnp.asarray(draws.normal) * jnp.sqrt(components.precision)[:, None]
    else:
        cholesky = jnp.linalg.cholesky(components.precision)
        omega = jnp.asarray(draws.normal) @ jnp.swapaxes(cholesky, 1, 2)
    if components.frequency is not None:
        omega = omega + 2.0 * math.pi * components.frequency[:, None]
    weight = jnp.repeat(jnp.exp(components.log_weight) / size, size)
    return omega.reshape(count * size, dimension), weight
