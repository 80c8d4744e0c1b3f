"""The model of BKE section 4 as a NumPyro user would write it, for comparisons.

The code follows the order of the paper's Stan program (BKE appendix B). JAX computes the gradient
through the Cholesky factor in reverse mode. There is one column, a squared exponential kernel, and
the "unit" scale of r.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax.typing import ArrayLike


def log_marginal_likelihood(
    lengthscale: ArrayLike, x: jax.Array, noise_variance: float = 0.1
) -> jax.Array:
    """BKE (13) at one lengthscale, for ``x`` of shape (n,)."""
    n = x.shape[0]
    difference = x[:, None] - x[None, :]
    K = jnp.exp(-(difference**2) / (2 * lengthscale**2))
    R = jnp.exp(-(difference**2) / (4 * lengthscale**2))
    mu_hat = jnp.mean(K, axis=1)
    gamma = jnp.abs(jnp.sum(K * difference, axis=1)) / (n * lengthscale**2)
    L = jnp.linalg.cholesky(R + noise_variance * jnp.eye(n))
    gaussian = dist.MultivariateNormal(jnp.zeros(n), scale_tril=L).log_prob(mu_hat)
    return gaussian + jnp.sum(jnp.log(gamma))


def plain_model(x: jax.Array, noise_variance: float = 0.1) -> None:
    """Gamma(1, 1) prior on the lengthscale, likelihood BKE (13)."""
    lengthscale = numpyro.sample("lengthscale", dist.Gamma(1.0, 1.0))
    numpyro.factor("likelihood", log_marginal_likelihood(lengthscale, x, noise_variance))
