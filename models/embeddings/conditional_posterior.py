"""Posterior of conditional expectations: a Gaussian process on the embedding of Y given X = x.

The conditional embedding mu(x) = E[l(Y, .) | X = x] has the prior of BKE (3) and (4) for every x,

    mu(x) ~ mu_0 + GP(0, s^2 k(x, x') R),  l(y_i, .) | mu ~ GP(mu(x_i), s^2 lambda R),

with R the smoothed kernel of l, for the noise too, whose covariance is l smoothed by the
conditional distribution (Chau et al. 2021, BayesIMP). The mean mu_0 has a flat prior: values of l
are positive, and a mean of zero would take their size for a signal. k and lambda are shared by all
functions of Y. Given them the posterior of E[f(Y) | X = x] is Gaussian process regression of f(y_i)
on x_i; with the prior 1 / s on the scale of each f it is a Student t.

p(Y | X) is the product of p(Y), the marginal likelihood BKE (13) with its Jacobian factor, which
determines the kernel of Y, and of the Bayes factor of a dependence on x
(:func:`log_conditional_evidence`), which determines k and lambda. The density of all m values of
l(y_i, .) at landmarks, with the Jacobian of these, cannot determine l: it grows without bound with
the lengthscale, the n m numbers filling n E dimensions only.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from numpy.typing import ArrayLike
from scipy import linalg
from scipy.special import stdtr, stdtrit

from ..kernels.base import Covariance, Kernel, as_points, check_kernel, column_names
from ..kernels.covariance import as_pairs
from ..linalg.precision import check_positive, double_precision
from .conditional import as_numpy_pairs, matching_points, regularized_cholesky
from .embedding import function_values

#: Added to R at landmarks, over its diagonal: rounding would exceed smaller eigenvalues.
JITTER = 1e-6


@double_precision
def log_conditional_evidence(
    X: jax.typing.ArrayLike,
    Y: jax.typing.ArrayLike,
    landmarks: jax.typing.ArrayLike,
    kernel_x: Covariance,
    kernel_y: Kernel,
    regularization: Any,
) -> jax.Array:
    """Compute the log Bayes factor of a conditional embedding that depends on x.

    The n m values g_i = l(y_i, z) at m landmarks z have a matrix normal distribution with
    covariances s^2 V, V = K_X + lambda I, of rows and R_zz of columns. With the flat prior of their
    mean and the prior 1 / s of the scale, the log of their density over that for V = I is m / 2
    times

        -(n - 1) log(tr[R^-1 G' P G] / tr[R^-1 G' H G]) - log|V| - log(1' V^-1 1 / n),

    with P = V^-1 - V^-1 1 1' V^-1 / (1' V^-1 1) and H the centering matrix. |R| and the Jacobian of
    y -> g cancel. The g_i are functions of E columns of Y, not m independent ones: the log is
    multiplied by E / m. For a wide l and one column it is that of Gaussian process regression of y.

    Args:
        X: the conditioning variable, shape (n, D) or (n,).
        Y: shape (n, E) or (n,), row by row with X.
        landmarks: shape (m, E) or (m,), see :func:`~bke.models.choose_landmarks`; m well below n.
        kernel_x: k.
        kernel_y: l; R is smoothed by the unit measure.
        regularization: lambda, relative to k(x, x) (n times that of
            :func:`~bke.models.conditional_embedding`); positive.

    Returns:
        A number, near 0 for large lambda; differentiable in all parameters.

    Raises:
        ValueError: for an invalid argument, naming it.
        RuntimeError: inside a JAX transformation with ``jax_enable_x64`` off.
    """
    x, y = as_pairs(X, Y)
    z = as_points(landmarks, "landmarks")
    if y.shape[1] != z.shape[1]:
        raise ValueError(f"Y has {y.shape[1]} columns but landmarks has {z.shape[1]}")
    check_positive(regularization, "regularization")
    n = len(x)
    R = kernel_y.smoothed("unit", y.shape[1]).matrix(z, z)
    R = R + JITTER * jnp.mean(jnp.diagonal(R)) * jnp.eye(len(z))
    root = jnp.linalg.cholesky(kernel_x.matrix(x, x) + regularization * jnp.eye(n))
    G = kernel_y.matrix(y, z)
    G = solve_triangular(jnp.linalg.cholesky(R), (G - jnp.mean(G, axis=0)).T, lower=True).T
    whitened = solve_triangular(root, jnp.column_stack([jnp.ones(n), G]), lower=True)
    one, A = whitened[:, 0], whitened[:, 1:]
    total = one @ one
    A = A - jnp.outer(one, one @ A / total)
    half_log_determinant = jnp.sum(jnp.log(jnp.diagonal(root))) + 0.5 * jnp.log(total / n)
    log_ratio = jnp.log(jnp.sum(A**2) / jnp.sum(G**2))
    return y.shape[1] * (-0.5 * (n - 1) * log_ratio - half_log_determinant)


@dataclasses.dataclass(frozen=True, repr=False)
class ConditionalPosterior:
    """Posterior of E[f(Y) | X = x] for functions f, a mixture of Student t distributions.

    One component for each pair of k and lambda, with n - 1 degrees of freedom.

    Attributes:
        X: (n, D).
        Y: (n, E).
        kernels: k of each component.
        regularizations: lambda of each component, (S,).
        weights: of the components, (S,), with sum one.
        columns: names of the columns of X; ``None`` without names.
    """

    X: np.ndarray
    Y: np.ndarray
    kernels: tuple[Covariance, ...]
    regularizations: np.ndarray
    weights: np.ndarray
    columns: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        return f"ConditionalPosterior(of {len(self.Y)} pairs, {len(self.weights)} components)"

    def expectation(
        self, x: ArrayLike, function: Callable[[np.ndarray], ArrayLike] | None = None
    ) -> np.ndarray:
        """Compute the posterior mean of E[f(Y) | X = x].

        Far from all x_i it is the generalized least squares mean of f(Y).

        Args:
            x: shape (m, D), (m,) or one row (D,).
            function: f of Y (n, E), with values (n,) or (n, F); Y itself by default. With
                ``lambda y: kernel_y(y, z)`` it is the embedding at the points z.

        Returns:
            Shape (m,) or (m, F).

        Raises:
            ValueError: for other columns, or values of f that are not finite.
        """
        points, values = matching_points(x, self.X, "x", self.columns), self._values(function)
        locations = (location for location, _ in self._components(points, values))
        result = sum(w * location for w, location in zip(self.weights, locations, strict=True))
        return np.asarray(result).reshape(len(points), *values.shape[1:])

    def interval(
        self,
        x: ArrayLike,
        function: Callable[[np.ndarray], ArrayLike] | None = None,
        *,
        level: float = 0.9,
    ) -> np.ndarray:
        """Compute pointwise credible intervals of E[f(Y) | X = x], between equal tails.

        Arguments and exceptions are those of :meth:`expectation`, and ``level``, the probability
        that the interval contains the expectation.

        Returns:
            Lower and upper end on the last axis, (m, 2) or (m, F, 2).
        """
        if not 0.0 < level < 1.0:
            raise ValueError(f"level must be between 0 and 1, got {level!r}")
        points, values = matching_points(x, self.X, "x", self.columns), self._values(function)
        components = list(self._components(points, values))
        location, scale = (np.stack(part) for part in zip(*components, strict=True))
        freedom = len(self.Y) - 1
        ends = []
        for probability in (0.5 - 0.5 * level, 0.5 + 0.5 * level):
            quantiles = location + stdtrit(freedom, probability) * scale
            low, high = quantiles.min(axis=0), quantiles.max(axis=0)
            for _ in range(40 if len(location) > 1 else 0):  # halvings of the components' range
                middle = 0.5 * (low + high)
                # A constant f has a scale of zero: its quantiles are equal, and need no search.
                standardized = (middle - location) / np.where(scale > 0.0, scale, 1.0)
                below = np.tensordot(self.weights, stdtr(freedom, standardized), 1) < probability
                low, high = np.where(below, middle, low), np.where(below, high, middle)
            ends.append((0.5 * (low + high)).reshape(len(points), *values.shape[1:]))
        return np.stack(ends, axis=-1)

    def _values(self, function: Callable[[np.ndarray], ArrayLike] | None) -> np.ndarray:
        """Return f of Y, (n,) or (n, F)."""
        if function is None:
            return self.Y
        values = np.asarray(double_precision(function_values)(function, self.Y))
        if not np.all(np.isfinite(values)):
            row = int(np.argwhere(~np.isfinite(values))[0, 0]) + 1
            raise ValueError(f"the function is not finite at row {row} of Y")
        return values

    def _components(
        self, points: np.ndarray, values: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the location and scale (m, F) of each component, of the expectations of values."""
        n, values, previous = len(self.Y), values.reshape(len(values), -1), None
        for kernel, regularization in zip(self.kernels, self.regularizations, strict=True):
            if kernel is not previous:  # points of quadrature with the same kernel come together
                gram, K = np.asarray(kernel(self.X)), np.asarray(kernel(points, self.X))
                diagonal = np.asarray(double_precision(kernel.diagonal)(points))  # type: ignore[arg-type]
                previous = kernel
            factor = regularized_cholesky(
                gram, regularization, "the Gram matrix of X", "regularization"
            )
            # The mean of f and its weights, by generalized least squares.
            solved = linalg.cho_solve(factor, np.column_stack([np.ones(n), values]))
            one, total = solved[:, 0], solved[:, 0].sum()
            center = one @ values / total
            alpha = solved[:, 1:] - np.outer(one, center)
            squared_scale = np.sum((values - center) * alpha, axis=0) / (n - 1)
            explained = linalg.solve_triangular(factor[0], K.T, trans="T")
            variance = diagonal - np.sum(explained**2, axis=0) + (1.0 - K @ one) ** 2 / total
            factors = np.maximum(variance, 0.0), np.maximum(squared_scale, 0.0)
            yield center + K @ alpha, np.sqrt(np.outer(*factors))


