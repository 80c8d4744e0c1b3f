"""Bayesian two-sample test of Zhang, Wild, Filippi, Flaxman and Sejdinovic (2022).

The features of a row are its kernel values at landmarks z. They are normal with the empirical
covariance S of the features, plus noise as in Bayesian kernel embeddings (BKE (5)), and their
volume element makes their density that of the row (BKE (12)). The difference of the two mean
embeddings at z is N(0, R) if P and Q differ (M = 1), with the smoothed kernel
``R(z, z') = exp(-|z - z'|^2 / (4 l^2))``, and zero otherwise (M = 0). For a lengthscale l

    log p(rows | l, M) = sum_i log gamma_l(row i) + log p_l(scatter of the features)
                         + log N(d; 0, C_l + M s^2 R_l),

with the difference d of the mean features and its sampling covariance C. The first two terms are
the likelihood of the shape that both samples share, with the mean features integrated out.

The paper draws l and M in turn by NUTS and Gibbs steps. Here l is integrated by adaptive
quadrature, and the Bayes factor has no Monte Carlo error.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from bke.models.kernels.squared_exponential import SquaredExponential
from bke.models.likelihood.landmark_jacobian import log_jacobian_at, log_jacobian_of_gradients
from numpy.typing import ArrayLike
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit, logit

from ..core.errors import InputError, check_flag
from ..core.machine import computing
from ..core.notebook import ReprMixin
from ..data.checks import check_count, check_positive, check_proportion, pluralize
from ..data.units import choose_scale
from ..data.weighted import weighted_quantiles
from ..permutation.samples import TwoSamples
from ..sampling.adaptive_quadrature import IntegratedDensity, integrate
from ..statistics.landmark_bayes_factor import ROWS_PER_LANDMARK, draw_landmarks

if TYPE_CHECKING:
    import pandas as pd

#: Variance, with k(x, x) = 1, that is added to the sampling covariance, because features of a long
#: lengthscale are nearly collinear. It is the paper's. A jitter that depended on the lengthscale or
#: the hypothesis would change the Bayes factor in directions of a smaller variance.
JITTER = 1e-8
#: Tolerance of the log of an integral over the lengthscale, and largest number of evaluations.
TOLERANCE, MAX_EVALUATIONS = 1e-3, 2000
#: First range of the log lengthscale, relative to the square root of the number of columns.
FIRST_RANGE = math.log(0.02), math.log(20.0)


class FeatureTerms(NamedTuple):
    """Terms of the likelihood of rows by their features at one lengthscale.

    Attributes:
        mean: mean features, (s,).
        covariance: covariance of the features, (s, s), with divisor n.
        log_volume: sum of log gamma over the rows.
    """

    mean: jax.Array
    covariance: jax.Array
    log_volume: jax.Array


@jax.jit
def feature_terms(X: jax.Array, landmarks: jax.Array, lengthscale: jax.Array) -> FeatureTerms:
    """Compute the terms of rows (n, D), whose features are k(x, z)."""
    kernel = SquaredExponential(lengthscale)
    log_volume = log_jacobian_at(X, landmarks, kernel).sum()
    return _moments(kernel.matrix(X, landmarks), log_volume)


@jax.jit
def paired_feature_terms(
    X: jax.Array, Y: jax.Array, landmarks: jax.Array, lengthscale: jax.Array
) -> FeatureTerms:
    """Compute the terms of pairs of rows (n, D), whose features are k(x, z) - k(y, z).

    A pair is a point of 2 D coordinates.
    """
    kernel = SquaredExponential(lengthscale)
    first, second = (kernel.value_and_grad(rows, landmarks) for rows in (X, Y))
    log_weight = jnp.maximum(first.log_scale, second.log_scale)
    gradient = jnp.concatenate(
        [
            first.gradient * jnp.exp(first.log_scale - log_weight),
            -second.gradient * jnp.exp(second.log_scale - log_weight),
        ]
    )
    log_volume = log_jacobian_of_gradients(jnp.moveaxis(gradient, 1, 0), log_weight).sum()
    return _moments(kernel.matrix(X, landmarks) - kernel.matrix(Y, landmarks), log_volume)


def _moments(features: jax.Array, log_volume: jax.Array) -> FeatureTerms:
    mean = features.mean(axis=0)
    deviations = features - mean
    return FeatureTerms(mean, deviations.T @ deviations / len(features), log_volume)


def log_normal(d: np.ndarray, covariance: np.ndarray) -> float:
    """Evaluate log N(d; 0, covariance) but for the constant."""
    factor = cho_factor(covariance, lower=True)
    log_determinant = 2.0 * np.log(factor[0].diagonal()).sum()
    return float(-0.5 * (log_determinant + d @ cho_solve(factor, d)))


def log_scatter(terms: FeatureTerms, n: int, noise_variance: float) -> float:
    """Evaluate the log density of the deviations of n rows from their mean features.

    Rows are N(., S + noise_variance I) with the empirical covariance S. The density leaves out a
    constant.
    """
    covariance = np.asarray(terms.covariance)
    factor = cho_factor(covariance + noise_variance * np.eye(len(covariance)), lower=True)
    log_determinant = 2.0 * np.log(factor[0].diagonal()).sum()
    return float(-0.5 * ((n - 1) * log_determinant + n * np.trace(cho_solve(factor, covariance))))


@dataclasses.dataclass(frozen=True)
class HypothesisLikelihoods:
    """Log likelihoods of both hypotheses, as functions of the lengthscale.

    Attributes:
        samples: rows of P and of Q, (m, D) and (n, D).
        paired: true if rows are pairs.
        landmarks: (s, D).
        noise_variance: variance of the noise of the features.
        difference_variance: prior variance of the difference at a point.
    """

    samples: tuple[np.ndarray, np.ndarray]
    paired: bool
    landmarks: np.ndarray
    noise_variance: float
    difference_variance: float

    def __call__(self, lengthscale: float) -> tuple[float, float]:
        """Return log p(rows | l, M) for M = 0 and M = 1, up to one constant."""
        if self.paired:
            parts = [(paired_feature_terms(*self.samples, self.landmarks, lengthscale), 1)]
        else:
            parts = [
                (feature_terms(rows, self.landmarks, lengthscale), sign)
                for rows, sign in zip(self.samples, (1, -1), strict=True)
            ]
        difference = np.sum([sign * np.asarray(terms.mean) for terms, sign in parts], axis=0)
        covariance = np.zeros((len(self.landmarks),) * 2)
        shared = 0.0
        for (terms, _), rows in zip(parts, self.samples, strict=False):
            n = len(rows)
            covariance += np.asarray(terms.covariance) / (n - 1)
            shared += float(terms.log_volume) + log_scatter(terms, n, self.noise_variance)
        covariance += JITTER * np.eye(len(covariance))
        squared = np.square(self.landmarks[:, None] - self.landmarks).sum(axis=2)
        prior = self.difference_variance * np.exp(-squared / (4.0 * lengthscale**2))
        equal = log_normal(difference, covariance)
        return shared + equal, shared + log_normal(difference, covariance + prior)


@dataclasses.dataclass(frozen=True, repr=False)
class BayesianTestResult(ReprMixin):
    """The posterior of "P and Q differ" and of the lengthscale.

    Attributes:
        log_bayes_factor: log of p(rows | differ) over p(rows | equal), in nats.
        log_bayes_factor_error: estimated absolute error of the quadrature.
        prior_probability: prior probability that P and Q differ.
        lengthscale: posterior median of the lengthscale, averaged over both hypotheses, in pooled
            standard deviations of each column.
        lengthscale_interval: its central 95 % posterior interval.
        profile: Bayes factors at the nodes of the quadrature, (k, 2): lengthscale, increasing, and
            log Bayes factor at this lengthscale.
        sizes: numbers of rows of P and Q.
        paired: true if rows are pairs.
        n_landmarks: number of landmarks.
    """

    log_bayes_factor: float
    log_bayes_factor_error: float
    prior_probability: float
    lengthscale: float
    lengthscale_interval: tuple[float, float]
    profile: np.ndarray
    sizes: tuple[int, int]
    paired: bool
    n_landmarks: int

    @property
    def posterior_probability(self) -> float:
        """Posterior probability that P and Q differ."""
        return float(expit(self.log_bayes_factor + logit(self.prior_probability)))

    def to_dataframe(self) -> pd.DataFrame:
        """Return ``profile`` with the columns ``lengthscale`` and ``log_bayes_factor``."""
        import pandas as pd

        return pd.DataFrame(self.profile, columns=["lengthscale", "log_bayes_factor"])

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes as plain data for JSON."""
        plain = dataclasses.asdict(self) | {"profile": self.profile.tolist()}
        return plain | {"posterior_probability": self.posterior_probability}

    def __str__(self) -> str:
        first, second = self.sizes
        rows = f"{first} pairs" if self.paired else f"{first} and {second} rows"
        low, high = self.lengthscale_interval
        return (
            f"P and Q differ with posterior probability {self.posterior_probability:.3g} (prior "
            f"{self.prior_probability:g}, log Bayes factor {self.log_bayes_factor:.3g} nats).\n"
            f"  Lengthscale: {self.lengthscale:.2g} standard deviations of each column (95 % "
            f"posterior interval {low:.2g} to {high:.2g}).\n"
            f"  {rows}, {self.n_landmarks} landmarks."
        )

    def __repr__(self) -> str:
        return f"<BayesianTestResult: P(differ) = {self.posterior_probability:.3g}>"


