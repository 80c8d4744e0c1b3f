"""Pre-images of kernel mean embeddings: the maximizer, and a projection on other points."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from ..kernels.base import Covariance, Kernel, as_points, check_columns, in_order_of
from ..kernels.components import Components, accumulate, matvec, quadratic_form
from ..kernels.embedding_kernels import Rotation
from ..linalg.precision import double_precision
from .embedding import Embedding

#: Sums over the sample at a point x, see ``local_terms`` in :func:`_climb`.
LocalTerms: TypeAlias = tuple[jax.Array, jax.Array, jax.Array, jax.Array]


class PreImage(NamedTuple):
    """Result of :func:`pre_image`: the maximizer of an embedding."""

    point: np.ndarray  # (D,)
    value: float  # of the embedding at the point
    iterations: int  # from the start that reached the point; 0 for a maximum in closed form
    converged: bool


def pre_image(
    embedding: Embedding, *, starts: int = 4, iterations: int = 200, tolerance: float = 1e-8
) -> PreImage:
    """Find the maximizer of an embedding, argmin_x |mu - k(x, .)|^2 where k(x, x) is constant.

    Muandet et al. (2017, section 3.8.1). For the embedding of a distribution it is an approximate
    mode.
    Sums of Gaussian components: the fixed-point iteration x <- (sum_i w_i k(x_i, x) P)^-1 sum_i w_i
    k(x_i, x) P x_i, P the precision, from the highest of the embedding's points. Newton's step
    replaces it where the embedding is concave, and steps are halved where weights of both signs
    would take them downhill, so it ends no lower than it began. :class:`~bke.models.Rotation`: the
    nearest rotation to sum_i w_i X_i, by its singular vectors. Other kernels: the highest of the
    embedding's points, with ``converged`` false.

    Args:
        embedding: with points in R^D.
        starts: number of starting points of the iteration; the highest end is returned. Not tuned.
        iterations: largest number of iterations from one start.
        tolerance: largest step, over the range of the points, at which the iteration ends.

    Returns:
        The point; ``converged`` says whether the iteration ended at a maximum, where the embedding
        is concave.

    Raises:
        ValueError: for an invalid argument.
    """
    if starts < 1 or iterations < 1 or not tolerance > 0:
        raise ValueError("starts and iterations must be at least 1, and tolerance positive")
    points, weights = np.asarray(embedding.points), np.asarray(embedding.weights)[None]
    if embedding.measure is not None:
        values = np.asarray(embedding(points))
        best = int(np.argmax(values))
        return PreImage(points[best], float(values[best]), 0, False)
    point, value, count, converged = pre_images(
        embedding.kernel, points, weights, starts, iterations, tolerance
    )
    return PreImage(point[0], float(value[0]), int(count[0]), bool(converged[0]))


def pre_images(
    kernel: Covariance,
    points: np.ndarray,
    weights: np.ndarray,
    starts: int = 4,
    iterations: int = 200,
    tolerance: float = 1e-8,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Find the pre-images of S embeddings on the same points (n, D), with weights (S, n).

    The other arguments are those of :func:`pre_image`.

    Returns:
        Points (S, D), and values, iterations and ``converged`` (S,), as in :class:`PreImage`.
    """
    size = len(weights)
    if isinstance(kernel, Rotation):
        # The rotation A with the largest Tr[A M'] for M = U S V' is U diag(1, 1, det(U V')) V'.
        sums = weights @ points
        left, _, right = np.linalg.svd(sums.reshape(-1, 3, 3))
        left[:, :, 2] *= np.sign(np.linalg.det(left @ right))[:, None]
        nearest = (left @ right).reshape(-1, 9)
        return nearest, np.sum(nearest * sums, axis=1), np.zeros(size, int), np.ones(size, bool)
    heights = weights @ np.asarray(kernel(points))
    order = np.argsort(-heights, axis=1, kind="stable")[:, :starts]
    rows = np.arange(size)
    with jax.enable_x64(True):
        components = kernel.components(points.shape[1]) if isinstance(kernel, Kernel) else None
        if components is None or components.frequency is not None:
            values = heights[rows, order[:, 0]]
            return points[order[:, 0]], values, np.zeros(size, int), np.zeros(size, bool)
        smallest_step = tolerance * (float(np.max(np.ptp(points, axis=0))) or 1.0)
        climbed = _climb(components, points, weights, points[order], smallest_step, iterations)
        ends, values, counts, steps = map(np.asarray, climbed)
    best = np.argmax(values, axis=1)
    converged = steps[rows, best] <= smallest_step
    return ends[rows, best], values[rows, best], counts[rows, best], converged