def conditional_posterior(
    X: ArrayLike,
    Y: ArrayLike,
    kernel_x: Covariance | Sequence[Covariance],
    regularization: ArrayLike,
    *,
    weights: ArrayLike | None = None,
) -> ConditionalPosterior:
    """Compute the posterior of conditional expectations of Y, given k and lambda or draws of them.

    Args:
        X: the conditioning variable, shape (n, D) or (n,).
        Y: shape (n, E) or (n,), row by row with X.
        kernel_x: k, or a sequence of S kernels, such as draws of
            :func:`~bke.models.conditional_model`.
        regularization: lambda, relative to k(x, x) (n times that of
            :func:`~bke.models.conditional_embedding`), a number or (S,).
        weights: of the draws, (S,), by default equal.

    Raises:
        ValueError: for an invalid argument, naming it.
    """
    x, y = as_numpy_pairs(X, Y)
    for name, points in (("X", x), ("Y", y)):
        constant = np.flatnonzero(np.ptp(points, axis=0) == 0.0) if len(points) > 1 else [0]
        if len(constant):
            raise ValueError(
                f"column {constant[0] + 1} of {name} has the same value in all rows: leave it out"
            )
    kernels = tuple(kernel_x) if isinstance(kernel_x, (list, tuple)) else (kernel_x,)
    for kernel in kernels:
        check_kernel(kernel, "kernel_x")
    values = np.atleast_1d(np.asarray(regularization, dtype=float))
    check_positive(values, "regularization")
    mixture = np.ones(len(kernels)) if weights is None else np.asarray(weights, dtype=float)
    if not len(kernels) == len(values) == len(mixture):
        raise ValueError(
            f"kernel_x has {len(kernels)} kernels, with {len(values)} values of regularization and "
            f"{len(mixture)} weights: give one of each for every draw"
        )
    if not (np.all(np.isfinite(mixture) & (mixture >= 0.0)) and mixture.sum() > 0.0):
        raise ValueError("weights must be at least 0 and finite, and not all zero")
    return ConditionalPosterior(x, y, kernels, values, mixture / mixture.sum(), column_names(X))
