"""The Bayesian kernel embedding as an ordinary NumPyro model."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax.typing import ArrayLike

from ..kernels.base import Kernel
from ..kernels.squared_exponential import SquaredExponential
from ..likelihood.marginal import known_points
from ..likelihood.noise import Noise, check_noise
from ..likelihood.view import LikelihoodView, LogLikelihoodTerms
from ..likelihood.way import Likelihood
from ..linalg.precision import require_double
from ..measures import MEASURE_SCALE, Measure, as_measure
from .likelihoods import any_likelihood
from .priors import Prior, assign, check_noise_prior, template, with_values


def bke_model(
    X: ArrayLike | tuple[ArrayLike, ...],
    kernel: Kernel | type[Kernel] = SquaredExponential,
    prior: Prior | None = None,
    noise_variance: Noise | dist.Distribution = 0.1,
    measure: Measure | str = "unit",
    likelihood: Likelihood | str = "auto",
) -> None:
    """p(lengthscale) p(X | lengthscale), BKE section 4: hand it to MCMC, SVI or Predictive.

    Sites: ``lengthscale`` (``lengthscale_0``, ... where a kernel has several) or whatever ``prior``
    names; ``noise_variance`` and ``measure_scale`` if these have a prior; the factors ``gaussian``
    and ``volume``, the two terms of BKE (13), also recorded as the deterministic sites
    ``log_gaussian``, ``log_volume``.

    Args:
        X: data, shape (n, D) or (n,), or a tuple of samples that share the hyperparameters: then
            the likelihood is the product of theirs. No unit is removed here: the prior is on the
            lengthscale in the units of ``X`` (:func:`bke.inference.fit` can rescale).
        kernel: a kernel class or an instance, the template whose lengthscales become random.
        prior: a NumPyro distribution for every lengthscale, or a dict of them by site name. A
            distribution of shape (D,) gives one lengthscale per column (ARD). Default Gamma(1, 1).
        noise_variance: sigma^2 of BKE (5), a number; or a prior bounded away from zero; or
            ``"clt"``, ``"heteroscedastic"``, see :class:`~bke.models.SamplingNoise`.
        measure: ``"unit"``, ``"lebesgue"`` or :class:`~bke.models.Gaussian`, whose scale may be a
            prior.
        likelihood: ``"auto"``, ``"dense"``, ``"spectral"``, :class:`~bke.models.Nystrom` or
            :class:`~bke.models.Fourier`, see :func:`~bke.models.log_marginal_likelihood`; or
            :class:`~bke.models.Landmark` with places, another model of the same kernel, see
            :func:`~bke.models.landmark_log_likelihood`.

    Raises:
        RuntimeError: with JAX's 64-bit numbers switched off.
        ValueError: for an argument that makes no sense, naming it.
    """
    require_double("bke_model")
    samples = [
        sample if isinstance(sample, LikelihoodView) else known_points(sample)
        for sample in (X if isinstance(X, tuple) else (X,))
    ]
    family = template(kernel)
    measure = as_measure(measure)
    way = any_likelihood(likelihood)
    values = {
        site: numpyro.sample(site, _as_event(distribution))
        for site, distribution in assign(prior, family).items()
    }
    if isinstance(noise_variance, dist.Distribution):
        check_noise_prior(noise_variance)
        noise: Any = numpyro.sample("noise_variance", noise_variance)
    else:
        noise = check_noise(noise_variance)
    if measure.prior is not None:
        measure = measure.with_scale(numpyro.sample(MEASURE_SCALE, _as_event(measure.prior)))
    chosen = with_values(family, values)
    views = [
        x if isinstance(x, LikelihoodView) else way.view(x, chosen, noise, measure) for x in samples
    ]
    terms = [view.likelihood_terms(chosen, noise, measure) for view in views]
    total = LogLikelihoodTerms(*(sum(term) for term in zip(*terms, strict=True)))
    numpyro.factor("gaussian", total.gaussian)
    numpyro.factor("volume", total.volume)
    numpyro.deterministic("log_gaussian", jnp.asarray(total.gaussian))
    numpyro.deterministic("log_volume", jnp.asarray(total.volume))


def _as_event(distribution: dist.Distribution) -> dist.Distribution:
    """One joint draw: a vector-valued prior is one site, not a batch of conditionally free ones."""
    batch = len(distribution.batch_shape)
    return distribution.to_event(batch) if batch else distribution
