"""Posterior of the difference between two samples: a Gaussian process on the sample labels.

With the density f of the pooled rows and the fraction pi of the first sample, the densities are
``p = f (1 + (1 - pi) h)`` and ``q = f (1 - pi h)``. The difference h is a Gaussian process with a
kernel at an unknown lengthscale and an unknown variance s^2 / (pi (1 - pi)).

Prior (CMP-2): the lengthscale is Gamma(1, 1) in standard deviations of a column (for D columns
sqrt(D) times that, as distances are), and log s^2 is uniform. Both are on a grid. With Gaussian
labels the marginal likelihood is in closed form (CMP-1,
:mod:`bke.inference.statistics.label_bayes_factor`), and the coefficients of the eigenfunctions of
the kernel are independent.

With binary labels a row at z is of P with probability ``expit(logit(pi) + g(z))``, where
``g = log(p / q)`` (CMP-4) is a sum of the same eigenfunctions with the prior variance of h: for
small differences both models are equal. The ratio p / q is positive. The posterior of g is
approximated by a normal distribution at its mode (Laplace approximation).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from threading import Event
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.special import expit, log_expit, logit, logsumexp

from ..core.errors import InputError, input_errors
from ..core.machine import side_by_side
from ..data.weighted import weighted_quantiles
from ..permutation.pooled_sample import PooledSample
from ..statistics.kernels import KernelFunction, choose_nodes, squared_exponential
from ..statistics.label_bayes_factor import (
    Eigendecomposition,
    KernelAtNodes,
    decompose_kernel,
    label_log_bayes_factors,
)

if TYPE_CHECKING:
    from bke.models.kernels.base import Covariance, Kernel

#: Grid of lengthscales, in standard deviations of a column, and of variances s^2.
LENGTHSCALES = np.geomspace(0.05, 5.0, 16)
VARIANCES = np.geomspace(1e-4, 1.0, 17)
#: Numbers of nodes of the kernel for one column and for several. With 1000 nodes the log Bayes
#: factors of eight pairs of samples differed by 1.2 of 13.7 nats in one, in others by at most 0.2.
LINE_NODES, NODES = 150, 192
#: Log Bayes factor from which posterior bands have their nominal coverage.
STRONG_LOG_BAYES_FACTOR = 3.0
#: Largest number of points with binary labels: a Newton step takes time proportional to it.
MAX_BINARY_POINTS = 20_000
#: Largest number of Newton steps, and the increase of the log density at which they stop.
MAX_NEWTON_STEPS, TOLERANCE = 50, 1e-8


@dataclasses.dataclass(frozen=True)
class ScaledKernel:
    """A kernel whose lengths are all multiplied by a lengthscale."""

    kernel: Covariance

    def __call__(self, first: np.ndarray, second: np.ndarray, lengthscale: float) -> np.ndarray:
        """Evaluate k(x / lengthscale, y / lengthscale) of points (k, D) and (l, D): (k, l)."""
        return np.asarray(self.kernel(first / lengthscale, second / lengthscale), dtype=float)


def kernel_function(kernel: Covariance | type[Kernel] | None, dimension: int) -> KernelFunction:
    """Return a function of points and a lengthscale for a kernel.

    Args:
        kernel: a kernel of the package, of scikit-learn or of the user, or a kernel class whose
            parameters all have defaults; ``None`` for the squared exponential.
        dimension: D, number of columns of the points.

    Raises:
        InputError: if it is not a kernel, or cannot be evaluated for D columns.
    """
    if kernel is None:
        return squared_exponential
    from bke.models.kernels.base import Covariance
    from bke.models.kernels.scikit_learn import as_kernel
    from bke.models.priors import template

    with input_errors():
        converted = as_kernel(kernel)
        instance = converted if isinstance(converted, Covariance) else template(converted)
        function = ScaledKernel(instance)
        value = function(np.zeros((2, dimension)), np.ones((1, dimension)), 1.0)
    if value.shape != (2, 1) or not np.isfinite(value).all():
        raise InputError(f"kernel must have a finite value for any two rows, got {kernel!r}")
    return function


@dataclasses.dataclass(frozen=True)
class DifferencePosterior:
    """Posterior of the lengthscale and the variance of a difference, with Gaussian labels.

    Attributes:
        lengthscales: (L,), in standard deviations of the columns.
        variances: (S,), s^2.
        weights: (L, S), posterior probabilities.
        log_prior: (L, 1), of each lengthscale with any of the variances, in nats.
        log_bayes_factor: log Bayes factor of a difference, in nats.
        kernels: kernel of each lengthscale.
        decompositions: their decompositions.
        first_fraction: pi, the fraction of the first sample in all rows.
    """

    lengthscales: np.ndarray
    variances: np.ndarray
    weights: np.ndarray
    log_prior: np.ndarray
    log_bayes_factor: float
    kernels: Sequence[KernelAtNodes]
    decompositions: Sequence[Eigendecomposition]
    first_fraction: float

    @property
    def probability(self) -> float:
        """Posterior probability of a difference, with prior probability 1/2."""
        return float(expit(self.log_bayes_factor))

    def eigenfunctions(self, index: int, points: np.ndarray) -> np.ndarray:
        """Evaluate the eigenfunctions of a lengthscale at ``points`` (m, D): (m, r)."""
        decomposition = self.decompositions[index]
        features = self.kernels[index].features(points)
        return np.asarray(features @ decomposition.rotation - decomposition.mean)

    def lengthscale_quantiles(self, *probabilities: float) -> np.ndarray:
        """Compute posterior quantiles of the lengthscale, in standard deviations of the columns."""
        marginal = self.weights.sum(axis=1)
        logs = np.log(self.lengthscales)[:, None]
        return np.asarray(np.exp(weighted_quantiles(logs, marginal, probabilities)))[:, 0]

    def draw(self, n_draws: int, rng: np.random.Generator) -> DifferenceDraws:
        """Draw the difference h, as a function, from its posterior."""
        flat = rng.choice(self.weights.size, n_draws, p=self.weights.ravel())
        lengthscale, variance = np.unravel_index(flat, self.weights.shape)
        parts = []
        for index in np.unique(lengthscale):
            draws = np.flatnonzero(lengthscale == index)
            coefficients = self.draw_coefficients(int(index), variance[draws], rng)
            parts.append((int(index), draws, coefficients))
        return DifferenceDraws(self, n_draws, tuple(parts))

    def draw_coefficients(
        self, index: int, variances: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Draw coefficients of the eigenfunctions, (k, r).

        Args:
            index: index of the lengthscale.
            variances: (k,), indices of the variances.
            rng: random numbers.
        """
        decomposition, prior = self.decompositions[index], self.variances[variances][:, None]
        posterior = prior / (1.0 + prior * decomposition.eigenvalues)
        noise = np.sqrt(posterior) * rng.normal(size=posterior.shape)
        return np.asarray(posterior * decomposition.loadings[:, 0] + noise)

    def to_difference(self, sums: np.ndarray) -> np.ndarray:
        """Convert sums of eigenfunctions to h."""
        return sums / math.sqrt(self.first_fraction * (1.0 - self.first_fraction))


