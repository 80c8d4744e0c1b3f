"""Bayesian distribution regression as an ordinary NumPyro model."""

from __future__ import annotations

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax.typing import ArrayLike


def distribution_regression_model(
    centre: ArrayLike, variance: ArrayLike, y: ArrayLike | None = None, prior_scale: float = 1.0
) -> None:
    """p(slopes) p(y | slopes), y linear in mean embeddings that are known up to their posterior.

    ``y_i ~ N(intercept + slopes' m_i, noise^2 + slopes' C_i slopes)``, the embedding's posterior
    N(m_i, C_i) integrated out: "BDR" of Law et al. (2018, section 4.3, equation 8). Sites:
    ``intercept``, ``standard`` (q,), ``scale`` and ``noise``, with priors N(0, 1), N(0, 1) and half
    normal ones; the slopes are ``scale`` times ``standard``.

    Args:
        centre: posterior means m (G, q) of the groups' embeddings in coordinates.
        variance: posterior variances (G, q) there, the diagonals of C; zeros for embeddings that
            are taken to be known.
        y: (G,), with mean 0 and deviation 1 or so; none to draw it.
        prior_scale: of ``scale``: a slope that alone would explain all of y.
    """
    centre, variance = jnp.asarray(centre), jnp.asarray(variance)
    groups, coordinates = centre.shape
    intercept = numpyro.sample("intercept", dist.Normal(0.0, 1.0))
    noise = numpyro.sample("noise", dist.HalfNormal(1.0))
    scale = numpyro.sample("scale", dist.HalfNormal(prior_scale))
    with numpyro.plate("coordinates", coordinates):
        standard = numpyro.sample("standard", dist.Normal(0.0, 1.0))
    slopes = numpyro.deterministic("slopes", scale * standard)
    deviation = jnp.sqrt(noise**2 + variance @ slopes**2)
    with numpyro.plate("groups", groups):
        numpyro.sample("y", dist.Normal(intercept + centre @ slopes, deviation), obs=y)
