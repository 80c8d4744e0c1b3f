"""From an embedding back to points: its highest point, and the same embedding on other points."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from ..kernels.base import Covariance, Kernel, as_points, check_columns
from ..kernels.components import Components, accumulate, matvec, quadratic_form as quadratic
from ..kernels.embedding_kernels import Rotation
from ..linalg.precision import double_precision
from .embedding import Embedding

#: Highest points of the sample that the fixed-point iteration starts from.
STARTS = 4
#: Halvings of a step that would lower the embedding.
HALVINGS = 30


class PreImage(NamedTuple):
    """Where an embedding is highest, see :func:`pre_image`."""

    point: np.ndarray  # (D,)
    value: float  # of the embedding there
    iterations: int  # of the start that led there; 0 where the maximum is in closed form
    converged: bool


def pre_image(
    embedding: Embedding, *, starts: int = STARTS, iterations: int = 200, tolerance: float = 1e-8
) -> PreImage:
    """The point whose feature is nearest, argmin_x |mu - k(x, .)|^2 (PRE-3), an approximate mode.

    For a kernel with k(x, x) the same everywhere that is where the embedding is highest. Sums of
    Gaussian components: the fixed-point iteration x <- (sum_i w_i k(x_i, x) P)^-1 sum_i w_i
    k(x_i, x) P x_i, P the precision, from the highest of the embedding's own points, with Newton's
    step in its place where the embedding is concave, and steps halved where weights of both signs
    would take them downhill; so it ends no lower than it began. :class:`~bke.models.Rotation`: the
    nearest rotation to sum_i w_i X_i, by its singular vectors. Other kernels: the highest of the
    embedding's own points, and ``converged`` says so.

    Args:
        embedding: with points in R^D.
        starts: of the iteration; the highest end is returned.
        iterations: of one start, at most.
        tolerance: of a step over the spread of the points, where the iteration ends.

    Returns:
        ``converged`` says that the iteration ended at a maximum, where the embedding is concave.

    Raises:
        ValueError: for arguments that make no sense.
    """
    if starts < 1 or iterations < 1 or not tolerance > 0:
        raise ValueError("starts and iterations must be at least 1, and tolerance positive")
    if embedding.measure is not None:
        points, sections = np.asarray(embedding.points), np.asarray(embedding(embedding.points))
        best = int(np.argmax(sections))
        return PreImage(points[best], float(sections[best]), 0, False)
    found = pre_images(
        embedding.kernel,
        np.asarray(embedding.points),
        np.asarray(embedding.weights)[None],
        starts=starts,
        iterations=iterations,
        tolerance=tolerance,
    )
    return PreImage(
        found.point[0], float(found.value[0]), int(found.iterations[0]), bool(found.converged[0])
    )


class PreImages(NamedTuple):
    """The highest points of S embeddings, each as in :class:`PreImage`."""

    point: np.ndarray  # (S, D)
    value: np.ndarray  # (S,)
    iterations: np.ndarray  # (S,)
    converged: np.ndarray  # (S,)


def pre_images(
    kernel: Covariance,
    points: np.ndarray,
    weights: np.ndarray,
    *,
    starts: int = STARTS,
    iterations: int = 200,
    tolerance: float = 1e-8,
) -> PreImages:
    """:func:`pre_image` of embeddings that share their points (n, D), with weights (S, n)."""
    count = len(weights)
    if isinstance(kernel, Rotation):
        nearest = np.stack([nearest_rotation(row) for row in weights @ points])
        values = np.sum(nearest * (weights @ points), axis=1)
        return PreImages(nearest, values, np.zeros(count, int), np.ones(count, bool))
    heights = weights @ np.asarray(kernel(points))
    order = np.argsort(-heights, axis=1, kind="stable")[:, :starts]
    components = _components(kernel, points.shape[1])
    if components is None:
        rows = np.arange(count)
        values = heights[rows, order[:, 0]]
        return PreImages(points[order[:, 0]], values, np.zeros(count, int), np.zeros(count, bool))
    with jax.enable_x64(True):
        smallest = tolerance * (float(np.max(np.ptp(points, axis=0))) or 1.0)
        found = _climb(components, points, weights, points[order], smallest, iterations)
    ends, tops, steps, moved = (np.asarray(part) for part in found)
    best = np.argmax(tops, axis=1)
    rows = np.arange(count)
    converged = moved[rows, best] <= smallest
    return PreImages(ends[rows, best], tops[rows, best], steps[rows, best], converged)


def _components(kernel: Covariance, dimension: int) -> Components | None:
    if not isinstance(kernel, Kernel):
        return None
    with jax.enable_x64(True):
        components = kernel.components(dimension)
    return None if components is None or components.frequency is not None else components


@jax.jit
def _climb(
    components: Components,
    points: jax.Array,
    weights: jax.Array,
    starts: jax.Array,
    smallest: jax.Array,
    iterations: jax.Array,
) -> Any:
    """Ends (S, s, D), heights (S, s), iterations and last steps of all ``starts`` (S, s, D)."""

    def one(given: tuple[jax.Array, jax.Array]) -> Any:
        w, places = given
        largest = jnp.max(jnp.abs(w)) * jnp.sum(jnp.exp(components.log_weight))
        steepest = largest * _steepness(components)

        def run(start: jax.Array) -> Any:
            def unfinished(state: Any) -> jax.Array:
                _, count, moved = state
                return (count < iterations) & (moved > smallest)

            def step(state: Any) -> Any:
                x, moved = _ascend(components, points, w, steepest, state[0])
                return x, state[1] + 1, moved

            x, count, moved = jax.lax.while_loop(unfinished, step, (start, 0, jnp.inf))
            height, curvature, _, outer = _around(components, points, w, x)
            top = jnp.isfinite(jnp.linalg.cholesky(curvature - outer)).all()
            # A step that is given up moves nowhere, and so does one at a minimum.
            return x, height, count, jnp.where(top, moved, jnp.inf)

        return jax.lax.map(run, places)

    return jax.lax.map(one, (weights, starts))


def _ascend(
    components: Components, points: jax.Array, weights: jax.Array, steepest: jax.Array, x: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The next point, at least as high as x (D,), and how far the largest coordinate moved."""
    height, curvature, pull, outer = _around(components, points, weights, x)
    # The embedding's slope is ``pull``, its second derivative outer - curvature.
    root = jnp.linalg.cholesky(curvature - outer)
    newton = jax.scipy.linalg.cho_solve((root, True), pull)
    fixed_point = jnp.linalg.solve(curvature, pull)
    # Where the weights nearby are negative the fixed point is a minimum: along the slope then.
    uphill = jnp.isfinite(fixed_point).all() & (fixed_point @ pull > 0.0)
    step = jnp.where(uphill, fixed_point, pull / steepest)
    step = jnp.where(jnp.isfinite(newton).all(), newton, step)

    def at(size: jax.Array) -> jax.Array:
        return _around(components, points, weights, x + size * step)[0]

    def lower(state: tuple[jax.Array, jax.Array]) -> jax.Array:
        count, size = state
        return (count < HALVINGS) & ~(at(size) >= height)

    def halve(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        return state[0] + 1, 0.5 * state[1]

    _, size = jax.lax.while_loop(lower, halve, (jnp.array(0), jnp.ones(())))
    new = jnp.where(at(size) >= height, x + size * step, x)
    return new, jnp.max(jnp.abs(new - x))


def _around(
    components: Components, points: jax.Array, weights: jax.Array, x: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """With d_i = x_i - x, the sums of w_i k_i, and of w_i k_i times P, P d_i and P d_i d_i' P."""
    D = points.shape[1]
    delta = (points - x).T

    def one(component: Components) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
        precision = component.precision
        terms = weights * jnp.exp(component.log_weight - 0.5 * quadratic(precision, delta))
        pulls = matvec(precision, delta)
        full = jnp.diag(precision) if precision.ndim == 1 else precision
        total = jnp.sum(terms)
        return total, total * full, pulls @ terms, (pulls * terms) @ pulls.T

    start = (jnp.zeros(()), jnp.zeros((D, D)), jnp.zeros(D), jnp.zeros((D, D)))
    found: tuple[jax.Array, jax.Array, jax.Array, jax.Array] = accumulate(one, components, start)
    return found


def _steepness(components: Components) -> jax.Array:
    """The largest precision there is."""
    precision = components.precision
    if precision.ndim == 2:
        return jnp.max(precision)
    return jnp.max(jax.vmap(jnp.linalg.eigvalsh)(precision))


def nearest_rotation(matrix: np.ndarray) -> np.ndarray:
    """The rotation A, as 9 numbers, for which Tr[A M'] is largest, M given by 9 numbers.

    With M = U S V', U diag(1, 1, det(U V')) V'.
    """
    left, _, right = np.linalg.svd(matrix.reshape(3, 3))
    sign = np.sign(np.linalg.det(left @ right))
    return np.asarray((left * [1.0, 1.0, sign]) @ right).reshape(9)


@double_precision
def reduced_embedding(embedding: Embedding, points: ArrayLike, nugget: float = 1e-10) -> Embedding:
    """The nearest element that is a sum over other points, w = K_zz^-1 K_zx a (PRE-4).

    Args:
        embedding: the embedding to be told by fewer points.
        points: z, shape (m, D) or (m,).
        nugget: added to the diagonal of K_zz, over its mean.

    Raises:
        ValueError: for points of another number of columns.
    """
    places = as_points(points, "points")
    check_columns(embedding.points, places, "points")
    gram = embedding.kernel.matrix(places, places)
    gram = gram + nugget * jnp.mean(jnp.diagonal(gram)) * jnp.eye(len(gram))
    values = embedding.sections.matrix(places, embedding.points) @ embedding.weights
    return Embedding(embedding.kernel, places, jnp.linalg.solve(gram, values))