@dataclasses.dataclass(frozen=True)
class DifferenceDraws:
    """Draws of the difference h, which are functions.

    Attributes:
        posterior: the posterior that they are drawn from.
        n_draws: number of draws.
        parts: indices of lengthscales, indices (k,) of the draws with each, and their coefficients
            (k, r).
    """

    posterior: DifferencePosterior
    n_draws: int
    parts: tuple[tuple[int, np.ndarray, np.ndarray], ...]

    def evaluate(self, points: np.ndarray) -> np.ndarray:
        """Evaluate all draws at ``points`` (m, D), in standard deviations: (n_draws, m)."""
        values = np.empty((self.n_draws, len(points)))
        for index, draws, coefficients in self.parts:
            functions = self.posterior.eigenfunctions(index, points)
            values[draws] = self.posterior.to_difference(coefficients @ functions.T)
        return values


def difference_posterior(
    sample: PooledSample, kernel: KernelFunction = squared_exponential
) -> DifferencePosterior:
    """Compute the posterior of the difference for the observed labels, with Gaussian labels.

    Args:
        sample: pooled rows.
        kernel: kernel of the Gaussian process.
    """
    observed = sample.observed()
    dimension = sample.points.shape[1]
    nodes = choose_nodes(observed, LINE_NODES if dimension == 1 else NODES)
    lengthscales = LENGTHSCALES * math.sqrt(dimension)
    kernels = [KernelAtNodes.of(kernel, nodes, lengthscale) for lengthscale in lengthscales]
    decompositions = side_by_side(
        lambda index: decompose_kernel(observed, kernels[index]), len(kernels), Event()
    )
    prior = np.log(LENGTHSCALES) - LENGTHSCALES  # of log lengthscales
    log_prior = (prior - logsumexp(prior) - math.log(len(VARIANCES)))[:, None]
    logs = np.array([label_log_bayes_factors(item, VARIANCES)[:, 0] for item in decompositions])
    weights, total = _normalize(log_prior + logs)
    return DifferencePosterior(
        lengthscales=lengthscales,
        variances=VARIANCES,
        weights=weights,
        log_prior=log_prior,
        log_bayes_factor=total,
        kernels=kernels,
        decompositions=decompositions,
        first_fraction=observed.first_fraction,
    )


