"""NumPyro models: Bayesian kernel embedding, two scales, conditional, distribution regression."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax.typing import ArrayLike

from .embeddings.conditional_posterior import log_conditional_evidence
from .kernels.base import Covariance, Kernel, as_samples
from .kernels.squared_exponential import SquaredExponential
from .likelihood.base import Likelihood, compiled_terms
from .likelihood.marginal import as_likelihood, likelihood_solver
from .likelihood.noise import Noise, check_noise
from .linalg.precision import double_precision, require_double
from .linalg.symmetric import inverse_and_log_determinant
from .measures import MEASURE_SCALE, Measure, as_measure
from .priors import Prior, assign, check_noise_prior, default_prior, template, with_values


def bke_model(
    X: ArrayLike | tuple[ArrayLike, ...],
    kernel: Kernel | type[Kernel] = SquaredExponential,
    prior: Prior | None = None,
    noise_variance: Noise | dist.Distribution = 0.1,
    measure: Measure | str = "unit",
    likelihood: Likelihood | str = "auto",
) -> Kernel:
    """Define the prior of the lengthscale and the marginal pseudo-likelihood of X (BKE section 4).

    Sites: ``lengthscale`` (``lengthscale_0``, ... where a kernel has several) or whatever ``prior``
    names; ``noise_variance`` and ``measure_scale`` if these have a prior; the factors ``gaussian``
    and ``jacobian``, the two terms of BKE (13), also recorded as the deterministic sites
    ``log_gaussian``, ``log_jacobian``.

    Args:
        X: data, shape (n, D) or (n,), or a tuple of samples that share the hyperparameters: then
            the likelihood is the product of theirs. Columns are not rescaled here: the prior is on
            the lengthscale in the units of ``X`` (:func:`bke.inference.fit` can rescale).
        kernel: a kernel class or an instance, the template whose lengthscales become random.
        prior: a NumPyro distribution for every lengthscale, or a dict of them by site name. A
            distribution of shape (D,) gives one lengthscale per column (ARD). Default Gamma(1, 1).
        noise_variance: sigma^2 of BKE (5), a number; or a prior bounded away from zero; or
            ``"clt"``, ``"heteroscedastic"``, see :class:`~bke.models.SamplingNoise`.
        measure: ``"unit"``, ``"lebesgue"`` or :class:`~bke.models.Gaussian`, whose scale may be a
            prior.
        likelihood: ``"auto"``, ``"dense"``, ``"spectral"``, :class:`~bke.models.Nystrom` or
            :class:`~bke.models.Fourier`, see :func:`~bke.models.log_marginal_likelihood`; or
            :class:`~bke.models.Landmark` with points, another model of the same kernel, see
            :func:`~bke.models.landmark_log_likelihood`.

    Returns:
        The kernel with its lengthscales.

    Raises:
        RuntimeError: with JAX's 64-bit numbers switched off.
        ValueError: for an invalid argument, naming it.
    """
    require_double("bke_model")
    family = template(kernel)
    measure = as_measure(measure)
    likelihood = as_likelihood(likelihood)
    # `to_event` makes a vector one site, not a batch of conditionally independent ones.
    values = {
        site: numpyro.sample(site, distribution.to_event())
        for site, distribution in assign(prior, family).items()
    }
    if isinstance(noise_variance, dist.Distribution):
        check_noise_prior(noise_variance)
        noise: Any = numpyro.sample("noise_variance", noise_variance)
    else:
        noise = check_noise(noise_variance)
    if measure.prior is not None:
        measure = measure.with_scale(numpyro.sample(MEASURE_SCALE, measure.prior.to_event()))
    kernel = with_values(family, values)
    solvers = (
        likelihood_solver(sample, kernel, noise, measure, likelihood)
        for sample in (X if isinstance(X, tuple) else (X,))
    )
    terms = (compiled_terms(solver, kernel, noise, measure) for solver in solvers)
    gaussian, jacobian = (sum(term) for term in zip(*terms, strict=True))
    numpyro.factor("gaussian", gaussian)
    numpyro.factor("jacobian", jacobian)
    numpyro.deterministic("log_gaussian", jnp.asarray(gaussian))
    numpyro.deterministic("log_jacobian", jnp.asarray(jacobian))
    return kernel


def two_scale_model(
    P: ArrayLike,
    Q: ArrayLike,
    *,
    difference_prior: Prior | None = None,
    size_prior: dist.Distribution | None = None,
    **shape: Any,
) -> None:
    """Define a model of two samples with a lengthscale of their common shape and of the difference.

    p(lengthscale) p(difference lengthscale) p(size) p(rows | lengthscale) p(labels | rows, ...).
    The pooled rows have the BKE likelihood at ``lengthscale``, the scale of the shape that both
    samples share; the sample that each row belongs to has the Bayes factor of
    :func:`~bke.models.log_difference_evidence` at ``difference_lengthscale`` and
    ``difference_size``. The two parts share no site.

    Its sites are the sites of :func:`~bke.models.bke_model`, ``difference_lengthscale``,
    ``difference_size`` and the factor ``difference``, also recorded as the deterministic site
    ``log_difference``.

    Args:
        P: rows (m, D) or (m,), not rescaled: priors are in their units.
        Q: rows (n, D) or (n,).
        difference_prior: prior of the difference's lengthscale, a number or, of shape (D,), one per
            column; by default Gamma(1, 1).
        size_prior: prior of s; by default log-uniform from 0.01 to 1, so s^2 is between 1e-4, a
            difference that 10 000 rows do not show, and 1, where one density is nearly zero in
            some regions.
        **shape: arguments of :func:`~bke.models.bke_model`.

    Raises:
        RuntimeError: with JAX's 64-bit numbers switched off.
        ValueError: for an invalid argument, naming it.
    """
    require_double("two_scale_model")
    first, second = as_samples(P, Q, ("P", "Q"))
    bke_model(jnp.concatenate([first, second]), **shape)
    family = template(SquaredExponential)
    ((site, prior),) = assign(difference_prior or default_prior(), family).items()
    value = numpyro.sample(f"difference_{site}", prior.to_event())
    size = numpyro.sample("difference_size", size_prior or dist.LogUniform(0.01, 1.0))
    kernel = with_values(family, {site: value})
    log_bayes_factor = log_difference_evidence(first, second, kernel, size)
    numpyro.factor("difference", log_bayes_factor)
    numpyro.deterministic("log_difference", log_bayes_factor)


def conditional_model(
    X: ArrayLike,
    Y: ArrayLike,
    landmarks: ArrayLike,
    *,
    kernel_x: Kernel | type[Kernel] = SquaredExponential,
    prior_x: Prior | None = None,
    regularization_prior: dist.Distribution | None = None,
    **marginal: Any,
) -> None:
    """Define a model of the conditional embedding of Y given X.

    p(lengthscale) p(x lengthscale) p(lambda) p(Y | lengthscale) p(pairs | Y, ...): Y has the BKE
    likelihood, and its pairing with X the Bayes factor of
    :func:`~bke.models.log_conditional_evidence`. From draws
    :func:`~bke.models.conditional_posterior` computes the posterior of conditional expectations.

    Its sites are the sites of :func:`~bke.models.bke_model` for Y, those of the kernel of X with
    ``x_`` before the name, such as ``x_lengthscale``, ``regularization`` and the factor
    ``conditional``, also recorded as the deterministic site ``log_conditional``.

    Args:
        X: the conditioning variable, (n, D) or (n,), not rescaled: priors are in its units.
        Y: shape (n, E) or (n,), row by row with X, not rescaled.
        landmarks: points (m, E), see :func:`~bke.models.choose_landmarks`.
        kernel_x: a kernel class or an instance, the template whose lengthscales become random.
        prior_x: prior of the kernel of X, as ``prior`` of :func:`~bke.models.bke_model`.
        regularization_prior: prior of lambda; by default log-uniform from 0.0001 to 100.
        **marginal: arguments of :func:`~bke.models.bke_model`, for Y.

    Raises:
        RuntimeError: with JAX's 64-bit numbers switched off.
        ValueError: for an invalid argument, naming it.
    """
    require_double("conditional_model")
    kernel_y = bke_model(Y, **marginal)
    family = template(kernel_x)
    values = {
        site: numpyro.sample(f"x_{site}", distribution.to_event())
        for site, distribution in assign(prior_x, family).items()
    }
    prior = regularization_prior or dist.LogUniform(1e-4, 1e2)
    regularization = numpyro.sample("regularization", prior)
    log_bayes_factor = log_conditional_evidence(
        X, Y, landmarks, with_values(family, values), kernel_y, regularization
    )
    numpyro.factor("conditional", log_bayes_factor)
    numpyro.deterministic("log_conditional", log_bayes_factor)


@double_precision
def log_difference_evidence(
    P: ArrayLike, Q: ArrayLike, kernel: Covariance, size: ArrayLike
) -> jax.Array:
    """Compute the log Bayes factor of P != Q, by regression of the sample labels on the rows.

    Let f be the density of the pooled rows z_i, p = f (1 + (1 - pi) h) and q = f (1 - pi h), with
    pi the proportion of P's rows. Given the rows, a row is of P with probability
    ``pi + pi (1 - pi) h(z)``, so the standardized label ``y_i = (1[i of P] - pi) /
    sqrt(pi (1 - pi))`` is ``sqrt(pi (1 - pi)) h(z_i)`` and noise of variance 1, to first order in
    h. With ``sqrt(pi (1 - pi)) h ~ GP(0, s^2 k)``, centered over the rows, y is
    N(0, I + s^2 H K H), and N(0, I) where P = Q. The ratio of the two densities is the Bayes
    factor; only labels given rows are modeled, so there is no Jacobian.

    Args:
        P: rows (m, D) or (m,).
        Q: rows (n, D) or (n,).
        kernel: k, of the difference.
        size: s, the standard deviation of the labels' mean where k(x, x) = 1; positive.

    Returns:
        A number; differentiable in the parameters of ``kernel`` and in ``size``.

    Raises:
        ValueError: for samples with different numbers of columns.
        RuntimeError: inside a JAX transformation with ``jax_enable_x64`` off.
    """
    first, second = as_samples(P, Q, ("P", "Q"))
    if first.shape[1] != second.shape[1]:
        raise ValueError(f"P has {first.shape[1]} columns and Q has {second.shape[1]}")
    points = jnp.concatenate([first, second])
    gram = kernel(points, points)
    centered = gram - jnp.mean(gram, axis=0)
    centered = centered - jnp.mean(centered, axis=1)[:, None]
    covariance = jnp.eye(len(points)) + jnp.square(size) * centered
    proportion = len(first) / len(points)
    labels = jnp.where(jnp.arange(len(points)) < len(first), 1.0 - proportion, -proportion)
    return _log_ratio(covariance, labels / (proportion * (1.0 - proportion)) ** 0.5)


@jax.custom_jvp
def _log_ratio(covariance: jax.Array, labels: jax.Array) -> jax.Array:
    """Compute log N(labels; 0, covariance) - log N(labels; 0, I)."""
    return _log_ratio_and_inverse(covariance, labels)[0]


def _log_ratio_and_inverse(covariance: jax.Array, labels: jax.Array) -> tuple[jax.Array, jax.Array]:
    inverse, log_determinant = inverse_and_log_determinant(covariance)
    quadratic = labels @ labels - labels @ inverse @ labels
    return 0.5 * (quadratic - log_determinant), inverse


@_log_ratio.defjvp
def _log_ratio_jvp(
    primals: tuple[jax.Array, jax.Array], tangents: tuple[jax.Array, jax.Array]
) -> tuple[jax.Array, jax.Array]:
    """Compute value and derivative from one inverse.

    Reverse mode through a Cholesky factor costs ten times the value.
    """
    covariance, labels = primals
    value, inverse = _log_ratio_and_inverse(covariance, labels)
    weights = inverse @ labels
    tangent = 0.5 * jnp.sum((jnp.outer(weights, weights) - inverse) * tangents[0])
    return value, tangent + (labels - weights) @ tangents[1]


def distribution_regression_model(
    mean: ArrayLike, variance: ArrayLike, y: ArrayLike | None = None, prior_scale: float = 1.0
) -> None:
    """Model p(slopes) p(y | slopes), y linear in mean embeddings known up to their posterior.

    ``y_i ~ N(intercept + slopes' m_i, noise^2 + slopes' C_i slopes)``, the embedding's posterior
    N(m_i, C_i) integrated out: "BDR" of Law et al. (2018, section 4.3, equation 8). Sites:
    ``intercept``, ``standard`` (q,), ``scale`` and ``noise``, with priors N(0, 1), N(0, 1) and half
    normal ones; the slopes are ``scale`` times ``standard``.

    Args:
        mean: posterior means m (G, q) of the groups' embeddings in coordinates.
        variance: posterior variances (G, q) there, the diagonals of C; zeros for embeddings that
            are taken to be known.
        y: shape (G,), with mean near 0 and standard deviation near 1; ``None`` to sample it.
        prior_scale: prior scale of ``scale``: a slope that would explain all of y by itself.
    """
    mean, variance = jnp.asarray(mean), jnp.asarray(variance)
    groups, coordinates = mean.shape
    intercept = numpyro.sample("intercept", dist.Normal(0.0, 1.0))
    noise = numpyro.sample("noise", dist.HalfNormal(1.0))
    scale = numpyro.sample("scale", dist.HalfNormal(prior_scale))
    with numpyro.plate("coordinates", coordinates):
        standard = numpyro.sample("standard", dist.Normal(0.0, 1.0))
    coefficients = numpyro.deterministic("slopes", scale * standard)
    deviation = jnp.sqrt(noise**2 + variance @ coefficients**2)
    with numpyro.plate("groups", groups):
        numpyro.sample("y", dist.Normal(intercept + mean @ coefficients, deviation), obs=y)
