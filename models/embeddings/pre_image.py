"""From an embedding back to points: its highest point, and the same embedding on other points."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from ..kernels.base import Covariance, Kernel, as_points, check_columns
from ..kernels.components import Components, accumulate, apply
from ..kernels.components import quadratic_form as quadratic
from ..kernels.rotation import Rotation
from ..precision import double_precision
from .embedding import Embedding

#: Highest points of the sample that the fixed-point iteration starts from.
STARTS = 8
#: Halvings of a step that would lower the embedding.
HALVINGS = 30


class PreImage(NamedTuple):
    """Where an embedding is highest, see :func:`pre_image`."""

    point: np.ndarray  # (D,)
    value: float  # of the embedding there
    iterations: int  # of the start that led there; 0 where the maximum is in closed form
    converged: bool


def pre_image(
    embedding: Embedding, *, starts: int = STARTS, iterations: int = 200, tolerance: float = 1e-10
) -> PreImage:
    """The point whose feature is nearest, argmin_x |mu - k(x, .)|^2 (PRE-3), an approximate mode.

    For a kernel with k(x, x) the same everywhere that is where the embedding is highest. Sums of
    Gaussian components: the fixed-point iteration x <- (sum_i w_i k(x_i, x) P)^-1 sum_i w_i
    k(x_i, x) P x_i, P the precision, from the highest of the embedding's own points, with steps
    halved where weights of both signs would take them downhill; so it ends no lower than it began.
    :class:`~bke.models.Rotation`: the nearest rotation to sum_i w_i X_i, by its singular vectors.
    Other kernels: the highest of the embedding's own points, and ``converged`` says so.

    Args:
        embedding: with points in R^D.
        starts: of the iteration; the highest end is returned.
        iterations: of one start, at most.
        tolerance: of a step over the spread of the points, where the iteration ends.

    Raises:
        ValueError: for arguments that make no sense.
    """
    if starts < 1 or iterations < 1 or not tolerance > 0:
        raise ValueError("starts and iterations must be at least 1, and tolerance positive")
    points = np.asarray(embedding.points)
    if isinstance(embedding.kernel, Rotation):
        point = nearest_rotation(np.asarray(embedding.weights) @ points)
        return PreImage(point, float(np.asarray(embedding(point[None]))[0]), 0, True)
    values = np.asarray(embedding(points))
    order = np.argsort(-values, kind="stable")[:starts]
    components = _components(embedding)
    if components is None:
        return PreImage(points[order[0]], float(values[order[0]]), 0, False)
    with jax.enable_x64(True):
        spread = float(np.max(np.ptp(points, axis=0))) or 1.0
        found = _climb(
            components, points, embedding.weights, points[order], tolerance * spread, iterations
        )
    ends, heights, counts, moved = (np.asarray(part) for part in found)
    best = int(np.argmax(heights))
    converged = bool(moved[best] <= tolerance * spread)
    return PreImage(ends[best], float(heights[best]), int(counts[best]), converged)


def _components(embedding: Embedding) -> Components | None:
    kernel: Covariance = embedding.kernel
    if embedding.measure is not None or not isinstance(kernel, Kernel):
        return None
    with jax.enable_x64(True):
        components = kernel.components(embedding.points.shape[1])
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
    """Ends (s, D), heights (s,), iterations and last steps of all ``starts`` (s, D)."""
    D = points.shape[1]
    largest = jnp.max(jnp.abs(weights)) * jnp.exp(jnp.max(components.log_weight))
    steepest = largest * _steepness(components)

    def parts(x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """The embedding at x, sum_i w_i k_i P and sum_i w_i k_i P (x_i - x)."""
        delta = (points - x).T

        def one(component: Components) -> tuple[jax.Array, jax.Array, jax.Array]:
            terms = weights * jnp.exp(
                component.log_weight - 0.5 * quadratic(component.precision, delta)
            )
            precision = component.precision
            full = jnp.diag(precision) if precision.ndim == 1 else precision
            pull = jnp.sum(apply(precision, delta) * terms, axis=1)
            return jnp.sum(terms), jnp.sum(terms) * full, pull

        start = (jnp.zeros(()), jnp.zeros((D, D)), jnp.zeros(D))
        found: tuple[jax.Array, jax.Array, jax.Array] = accumulate(one, components, start)
        return found

    def ascend(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        height, curvature, pull = parts(x)
        step = jnp.linalg.solve(curvature, pull)
        # Where the weights nearby are negative the fixed point is a minimum: along the slope then.
        uphill = jnp.isfinite(step).all() & (step @ pull > 0.0)
        step = jnp.where(uphill, step, pull / steepest)

        def lower(state: tuple[jax.Array, jax.Array]) -> jax.Array:
            count, size = state
            return (count < HALVINGS) & ~(parts(x + size * step)[0] >= height)

        def halve(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            return state[0] + 1, 0.5 * state[1]

        _, size = jax.lax.while_loop(lower, halve, (jnp.array(0), jnp.ones(())))
        better = parts(x + size * step)[0] >= height
        new = jnp.where(better, x + size * step, x)
        return new, jnp.max(jnp.abs(new - x))

    def run(start: jax.Array) -> Any:
        def unfinished(state: Any) -> jax.Array:
            _, count, moved = state
            return (count < iterations) & (moved > smallest)

        def step(state: Any) -> Any:
            x, moved = ascend(state[0])
            return x, state[1] + 1, moved

        x, count, moved = jax.lax.while_loop(unfinished, step, (start, 0, jnp.inf))
        return x, parts(x)[0], count, moved

    return jax.lax.map(run, starts)


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
