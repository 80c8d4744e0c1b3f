"""From a mean embedding back to data: a normal mixture with this embedding, and new points.

Muandet et al. (2017, section 3.8): the distributional pre-image of equation (3.51), and kernel
herding (3.52; Chen, Welling and Smola 2010).
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jax.typing import ArrayLike
from scipy.optimize import minimize

from ..kernels.base import as_points, check_columns, in_order_of
from ..kernels.squared_exponential import SquaredExponential
from ..linalg.clustering import kmeans_centers
from ..linalg.precision import double_precision
from ..linalg.pytrees import register_dataclass
from .embedding import Embedding
from .pre_image import pre_images

#: Smallest standard deviation of a component over the lengthscale of the kernel, and largest one
#: over the range of the points. The embedding of a narrower component is nearly that of a point, so
#: that its density would be arbitrarily high.
SMALLEST_DEVIATION, LARGEST_DEVIATION = 0.25, 10.0


@register_dataclass
@dataclasses.dataclass(frozen=True)
class NormalMixture:
    """A mixture of normal distributions N(m_c, s_c^2 I), the result of :func:`mixture_pre_image`.

    Attributes:
        weights: (C,), positive with sum one, in decreasing order.
        means: (C, D).
        standard_deviations: (C,).
        distance: distance of its embedding from the normalized given one in the Hilbert space.
        columns: names of the columns, if the embedding has them.
    """

    weights: Any
    means: Any
    standard_deviations: Any
    distance: Any = 0.0
    columns: tuple[str, ...] | None = dataclasses.field(default=None, metadata={"static": True})

    @double_precision
    def log_density(self, at: ArrayLike) -> jax.Array:
        """Compute the log density at points (m, D) or (m,), shape (m,)."""
        points = as_points(in_order_of(at, self.columns, "at"), "at")
        check_columns(self.means, points, "at")
        squared = jnp.sum((points[:, None] - self.means) ** 2, axis=-1)
        variance = jnp.asarray(self.standard_deviations) ** 2
        dimension = points.shape[1]
        log_terms = -0.5 * (squared / variance + dimension * jnp.log(2.0 * jnp.pi * variance))
        return logsumexp(log_terms + jnp.log(jnp.asarray(self.weights)), axis=1)

    def density(self, at: ArrayLike) -> jax.Array:
        """Compute the density at points (m, D) or (m,), shape (m,)."""
        return np.exp(self.log_density(at))  # type: ignore[return-value]

    @double_precision
    def mean(self) -> jax.Array:
        """Return the mean, (D,)."""
        return jnp.asarray(self.weights) @ self.means

    @double_precision
    def covariance(self) -> jax.Array:
        """Return the covariance, (D, D)."""
        weights, deviations = jnp.asarray(self.weights), self.means - self.mean()
        within = weights @ jnp.asarray(self.standard_deviations) ** 2
        return (weights * deviations.T) @ deviations + within * jnp.eye(deviations.shape[1])

    def sample(self, count: int, seed: int = 0) -> np.ndarray:
        """Draw independent points, (count, D)."""
        rng = np.random.default_rng(seed)
        weights = np.asarray(self.weights)
        component = rng.choice(len(weights), size=count, p=weights / weights.sum())
        noise = rng.normal(size=(count, np.shape(self.means)[1]))
        scale = np.asarray(self.standard_deviations)[component, None]
        return np.asarray(self.means)[component] + scale * noise


def mixture_pre_image(
    embedding: Embedding, n_components: int = 5, *, starts: int = 4, seed: int = 0
) -> NormalMixture:
    """Find the normal mixture whose embedding is nearest, PRE-2, Muandet et al. (2017, (3.51)).

    The squared distance ``b' K b - 2 b' Q w + w' R w`` has closed forms for the squared exponential
    kernel (:func:`gaussian_mixture_embedding`). Weights, means and standard deviations of all
    components are changed together by L-BFGS, from several starts: means by k-means, with the
    weights and the spread of the points near them. The density of the mixture is an estimate by
    moments and not by a likelihood: details much smaller than the lengthscale have little influence
    on the distance, and are uncertain. No component is narrower than a quarter of the lengthscale.

    Args:
        embedding: with a squared exponential kernel of one lengthscale, and points in R^D. Its
            weights may have any sign; their sum must be positive, and is made one.
        n_components: number C of components.
        starts: number of starts, of which the nearest result is returned. Not tuned.
        seed: seed of k-means.

    Raises:
        ValueError: for another kernel, smoothed sections, weights with a sum that is not positive,
            or an invalid argument.
    """
    if n_components < 1 or starts < 1:
        raise ValueError("n_components and starts must be at least 1")
    kernel = embedding.kernel
    if not isinstance(kernel, SquaredExponential) or np.size(kernel.lengthscale) != 1:
        raise ValueError(
            "the pre-image has closed forms for SquaredExponential with one lengthscale: "
            f"the embedding has {kernel}"
        )
    if embedding.measure is not None:
        raise ValueError(
            "the embedding has smoothed sections: pass one of points, as mean_embedding"
        )
    points, weights = np.asarray(embedding.points), np.asarray(embedding.weights)
    if not weights.sum() > 1e-12 * np.abs(weights).sum():
        raise ValueError("the weights of the embedding must have a positive sum")
    embedding = embedding.normalized()
    weights = np.asarray(embedding.weights)
    lengthscale = float(np.reshape(kernel.lengthscale, ()))
    dimension, rng = points.shape[1], np.random.default_rng(seed)
    extent = float(np.ptp(points, axis=0).max()) or lengthscale
    limits = np.log([SMALLEST_DEVIATION * lengthscale, LARGEST_DEVIATION * (extent + lengthscale)])
    # Negative weights have no place among the points of a start.
    support = np.maximum(weights, 0.0)
    best: Any = None
    with jax.enable_x64(True):
        constant = float(embedding.squared_norm())
        for _ in range(starts):
            theta = _start(points, support, n_components, limits, rng)
            free = [(None, None)] * (n_components * (1 + dimension))
            result = minimize(
                _distance_and_gradient,
                theta,
                (points, weights, lengthscale, n_components),
                jac=True,
                method="L-BFGS-B",
                bounds=[*free, *[tuple(limits)] * n_components],
                options={"maxiter": 1000, "ftol": 1e-14, "gtol": 1e-9},
            )
            if best is None or result.fun < best.fun:
                best = result
        mixture = jax.tree.map(np.asarray, _unpack(jnp.asarray(best.x), n_components, dimension))
    proportions, means, deviations = mixture
    order = np.argsort(-proportions, kind="stable")
    distance = max(constant + float(best.fun), 0.0) ** 0.5
    return NormalMixture(
        proportions[order], means[order], deviations[order], distance, embedding.columns
    )


def _start(
    points: np.ndarray,
    support: np.ndarray,
    count: int,
    limits: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return log weights, means and log standard deviations of a start, (C (D + 2),).

    Components are clusters of points that are drawn in proportion to their weights.
    """
    drawn = points[rng.choice(len(points), size=len(points), p=support / support.sum())]
    means = kmeans_centers(drawn, count, rng)
    means = means[np.arange(count) % len(means)]  # fewer clusters than components
    nearest = np.argmin(((drawn[:, None] - means) ** 2).sum(axis=2), axis=1)
    squared = ((drawn - means[nearest]) ** 2).mean(axis=1)
    size = np.bincount(nearest, minlength=count)
    variance = np.bincount(nearest, squared, minlength=count) / np.maximum(size, 1)
    log_deviations = 0.5 * np.log(np.maximum(variance, np.exp(2.0 * limits[0])))
    return np.concatenate([np.log(size + 1.0), means.ravel(), np.clip(log_deviations, *limits)])