def bayesian_two_sample_test(
    P: ArrayLike,
    Q: ArrayLike,
    *,
    paired: bool = False,
    prior: Any = None,
    prior_probability: float = 0.5,
    difference_variance: float = 1.0,
    noise_variance: float = 0.1,
    n_landmarks: int = 40,
    seed: int = 0,
) -> BayesianTestResult:
    """Compute the posterior probability that P and Q differ (Zhang et al., 2022).

    The lengthscale of the squared exponential kernel is integrated out of both hypotheses. Columns
    are divided by their pooled standard deviations. For independent samples, which the paper treats
    as pairs in the order of the rows, each sample has its own features and a flat prior on the
    shared mean features, so that the order has no influence and sizes may differ.

    The Bayes factor is that of the model (CMP-16), and not calibrated by permutations. It takes the
    covariance of the features of each sample as known: of 60 pairs of equal distributions (with
    difference_variance 0.1) the posterior probability was above 1/2 in 13 with 8 and 200 rows of
    one column, in 5 with 24 and 400 rows of two, and in none of 40 with 50 and 500. For a p-value
    of exact level use :func:`~bke.inference.two_sample_test` with ``statistic="bayes_factor"``.

    Args:
        P: sample of P, shape (m, D) or (m,).
        Q: sample of Q, shape (n, D) or (n,).
        paired: the i-th rows of P and Q are a pair; the features are then k(x, z) - k(y, z), as in
            the paper.
        prior: prior of the lengthscale in pooled standard deviations, a NumPyro distribution of one
            positive number; by default Gamma(2, 2), as in the paper, times sqrt(D).
        prior_probability: prior probability that P and Q differ.
        difference_variance: prior variance of the difference of the embeddings at a point, with
            k(x, x) = 1. It is 1 in the paper, where only large differences have a posterior
            probability above 1/2; smaller values detect smaller differences.
        noise_variance: variance that is added to those of the features in the likelihood of the
            lengthscale, BKE (5). The sampling covariance of the difference does not have it.
        n_landmarks: largest number of landmarks, rows chosen by k-means++; at most one for eight
            pairs, or for four rows of the smaller sample.
        seed: seed of the landmarks. The order of independent rows has no influence.

    Raises:
        InputError: for invalid data or arguments, with too few rows for a landmark more than
            coordinates (D, or 2 D of pairs), for linearly dependent columns, and for pairs of equal
            rows, which have no density.

    References:
        Zhang, Wild, Filippi, Flaxman and Sejdinovic (2022), Bayesian kernel two-sample testing,
        Journal of Computational and Graphical Statistics 31, arXiv:2002.05550.
    """
    check_flag(paired, "paired")
    prior_probability = check_proportion(prior_probability, "prior_probability")
    difference_variance = check_positive(difference_variance, "difference_variance")
    noise_variance = check_positive(noise_variance, "noise_variance")
    check_count(n_landmarks, "n_landmarks", 2)
    check_count(seed, "seed", 0, 2**63 - 1)
    pair = TwoSamples.checked(P, Q, paired=paired)
    if paired:
        pair.check_equal_sizes("paired")
        if (equal := (pair.first == pair.second).all(axis=1)).any():
            raise InputError(
                f"row {int(np.argmax(equal)) + 1} of P equals that of Q, and a difference of zero "
                "has no density: leave out equal pairs or pass paired=False"
            )
    pair, _ = pair.varying()
    dimension = pair.pooled.shape[1]
    n_coordinates = 2 * dimension if paired else dimension
    # The covariance of the features of the smaller sample must not be singular.
    n_rows = len(pair.first) if paired else 2 * min(pair.sizes)
    if (needed := ROWS_PER_LANDMARK * (n_coordinates + 1)) > n_rows:
        raise InputError(
            f"the test of {pluralize(dimension, 'column')} needs "
            f"{needed if paired else needed // 2} {'pairs' if paired else 'rows in each sample'}, "
            f"and has {min(pair.sizes)}: use two_sample_test(P, Q, statistic='bayes_factor') or "
            "fewer columns"
        )
    if n_landmarks <= n_coordinates:
        raise InputError(f"n_landmarks must be above {n_coordinates}, got {n_landmarks}")
    scale = choose_scale(pair.pooled, "column")
    scaled = pair.pooled / scale
    if np.linalg.matrix_rank(scaled - scaled.mean(axis=0), rtol=1e-10) < dimension:
        raise InputError(
            "columns are linearly dependent, so that rows have no density: leave out columns that "
            "are combinations of others"
        )
    count = min(n_landmarks, n_rows // ROWS_PER_LANDMARK)
    landmarks = draw_landmarks(pair.sorted_rows / scale, count, seed)
    likelihoods = HypothesisLikelihoods(
        (pair.first / scale, pair.second / scale),
        paired,
        landmarks,
        noise_variance,
        difference_variance,
    )
    with computing():
        prior = _lengthscale_prior(prior, dimension)

        @functools.cache
        def log_densities(t: float) -> np.ndarray:
            """Evaluate log p(rows, t | M) for M = 0 and M = 1, (2,), of a log lengthscale t."""
            return np.array(likelihoods(math.exp(t))) + float(prior.log_prob(math.exp(t))) + t

        def integrated(hypothesis: int) -> IntegratedDensity:
            return integrate(
                lambda nodes: np.array([log_densities(t)[hypothesis] for t in nodes[:, 0]]),
                np.array([FIRST_RANGE[0]]) + 0.5 * math.log(dimension),
                np.array([FIRST_RANGE[1]]) + 0.5 * math.log(dimension),
                tolerance=TOLERANCE,
                max_evaluations=MAX_EVALUATIONS,
            )

        equal, differ = integrated(0), integrated(1)
        nodes = np.unique(np.concatenate([equal.nodes[:, 0], differ.nodes[:, 0]]))
        densities = np.array([log_densities(t) for t in nodes])
    known = np.isfinite(densities).all(axis=1)  # densities of very short lengthscales are zero
    profile = np.column_stack([np.exp(nodes), densities[:, 1]])[known]
    profile[:, 1] -= densities[known, 0]
    log_bayes_factor = differ.log_normalizer - equal.log_normalizer
    probability = expit(log_bayes_factor + logit(prior_probability))
    middle, low, high = np.exp(
        weighted_quantiles(
            np.concatenate([equal.nodes[:, 0], differ.nodes[:, 0]]),
            np.concatenate([(1.0 - probability) * equal.weight, probability * differ.weight]),
            (0.5, 0.025, 0.975),
        )
    ).tolist()
    return BayesianTestResult(
        log_bayes_factor=log_bayes_factor,
        log_bayes_factor_error=equal.error + differ.error,
        prior_probability=prior_probability,
        lengthscale=middle,
        lengthscale_interval=(low, high),
        profile=profile,
        sizes=pair.sizes,
        paired=paired,
        n_landmarks=len(landmarks),
    )


def _lengthscale_prior(prior: Any, dimension: int) -> dist.Distribution:
    """Return the prior of the lengthscale, by default Gamma(2, 2) times sqrt(dimension).

    Raises:
        InputError: if it is not a distribution of one number.
    """
    if prior is None:
        return dist.Gamma(2.0, 2.0 / math.sqrt(dimension))
    if not isinstance(prior, dist.Distribution) or prior.batch_shape or prior.event_shape:
        raise InputError(f"prior must be a NumPyro distribution of one number, got {prior!r}")
    return prior
