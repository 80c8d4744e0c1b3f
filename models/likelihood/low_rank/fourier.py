"""Random Fourier features: k and r as sums of waves."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from ...kernels.base import Covariance, Kernel
from ...linalg.pytrees import register_dataclass
from .frequencies import Draws, kernel_frequencies, smoothed_frequencies
from .nystrom import log_norm


@register_dataclass
@dataclasses.dataclass(frozen=True)
class FourierBasis:
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