@partial(jax.jit, static_argnames="max_halvings")
def _climb(
    components: Components,
    points: jax.Array,
    weights: jax.Array,
    starts: jax.Array,
    smallest_step: jax.Array,
    max_iterations: jax.Array,
    max_halvings: int = 30,
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Maximize S embeddings with weights (S, n) from ``starts`` (S, s, D).

    Returns:
        Ends (S, s, D), and values there, numbers of iterations and last steps, (S, s); the last
        step is infinite where the end is no maximum.
    """
    D, precision = points.shape[1], components.precision
    if precision.ndim == 3:
        precision = jax.vmap(jnp.linalg.eigvalsh)(precision)
    steepness = jnp.max(precision) * jnp.sum(jnp.exp(components.log_weight))

    def local_terms(w: jax.Array, x: jax.Array) -> LocalTerms:
        """Sum w_i k_i, and w_i k_i times P, P d_i and P d_i d_i' P, with d_i = x_i - x."""
        delta = (points - x).T

        def add(component: Components) -> LocalTerms:
            P = component.precision
            terms = w * jnp.exp(component.log_weight - 0.5 * quadratic_form(P, delta))
            total, directions = jnp.sum(terms), matvec(P, delta)
            curvature = total * (jnp.diag(P) if P.ndim == 1 else P)
            return total, curvature, directions @ terms, (directions * terms) @ directions.T

        zeros = (jnp.zeros(()), jnp.zeros((D, D)), jnp.zeros(D), jnp.zeros((D, D)))
        return accumulate(add, components, zeros)  # type: ignore[no-any-return]

    def ascend(w: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return the next point, no lower than x (D,), and the largest change of a coordinate."""
        height, curvature, gradient, outer = local_terms(w, x)
        # The embedding's second derivative is outer - curvature.
        root = jnp.linalg.cholesky(curvature - outer)
        newton = jax.scipy.linalg.cho_solve((root, True), gradient)
        fixed_point = jnp.linalg.solve(curvature, gradient)
        # Where the weights nearby are negative the fixed point is a minimum: follow the gradient.
        uphill = jnp.isfinite(fixed_point).all() & (fixed_point @ gradient > 0.0)
        step = jnp.where(uphill, fixed_point, gradient / (jnp.max(jnp.abs(w)) * steepness))
        step = jnp.where(jnp.isfinite(newton).all(), newton, step)

        def higher(size: jax.Array) -> jax.Array:
            return local_terms(w, x + size * step)[0] >= height

        _, size = jax.lax.while_loop(
            lambda state: (state[0] < max_halvings) & ~higher(state[1]),
            lambda state: (state[0] + 1, 0.5 * state[1]),
            (jnp.array(0), jnp.ones(())),
        )
        new = jnp.where(higher(size), x + size * step, x)
        return new, jnp.max(jnp.abs(new - x))

    def climb(w: jax.Array, start: jax.Array) -> tuple[jax.Array, ...]:
        (x, moved), count = jax.lax.while_loop(
            lambda state: (state[1] < max_iterations) & (state[0][1] > smallest_step),
            lambda state: (ascend(w, state[0][0]), state[1] + 1),
            ((start, jnp.array(jnp.inf)), jnp.array(0)),
        )
        height, curvature, _, outer = local_terms(w, x)
        concave = jnp.isfinite(jnp.linalg.cholesky(curvature - outer)).all()
        # A step that was given up has length 0, and so has one at a minimum.
        return x, height, count, jnp.where(concave, moved, jnp.inf)

    climbs = jax.lax.map(lambda arg: jax.lax.map(partial(climb, arg[0]), arg[1]), (weights, starts))
    return climbs  # type: ignore[no-any-return]


@double_precision
def reduced_embedding(embedding: Embedding, points: ArrayLike, nugget: float = 1e-10) -> Embedding:
    """Compute the nearest element that is a sum over other points, w = K_zz^-1 K_zx a.

    Args:
        embedding: the embedding to represent by fewer points.
        points: z, shape (m, D) or (m,).
        nugget: added to the diagonal of K_zz, over its mean.

    Raises:
        ValueError: for points of another number of columns.
    """
    support = as_points(in_order_of(points, embedding.columns, "points"), "points")
    check_columns(embedding.points, support, "points")
    gram = embedding.kernel.matrix(support, support)
    gram = gram + nugget * jnp.mean(jnp.diagonal(gram)) * jnp.eye(len(gram))
    values = embedding.sections.matrix(support, embedding.points) @ embedding.weights
    weights = jnp.linalg.solve(gram, values)
    return Embedding(embedding.kernel, support, weights, columns=embedding.columns)
