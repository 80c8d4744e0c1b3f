"""How far a sample is from a density of which only the slope is known: Stein's method, MMD-23."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from ..kernels.base import as_points, check_columns, per_column
from ..kernels.radial import Radial
from ..linalg.precision import double_precision

#: Rho^2 below which points count as equal: rounding of products, and no slope of a square root.
LEAST = 1e-12
#: The pull of a kernel that has it at equal points differs by less than this share at rho 1e-6 and
#: 1e-4: by 2e-4 of a Matern kernel of smoothness 3/2, a hundredfold of one of 1/2.
ROUGH = 0.01


class SteinTerms(NamedTuple):
    """What a radial kernel k says of all pairs, (n, m) each, with delta = x_i - y_j.

    ``dk/dx_d = -pull delta_d / lengthscale_d^2``, and ``d^2k/dx_d dy_d = pull / lengthscale_d^2 +
    bend delta_d^2 / lengthscale_d^4``.
    """

    value: jax.Array
    pull: jax.Array
    bend: jax.Array


@double_precision
def stein_matrix(
    X: ArrayLike,
    scores: ArrayLike,
    kernel: Radial,
    Y: ArrayLike | None = None,
    scores_of_Y: ArrayLike | None = None,
) -> jax.Array:
    """The matrix (n, m) of Stein's kernel h_p, whose mean under the density p is zero (MMD-23).

    ``h_p(x, y) = s(x)'s(y) k(x, y) + s(x)'dk/dy + s(y)'dk/dx + sum_d d^2k/dx_d dy_d`` with the
    score s = d log p / dx: positive definite, and of mean zero in each argument where that is drawn
    from p (Liu, Lee and Jordan 2016, eq. 9; Chwialkowski, Strathmann and Gretton 2016, section 2).
    The normaliser of p plays no part.

    Args:
        X: shape (n, D) or (n,).
        scores: s at the rows of X, of the same shape.
        kernel: k, of the distance over its lengthscale.
        Y: shape (m, D) or (m,); by default X.
        scores_of_Y: s at the rows of Y.

    Raises:
        ValueError: for scores of another shape, or a kernel that is no :class:`~bke.models.Radial`.
    """
    x, s = _checked(X, scores, "X")
    y, t = (x, s) if Y is None else _checked(Y, () if scores_of_Y is None else scores_of_Y, "Y")
    check_columns(x, y, "Y")
    check_stein_kernel(kernel)
    return stein_block(x, s, y, t, kernel)


@double_precision
def squared_stein_discrepancy(X: ArrayLike, scores: ArrayLike, kernel: Radial) -> jax.Array:
    """Estimate without bias how far a sample is from a density: the mean of h_p over i != j.

    Zero in the mean for a sample of p; the square of the kernel Stein discrepancy (MMD-23).

    Args:
        X: shape (n, D) or (n,), n >= 2.
        scores: of the density, d log p / dx at the rows of X.
        kernel: of the distance over its lengthscale, see :func:`stein_matrix`.

    Raises:
        ValueError: as of :func:`stein_matrix`.
    """
    matrix = stein_matrix(X, scores, kernel)
    n = len(matrix)
    if n < 2:
        raise ValueError(f"X must have at least 2 rows, got {n}")
    return (jnp.sum(matrix) - jnp.trace(matrix)) / (n * (n - 1))


def _checked(X: ArrayLike, scores: Any, name: str) -> tuple[jax.Array, jax.Array]:
    points, slopes = as_points(X, name), as_points(scores, f"the scores of {name}")
    if points.shape != slopes.shape:
        raise ValueError(
            f"the scores of {name} must have the shape of {name}, {points.shape}, got "
            f"{slopes.shape}"
        )
    return points, slopes


def check_stein_kernel(kernel: Any) -> None:
    """Refuse what is no kernel of the distance, or has no second slope at equal points.

    Raises:
        ValueError: says which.
    """
    if not isinstance(kernel, Radial):
        raise ValueError(
            "kernel must be one of the distance over its lengthscale (a Radial), such as "
            f"RationalQuadratic(alpha=0.5), the inverse multiquadric, got {kernel!r}"
        )
    near, far = stein_terms(kernel, jnp.array([LEAST, 1e4 * LEAST])).pull
    if not isinstance(near, jax.core.Tracer) and not abs(near - far) <= ROUGH * abs(far):
        raise ValueError(
            f"{kernel!r} is not smooth enough where points are equal: Stein's kernel bends there"
        )


@jax.jit
def stein_block(
    x: jax.Array, s: jax.Array, y: jax.Array, t: jax.Array, kernel: Radial
) -> jax.Array:
    """Stein's kernel of (n, D) and (m, D) points with their scores, by matrix products."""
    lengthscale = per_column(kernel.lengthscale, x.shape[1], "lengthscale").reshape(-1)
    # From a centre that is common to both, for products of far points would cancel.
    centre = jnp.mean(y, axis=0)
    a, b = (x - centre) / lengthscale, (y - centre) / lengthscale
    terms = stein_terms(kernel, squared_distances(a, b))
    u, v = s / lengthscale, t / lengthscale
    # (s(x) - t(y))' (x - y) / lengthscale^2, term by term.
    along = jnp.sum(u * a, axis=1)[:, None] + jnp.sum(v * b, axis=1) - u @ b.T - a @ v.T
    inverse = jnp.broadcast_to(1.0 / lengthscale, (x.shape[1],))
    curved = terms.pull * jnp.sum(inverse**2) + terms.bend * squared_distances(
        a * inverse, b * inverse
    )
    return (s @ t.T) * terms.value + terms.pull * along + curved


@jax.jit
def stein_column(
    terms: SteinTerms,
    x: jax.Array,
    s: jax.Array,
    y: jax.Array,
    t: jax.Array,
    lengthscale: jax.Array,
) -> jax.Array:
    """One column's part of h_p, (n, m), by its values and scores (n,) and (m,).

    All columns' parts add up to h_p, and each is of mean zero under p.
    """
    delta = (x[:, None] - y) / lengthscale
    along = delta * (s[:, None] - t) / lengthscale
    curved = (terms.pull + terms.bend * delta**2) / lengthscale**2
    return terms.value * (s[:, None] * t) + terms.pull * along + curved


def stein_terms(kernel: Radial, rho_squared: jax.Array) -> SteinTerms:
    """What the kernel says as a function of rho^2 (n, m), equal points included."""

    def pull(at: jax.Array) -> jax.Array:
        terms = kernel.of(at)
        return jnp.exp(terms.log_scale) * terms.pull

    at = jnp.maximum(rho_squared, LEAST)
    found, slope = jax.jvp(pull, (at,), (jnp.ones_like(at),))
    terms = kernel.of(at)
    return SteinTerms(jnp.exp(terms.log_scale) * terms.value, found, 2.0 * slope)


def squared_distances(a: jax.Array, b: jax.Array) -> jax.Array:
    """Squared distances (n, m) of (n, D) and (m, D) points near the origin."""
    found = jnp.sum(a**2, axis=1)[:, None] + jnp.sum(b**2, axis=1) - 2.0 * a @ b.T
    return jnp.maximum(found, 0.0)