def _normalize(log_weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Return weights (L, S) that add up to 1, and the log of the sum before."""
    total = float(logsumexp(log_weights))
    return np.exp(log_weights - total), total


@dataclasses.dataclass(frozen=True)
class BinaryLabels:
    """Logistic regression of the sample labels on features.

    Attributes:
        features: (k, r), of points.
        first: (k,), rows of the first sample at each point.
        counts: (k,), rows at each point.
        offset: log odds of the first sample without a difference.
    """

    features: np.ndarray
    first: np.ndarray
    counts: np.ndarray
    offset: float

    def log_likelihood(self, coefficients: np.ndarray) -> float:
        """Compute the log probability of the labels, in nats."""
        odds = self.offset + self.features @ coefficients
        return float(self.first @ log_expit(odds) + (self.counts - self.first) @ log_expit(-odds))

    def gradient_and_information(self, coefficients: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Compute the gradient (r,) of the log likelihood and minus its Hessian (r, r)."""
        probability = expit(self.offset + self.features @ coefficients)
        weights = self.counts * probability * (1.0 - probability)
        gradient = self.features.T @ (self.first - self.counts * probability)
        return gradient, (self.features.T * weights) @ self.features

    def laplace_approximation(self, variance: float, start: np.ndarray) -> tuple[np.ndarray, float]:
        """Approximate the posterior of coefficients with independent normal priors.

        Args:
            variance: prior variance.
            start: (r,), where the Newton steps start.

        Returns:
            The mode (r,), and the log Bayes factor against coefficients 0, in nats.
        """
        mode, identity = start, np.eye(len(start))

        def log_density(coefficients: np.ndarray) -> float:
            prior = -0.5 * coefficients @ coefficients / variance
            return float(self.log_likelihood(coefficients) + prior)

        height = log_density(mode)
        for _ in range(MAX_NEWTON_STEPS):
            gradient, information = self.gradient_and_information(mode)
            factor = cho_factor(information + identity / variance, lower=True)
            step = cho_solve(factor, gradient - mode / variance)
            # The density is log-concave: a step that overshoots is halved.
            while (reached := log_density(mode + step)) < height and np.abs(step).max() > TOLERANCE:
                step = 0.5 * step
            mode, increase, height = mode + step, reached - height, reached
            if increase < TOLERANCE:
                break
        information = self.gradient_and_information(mode)[1]
        log_determinant = np.linalg.slogdet(identity + variance * information)[1]
        null = self.log_likelihood(np.zeros(len(mode)))
        return mode, float(height - 0.5 * log_determinant - null)


@dataclasses.dataclass(frozen=True)
class BinaryLabelPosterior(DifferencePosterior):
    """Posterior of a difference with binary labels.

    Attributes:
        modes: (S, r) for each lengthscale, of the coefficients.
        sample: pooled rows.
    """

    modes: Sequence[np.ndarray]
    sample: PooledSample

    def labels(self, index: int) -> BinaryLabels:
        """Return the labels with the eigenfunctions of a lengthscale as features."""
        functions = self.eigenfunctions(index, self.sample.points)
        offset = float(logit(self.sample.first_fraction))
        return BinaryLabels(functions, self.sample.first_counts, self.sample.counts, offset)

    def prior_variance(self, variance: int) -> float:
        """Return the prior variance of the coefficients for an index of ``variances``."""
        labels = self.first_fraction * (1.0 - self.first_fraction)
        return float(self.variances[variance] / labels)

    def draw_coefficients(
        self, index: int, variances: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Draw coefficients of the eigenfunctions of the log ratio g, (k, r)."""
        labels = self.labels(index)
        coefficients = np.empty((len(variances), labels.features.shape[1]))
        for variance in np.unique(variances):
            draws, mode = variances == variance, self.modes[index][variance]
            information = labels.gradient_and_information(mode)[1]
            precision = information + np.eye(len(mode)) / self.prior_variance(variance)
            factor = np.linalg.cholesky(precision)
            normal = rng.normal(size=(len(mode), draws.sum()))
            coefficients[draws] = (mode[:, None] + solve_triangular(factor.T, normal)).T
        return coefficients

    def to_difference(self, sums: np.ndarray) -> np.ndarray:
        """Convert log ratios to h, with ``p / q = (1 + (1 - pi) h) / (1 - pi h)``."""
        return np.asarray(np.expm1(sums) / (1.0 + self.first_fraction * np.expm1(sums)))


def binary_label_posterior(
    gaussian: DifferencePosterior, sample: PooledSample
) -> BinaryLabelPosterior:
    """Compute the posterior with binary labels on the grid of that with Gaussian labels.

    Raises:
        InputError: for more than :data:`MAX_BINARY_POINTS` points, and for pairs or weighted rows.
    """
    if not sample.is_independent:
        reason = "have weights" if sample.permutation_type == "signs" else "are paired"
        raise InputError(
            f"labels='logit' is for independent rows of equal weight, and these {reason}"
        )
    observed = sample.observed()
    if len(observed.points) > MAX_BINARY_POINTS:
        raise InputError(
            f"labels='logit' is for at most {MAX_BINARY_POINTS} different rows, and there are "
            f"{len(observed.points)}: labels='gaussian' takes any number"
        )
    fields = {
        field.name: getattr(gaussian, field.name)
        for field in dataclasses.fields(DifferencePosterior)
    }
    unfitted = BinaryLabelPosterior(**fields, modes=(), sample=observed)

    def fit(index: int) -> tuple[np.ndarray, np.ndarray]:
        labels = unfitted.labels(index)
        mode, modes, log_bayes_factors = np.zeros(labels.features.shape[1]), [], []
        for variance in range(len(unfitted.variances)):
            prior = unfitted.prior_variance(variance)
            mode, log_bayes_factor = labels.laplace_approximation(prior, mode)
            modes.append(mode)
            log_bayes_factors.append(log_bayes_factor)
        return np.array(modes), np.array(log_bayes_factors)

    fits = side_by_side(fit, len(unfitted.lengthscales), Event())
    modes, log_bayes_factors = zip(*fits, strict=True)
    weights, total = _normalize(unfitted.log_prior + np.array(log_bayes_factors))
    return dataclasses.replace(unfitted, weights=weights, log_bayes_factor=total, modes=modes)
