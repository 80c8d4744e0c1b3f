"""Stein's kernel and the kernel Stein discrepancy of a sample from a density."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from ..kernels.base import Radial, as_points, check_columns, per_column
from ..linalg.precision import double_precision
from .discrepancy import mean_off_diagonal


@double_precision
def stein_matrix(
    X: ArrayLike,
    scores: ArrayLike,
    kernel: Radial,
    Y: ArrayLike | None = None,
    scores_of_Y: ArrayLike | None = None,
) -> jax.Array:
    """Compute the matrix (n, m) of Stein's kernel h_p, whose mean under p is zero.

    ``h_p(x, y) = s(x)'s(y) k(x, y) + s(x)'dk/dy + s(y)'dk/dx + sum_d d^2k/dx_d dy_d`` with the
    score s = d log p / dx: positive definite, and of mean zero in each argument where that is drawn
    from p (Liu, Lee and Jordan 2016, eq. 9; Chwialkowski, Strathmann and Gretton 2016, section 2).
    It does not depend on the normalizing constant of p.

    Args:
        X: shape (n, D) or (n,).
        scores: s at the rows of X, of the same shape.
        kernel: k, a function of the distance over its lengthscale.
        Y: shape (m, D) or (m,); by default X.
        scores_of_Y: s at the rows of Y.

    Raises:
        ValueError: for scores of another shape, or a kernel that is not smooth enough or not a
            :class:`~bke.models.Radial`.
    """
    x, s = _checked(X, scores, "X")
    y, t = (x, s) if Y is None else _checked(Y, () if scores_of_Y is None else scores_of_Y, "Y")
    check_columns(x, y, "Y")
    check_stein_kernel(kernel)
    return stein_block(x, s, y, t, kernel)


@double_precision
def squared_stein_discrepancy(X: ArrayLike, scores: ArrayLike, kernel: Radial) -> jax.Array:
    """Estimate the squared kernel Stein discrepancy without bias, the mean of h_p over i != j.

    Its expectation is zero for a sample of p.

    Args:
        X: shape (n, D) or (n,), n >= 2.
        scores: scores of the density, d log p / dx at the rows of X.
        kernel: a function of the distance over its lengthscale, see :func:`stein_matrix`.

    Raises:
        ValueError: as :func:`stein_matrix`, or for one row.
    """
    return mean_off_diagonal(stein_matrix(X, scores, kernel))


def _checked(X: ArrayLike, scores: Any, name: str) -> tuple[jax.Array, jax.Array]:
    points, values = as_points(X, name), as_points(scores, f"the scores of {name}")
    if points.shape != values.shape:
        raise ValueError(
            f"the scores of {name} must have the shape of {name}, {points.shape}, got "
            f"{values.shape}"
        )
    return points, values


def check_stein_kernel(kernel: Any, tolerance: float = 0.01) -> None:
    """Refuse a kernel that is not radial, or has no second derivative at equal points.

    ``decay`` of a smooth kernel differs by a fraction of less than ``tolerance`` at rho 1e-6 and
    1e-4: by 2e-4 for a Matern kernel of smoothness 3/2, by a factor of 100 for one of 1/2.

    Raises:
        ValueError: says which.
    """
    if not isinstance(kernel, Radial):
        raise ValueError(
            "kernel must be a function of the distance over its lengthscale (a Radial), such as "
            f"RationalQuadratic(alpha=0.5), the inverse multiquadric, got {kernel!r}"
        )
    decay, reference = stein_terms(kernel, jnp.array([1e-12, 1e-8]))[1]
    traced = isinstance(decay, jax.core.Tracer)
    if not traced and not abs(decay - reference) <= tolerance * abs(reference):
        raise ValueError(
            f"{kernel!r} is not smooth enough where points are equal: Stein's kernel bends there"
        )


@jax.jit
def stein_block(
    x: jax.Array, s: jax.Array, y: jax.Array, t: jax.Array, kernel: Radial
) -> jax.Array:
    """Compute Stein's kernel of (n, D) and (m, D) points with their scores, by matrix products."""
    lengthscale = per_column(kernel.lengthscale, x.shape[1], "lengthscale").reshape(-1)
    # Relative to a common center: products of distant points would cancel.
    center = jnp.mean(y, axis=0)
    a, b = (x - center) / lengthscale, (y - center) / lengthscale
    value, decay, curvature = stein_terms(kernel, squared_distances(a, b))
    u, v = s / lengthscale, t / lengthscale
    # (s(x) - t(y))' (x - y) / lengthscale^2, term by term.
    along = jnp.sum(u * a, axis=1)[:, None] + jnp.sum(v * b, axis=1) - u @ b.T - a @ v.T
    inverse = jnp.broadcast_to(1.0 / lengthscale, (x.shape[1],))
    second = decay * jnp.sum(inverse**2) + curvature * squared_distances(a * inverse, b * inverse)
    return (s @ t.T) * value + decay * along + second


@jax.jit
def stein_column(
    terms: tuple[jax.Array, jax.Array, jax.Array],
    x: jax.Array,
    s: jax.Array,
    y: jax.Array,
    t: jax.Array,
    lengthscale: jax.Array,
) -> jax.Array:
    """Compute the contribution of one column to h_p, (n, m), from values and scores (n,) and (m,).

    Contributions of all columns add up to h_p, and each has mean zero under p.
    """
    value, decay, curvature = terms
    delta = (x[:, None] - y) / lengthscale
    along = delta * (s[:, None] - t) / lengthscale
    second = (decay + curvature * delta**2) / lengthscale**2
    return value * (s[:, None] * t) + decay * along + second


def stein_terms(
    kernel: Radial, rho_squared: jax.Array, smallest: float = 1e-12
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Compute k and its derivatives as functions of rho^2 (n, m), also at equal points.

    With delta = x_i - y_j, ``dk/dx_d = -decay delta_d / lengthscale_d^2``, and ``d^2k/dx_d dy_d =
    decay / lengthscale_d^2 + curvature delta_d^2 / lengthscale_d^4``.

    Args:
        kernel: k.
        rho_squared: squared distances over the lengthscale.
        smallest: points with a smaller rho^2 count as equal: that is rounding of products, and a
            square root has no derivative at 0.

    Returns:
        ``value``, ``decay`` and ``curvature``, each (n, m).
    """

    def decay_and_value(rho_squared: jax.Array) -> tuple[jax.Array, jax.Array]:
        log_scale, value, decay = kernel.value_and_decay(rho_squared)
        return jnp.exp(log_scale) * decay, jnp.exp(log_scale) * value

    rho_squared, ones = jnp.maximum(rho_squared, smallest), jnp.ones_like(rho_squared)
    decay, slope, value = jax.jvp(decay_and_value, (rho_squared,), (ones,), has_aux=True)
    return value, decay, 2.0 * slope


def squared_distances(a: jax.Array, b: jax.Array) -> jax.Array:
    """Compute squared distances (n, m) of (n, D) and (m, D) points near the origin."""
    squared = jnp.sum(a**2, axis=1)[:, None] + jnp.sum(b**2, axis=1) - 2.0 * a @ b.T
    return jnp.maximum(squared, 0.0)