def _unpack(theta: jax.Array, count: int, dimension: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return weights (C,), means (C, D) and standard deviations (C,)."""
    logits, means, log_deviations = jnp.split(theta, [count, count * (1 + dimension)])
    return jax.nn.softmax(logits), means.reshape(count, dimension), jnp.exp(log_deviations)


def _normal_inner_products(
    delta: jax.Array, variance: jax.Array, lengthscale: jax.Array
) -> jax.Array:
    """Compute E k(X, Y) for X - Y ~ N(delta, variance I), delta (..., D), variance (...)."""
    total = lengthscale**2 + variance
    scale = 0.5 * delta.shape[-1] * jnp.log(lengthscale**2 / total)
    return jnp.exp(scale - 0.5 * jnp.sum(delta**2, axis=-1) / total)


@partial(jax.jit, static_argnums=4)
@jax.value_and_grad
def _squared_distance(
    theta: jax.Array, points: jax.Array, weights: jax.Array, lengthscale: jax.Array, count: int
) -> jax.Array:
    """Compute the squared distance without the norm of the given embedding, and its gradient."""
    proportions, means, deviations = _unpack(theta, count, points.shape[1])
    cross = _normal_inner_products(points[:, None] - means, deviations**2, lengthscale)
    variances = deviations[:, None] ** 2 + deviations**2
    within = _normal_inner_products(means[:, None] - means, variances, lengthscale)
    return proportions @ within @ proportions - 2.0 * (weights @ cross @ proportions)


def _distance_and_gradient(theta: np.ndarray, *arguments: Any) -> tuple[float, np.ndarray]:
    value, gradient = _squared_distance(theta, *arguments)
    return float(value), np.asarray(gradient)


def herd(embedding: Embedding, count: int) -> np.ndarray:
    """Choose new points whose equally weighted embedding is near the given one (KME (3.52)).

    Kernel herding (Chen, Welling and Smola 2010), PRE-6: point t + 1 maximizes ``mu(x) - sum_{i <=
    t} k(x_i, x) / (t + 1)``, for the squared exponential kernel and other sums of Gaussian
    components over all of space, by the iteration of :func:`pre_image`; for other kernels over the
    points of the embedding. The order of points matters: the first of them are good on their own.
    Means of functions in the Hilbert space over T points have an error of order 1 / T, if that is
    finite-dimensional; of random points 1 / sqrt(T).

    Args:
        embedding: of a distribution: its weights must sum to one, up to rounding.
        count: number T of points.

    Returns:
        Points (T, D).

    Raises:
        ValueError: for an invalid argument.
    """
    if count < 1:
        raise ValueError("count must be at least 1")
    points, weights = np.asarray(embedding.points), np.asarray(embedding.weights)
    if embedding.measure is not None:
        raise ValueError(
            "the embedding has smoothed sections: pass one of points, as mean_embedding"
        )
    if not abs(weights.sum() - 1.0) < 1e-6:
        raise ValueError(
            f"the weights of the embedding sum to {weights.sum():g}: pass embedding.normalized()"
        )
    # The number of points is constant, so that one compiled program serves all steps.
    support = np.concatenate([points, np.repeat(points[:1], count, axis=0)])
    for step in range(count):
        herded = np.where(np.arange(count) < step, -1.0 / (step + 1), 0.0)
        nearest = pre_images(embedding.kernel, support, np.concatenate([weights, herded])[None])[0]
        support[len(points) + step] = nearest[0]
    return support[len(points) :]
