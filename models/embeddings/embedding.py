"""Mean embeddings as objects, weighted sums of kernel sections, and their shrinkage estimators.

Kernel mean shrinkage moves the empirical embedding towards a fixed element of the Hilbert space:
KME section 3.4.1; Muandet et al., *Kernel Mean Shrinkage Estimators*, JMLR 17 (2016). The spectral
estimator shrinks every eigendirection of the Gram matrix by a different amount: KME (3.25);
Muandet, Sriperumbudur and Schölkopf, *Kernel mean estimation via spectral filtering* (2014). With
the smoothed kernel r in place of k it is the posterior mean of BKE (7), section 4.2.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from ..kernels.base import (
    Covariance,
    Kernel,
    as_points,
    check_columns,
    check_kernel,
    check_row_labels,
    check_same_columns,
    column_names,
    in_order_of,
    twice_smoothed,
)
from ..kernels.scikit_learn import SklearnKernel, as_kernel
from ..linalg.precision import check_positive, concrete, double_precision
from ..linalg.pytrees import register_dataclass
from ..linalg.rows import map_rows
from ..measures import Measure, as_measure


@register_dataclass
@dataclasses.dataclass(frozen=True, repr=False)
class Embedding:
    """sum_i w_i k(x_i, .), an element of the Hilbert space H of the kernel.

    Muandet et al. (2017, eq. 3.7 to 3.10). The weights may have any sign and any sum: the empirical
    embedding has weights 1/n, a difference of two those of both. Embeddings of one kernel can be
    added, subtracted and multiplied by numbers, and have inner products in H.
    :func:`mean_embedding` makes one.

    With a ``measure`` the sections are those of r instead, sum_i w_i r(x_i, .), and H stays that of
    k: r(x, .) is the embedding of the measure k(x, u) nu(du). The posterior mean of BKE (7) is such
    an element, see :func:`posterior_mean_embedding`.

    Attributes:
        kernel: k.
        points: (n, D).
        weights: (n,).
        measure: nu of the sections r; ``None`` if they are those of k.
        columns: names of the D columns, by which those of data frames are matched; ``None`` if
            they have none.
    """

    kernel: Covariance
    points: Any
    weights: Any
    measure: Measure | None = dataclasses.field(default=None, metadata={"static": True})
    columns: tuple[str, ...] | None = dataclasses.field(default=None, metadata={"static": True})

    def __post_init__(self) -> None:
        if isinstance(self.measure, str):
            object.__setattr__(self, "measure", as_measure(self.measure))
        points, weights = (getattr(part, "shape", None) for part in (self.points, self.weights))
        if points is None or weights is None:  # placeholders of a transformation
            return
        if len(points) != 2 or weights != points[:1]:
            raise ValueError(
                f"an embedding has points (n, D) and one weight for each, got shapes {points} and "
                f"{weights}"
            )

    def __repr__(self) -> str:
        shape = getattr(self.points, "shape", "?")
        smoothed = "" if self.measure is None else f", measure={self.measure!r}"
        return f"Embedding(points of shape {shape}, kernel={self.kernel}{smoothed})"

    @property
    def sections(self) -> Covariance:
        """k, or r where there is a measure."""
        if self.measure is None:
            return self.kernel
        if not isinstance(self.kernel, Kernel):
            raise ValueError(f"{type(self.kernel).__name__} has no smoothed kernel")
        return self.kernel.smoothed(self.measure, self.points.shape[1])

    @double_precision
    def __call__(self, at: ArrayLike) -> jax.Array:
        """Return the values <k(t, .), mu> at the points ``at`` (m, D) or (m,), shape (m,)."""
        points = as_points(in_order_of(at, self.columns, "at"), "at")
        check_columns(self.points, points, "at")
        return _values(self.sections, points, self.points, self.weights)

    @double_precision
    def inner_product(self, other: Embedding) -> jax.Array:
        """Compute the inner product in H, sum_ij w_i v_j k(x_i, y_j).

        Raises:
            ValueError: the embeddings belong to different kernels.
        """
        self._check_space(other)
        values = _values(self._between(other), self.points, other.points, other.weights)
        return jnp.asarray(self.weights) @ values

    @double_precision
    def squared_norm(self) -> jax.Array:
        """Compute the inner product with itself, at least 0."""
        return jnp.maximum(self.inner_product(self), 0.0)

    def norm(self) -> jax.Array:
        """Compute the norm in H."""
        return self.squared_norm() ** 0.5

    @double_precision
    def squared_distance(self, other: Embedding) -> jax.Array:
        """Compute the squared norm of the difference: the squared MMD, not debiased."""
        squares = self.inner_product(self) + other.inner_product(other)
        return jnp.maximum(squares - 2.0 * self.inner_product(other), 0.0)

    def distance(self, other: Embedding) -> jax.Array:
        """Compute the norm of the difference, the MMD."""
        return self.squared_distance(other) ** 0.5

    @double_precision
    def expectation(self, function: Embedding | Callable[[np.ndarray], ArrayLike]) -> jax.Array:
        """Estimate E f(X) (Muandet et al. 2017, Lemma 3.1).

        Args:
            function: an element of H, sum_j c_j k(z_j, .), for which this is the inner product; or
                any function of the points (n, D) with n values or rows (n, ...), of which the
                weighted sum is taken. It is not divided by the sum of the weights, see
                :meth:`normalized`.

        Raises:
            ValueError: for such a function with smoothed sections, which are no points; or one that
                returns another number of values.
        """
        if isinstance(function, Embedding):
            return self.inner_product(function)
        if self.measure is not None:
            raise ValueError(
                "an embedding with smoothed sections is not a sum over points: pass the function "
                "as an Embedding, an element of the Hilbert space"
            )
        return jnp.tensordot(jnp.asarray(self.weights), function_values(function, self.points), 1)

    @double_precision
    def normalized(self) -> Embedding:
        """Return the embedding with weights that sum to one.

        Raises:
            ArithmeticError: their sum is zero up to rounding.
        """
        total = jnp.sum(jnp.asarray(self.weights))
        traced = isinstance(total, jax.core.Tracer)
        if not traced and not abs(total) > 1e-12 * np.abs(self.weights).sum():
            raise ArithmeticError("the weights of this embedding sum to nothing")
        return dataclasses.replace(self, weights=self.weights / total)

    def mean(self) -> jax.Array:
        """Return E X by the normalized weights, (D,)."""
        return self.normalized().expectation(lambda points: points)

    @double_precision
    def __add__(self, other: Embedding) -> Embedding:
        if not isinstance(other, Embedding):
            return NotImplemented
        self._check_space(other)
        if self.measure != other.measure:
            raise ValueError("one embedding has sections of k and the other of r: they do not add")
        points = jnp.concatenate([self.points, other.points])
        weights = jnp.concatenate([self.weights, other.weights])
        columns = self.columns or other.columns
        return dataclasses.replace(self, points=points, weights=weights, columns=columns)

    def __mul__(self, factor: ArrayLike) -> Embedding:
        if isinstance(factor, Embedding) or np.ndim(factor) != 0:
            return NotImplemented
        return dataclasses.replace(self, weights=self.weights * factor)

    # NumPy scalars leave ``2.0 * embedding`` to __rmul__ instead of building an object array.
    __array_ufunc__ = None
    __rmul__ = __mul__

    def __truediv__(self, divisor: ArrayLike) -> Embedding:
        return self * (1.0 / divisor)  # type: ignore[operator]

    def __neg__(self) -> Embedding:
        return self * -1.0

    def __sub__(self, other: Embedding) -> Embedding:
        return self + (-other) if isinstance(other, Embedding) else NotImplemented

    def _check_space(self, other: Embedding) -> None:
        if self.points.shape[1] != other.points.shape[1]:
            raise ValueError(
                f"the embeddings have {self.points.shape[1]} and {other.points.shape[1]} columns"
            )
        check_same_columns(self.columns, other.columns, "one embedding", "the other")
        if not same_kernel(self.kernel, other.kernel):
            raise ValueError(
                f"the embeddings belong to different kernels: {self.kernel} and {other.kernel}"
            )

    def _between(self, other: Embedding) -> Covariance:
        """Return the inner products in H of the sections of both."""
        if self.measure is None:
            return other.sections
        if other.measure is None:
            return self.sections
        if self.measure != other.measure or not isinstance(self.kernel, Kernel):
            raise ValueError("the embeddings are smoothed by different measures")
        return twice_smoothed(self.kernel, self.measure, self.points.shape[1])


def _values(covariance: Covariance, at: Any, points: Any, weights: Any) -> jax.Array:
    if isinstance(covariance, SklearnKernel):
        return jnp.asarray(covariance(at, points) @ np.asarray(weights))
    return _compiled_values(covariance, at, points, weights)


@jax.jit
def _compiled_values(covariance: Covariance, at: Any, points: Any, weights: Any) -> jax.Array:
    """Compute sum_i w_i r(t, x_i) at every t (m, D), without the m x n matrix."""
    return map_rows(lambda t: covariance.matrix(t[None], points)[0] @ weights, at, len(points))


@double_precision
def function_values(function: Callable[..., Any], *points: Any) -> jax.Array:
    """Return the values of a function of rows, (n,) or (n, ...).

    Raises:
        ValueError: it is not a function, or the number of values is not that of the points.
    """
    if not callable(function):
        raise ValueError(f"a function of the points is needed, got {function!r}")
    values, n = jnp.asarray(function(*points), dtype=jnp.float64), len(points[0])
    if values.ndim == 0 or len(values) != n:
        raise ValueError(
            f"the function must return one value or row for each of {n} points, got shape "
            f"{values.shape}"
        )
    return values


def same_kernel(first: Covariance, second: Covariance) -> bool:
    """Return whether two kernels are equal; traced parameters must be the same objects."""

    def equal(a: Any, b: Any) -> bool:
        traced = isinstance(a, jax.core.Tracer) or isinstance(b, jax.core.Tracer)
        return a is b or (not traced and bool(np.array_equal(a, b)))

    structure: Any
    leaves, structure = jax.tree.flatten(first)
    other_leaves, other_structure = jax.tree.flatten(second)
    return bool(structure == other_structure) and all(map(equal, leaves, other_leaves))


@double_precision
def mean_embedding(X: ArrayLike, kernel: Covariance, weights: ArrayLike | None = None) -> Embedding:
    """Compute the embedding of a weighted sample, sum_i w_i k(x_i, .).

    Args:
        X: shape (n, D) or (n,).
        kernel: the kernel, of this package or of ``sklearn.gaussian_process.kernels``.
        weights: (n,), of any sign; 1/n by default, the empirical embedding (Muandet et al.
            2017, eq. 3.12).

    Raises:
        ValueError: for no points, or weights that do not match them or are not finite.
    """
    kernel = as_kernel(kernel)
    check_kernel(kernel, "kernel")
    points = as_points(X)
    n = len(points)
    if n == 0:
        raise ValueError("an embedding needs at least 1 point")
    check_row_labels(X, weights, ("X", "weights"))
    kernel.check_points(points)
    weights = jnp.full(n, 1.0 / n) if weights is None else weights
    if np.shape(weights) != (n,):
        raise ValueError(
            f"there are {n} points, and the weights must have shape ({n},), got {np.shape(weights)}"
        )
    return Embedding(kernel, points, as_points(weights, "weights")[:, 0], columns=column_names(X))


#: Rules for the amount of shrinkage, see :func:`shrunk_embedding`.
SHRINKAGE_RULES = ("plug-in", "positive-part", "leave-one-out")


@double_precision
def shrunk_embedding(
    X: ArrayLike,
    kernel: Covariance,
    *,
    amount: str | float = "plug-in",
    target: Embedding | None = None,
) -> Embedding:
    """Compute the shrinkage estimator a f* + (1 - a) mu_hat, KME (3.22).

    It lowers the risk E |mu~ - mu|^2 in the kernel's Hilbert space, most with few rows in many
    columns; its values at the data need not be closer (``benchmarks/shrinkage.py``).

    Args:
        X: shape (n, D) or (n,), at least 2 rows unless ``amount`` is a number.
        kernel: the kernel.
        amount: a, between 0 and 1; or a rule to estimate it. With D the unbiased estimate of the
            risk of mu_hat, and rho = ``|mu_hat - f*|^2``: ``"plug-in"`` D / (D + rho);
            ``"positive-part"`` min(D / rho, 1), James and Stein's; ``"leave-one-out"`` the
            a that predicts left out features best, 1 where none does.
        target: f*, an element of the kernel's Hilbert space chosen without the data; ``None`` for
            zero.

    Raises:
        ValueError: for an invalid argument.
    """
    empirical = mean_embedding(X, kernel)
    value: Any = amount
    if isinstance(amount, str):
        amounts = shrinkage_amount(X, kernel, target)
        if amount not in amounts:
            raise ValueError(f"amount must be a number or one of {SHRINKAGE_RULES}, got {amount!r}")
        value = amounts[amount]
    elif not isinstance(known := concrete(amount), jax.core.Tracer):
        if isinstance(known, bool) or np.ndim(known) != 0 or not 0.0 <= float(known) <= 1.0:
            raise ValueError(f"amount must be between 0 and 1, got {amount!r}")
        value = float(known)
    shrunk = empirical * (1.0 - value)
    return shrunk if target is None else shrunk + target * value


@double_precision
def shrinkage_amount(
    X: ArrayLike, kernel: Covariance, target: Embedding | None = None
) -> dict[str, jax.Array]:
    """Compute the amount a of :func:`shrunk_embedding` by each of its rules.

    Returns:
        The amounts by the names of the rules.

    Raises:
        ValueError: for less than 2 rows.
    """
    empirical = mean_embedding(X, kernel)
    n = len(empirical.points)
    if n < 2:
        raise ValueError(f"shrinkage needs at least 2 rows to estimate the variance, got {n}")
    # (1/n) sum_i |k(x_i, .) - f*|^2 and |mu_hat - f*|^2.
    mean_square = jnp.mean(empirical.kernel.diagonal(empirical.points))
    rho = empirical.squared_norm()
    if target is not None:
        mean_square += target.squared_norm() - 2.0 * empirical.inner_product(target)
        rho = empirical.squared_distance(target)
    risk = (mean_square - rho) / (n - 1)  # the unbiased estimate of E |mu_hat - mu|^2
    # lam = n (mean_square - rho) / ((n - 1) (n rho - mean_square)) and a = lam / (1 + lam), in one
    # fraction: where lam is infinite, a is 1.
    numerator, denominator = n * (mean_square - rho), (n - 1) * (n * rho - mean_square)
    infinite = denominator <= 0.0
    fraction = numerator / jnp.where(infinite, 1.0, numerator + denominator)
    degenerate = risk <= 0.0  # all features are equal
    amounts = (
        risk / jnp.where(degenerate, 1.0, risk + rho),
        jnp.minimum(risk / jnp.where(rho > 0.0, rho, risk), 1.0),
        jnp.where(infinite, 1.0, fraction),
    )
    values = (jnp.where(degenerate, 0.0, a) for a in amounts)
    return dict(zip(SHRINKAGE_RULES, values, strict=True))


@double_precision
def spectral_embedding(
    X: ArrayLike,
    kernel: Covariance,
    *,
    regularization: str | float = "leave-one-out",
    smallest: float = 1e-8,
    grid_size: int = 120,
) -> Embedding:
    """Compute spectral shrinkage with Tikhonov's filter, weights (K + n lambda I)^-1 K 1/n.

    Muandet et al. (2017, eq. 3.25).

    Args:
        X: shape (n, D) or (n,).
        kernel: the kernel.
        regularization: lambda, positive; or ``"leave-one-out"``, the lambda of a grid with the
            lowest of :func:`leave_one_out_scores`.
        smallest: first value of the grid, n lambda over the mean of the diagonal of K; the last is
            n, beyond which everything is shrunk to zero. Not tuned.
        grid_size: number of values on the grid.

    Raises:
        ValueError: for an invalid argument.
    """
    points = as_points(X)
    n = len(points)
    if not isinstance(regularization, str):
        check_positive(regularization, "regularization")
        chosen = jnp.asarray(regularization)
    elif regularization == "leave-one-out":
        unit = jnp.mean(kernel.diagonal(points)) / n
        grid = unit * jnp.geomspace(smallest, n, grid_size)
        chosen = grid[jnp.argmin(jnp.asarray(leave_one_out_scores(X, kernel, grid)))]
    else:
        raise ValueError(
            f"regularization must be a number or 'leave-one-out', got {regularization!r}"
        )
    K = kernel.matrix(points, points)
    factor = jax.scipy.linalg.cho_factor(K + n * chosen * jnp.eye(n))
    weights = jax.scipy.linalg.cho_solve(factor, jnp.mean(K, axis=1))
    return Embedding(kernel, points, weights, columns=column_names(X))


@double_precision
def leave_one_out_scores(X: ArrayLike, kernel: Covariance, regularization: ArrayLike) -> jax.Array:
    """Compute the mean squared distance of left out features to the others' estimate.

    (1/n) sum_i |mu^(-i) - k(x_i, .)|^2 for the spectral estimate, with lambda per row: mu^(-i) is
    of n - 1 rows. One eigendecomposition, and then a cost of n^2 for every lambda.

    Args:
        X: shape (n, D) or (n,), at least 2 rows.
        kernel: the kernel.
        regularization: values of lambda, positive, (l,) or a number.

    Returns:
        Shape (l,).
    """
    points = as_points(X)
    if len(points) < 2:
        raise ValueError(f"leave-one-out scores need at least 2 rows, got {len(points)}")
    check_positive(regularization, "regularization")
    values = jnp.atleast_1d(jnp.asarray(regularization, dtype=jnp.float64))
    return _scores(kernel.matrix(points, points), values)


@jax.jit
def _scores(K: jax.Array, regularization: jax.Array) -> jax.Array:
    """Compute the scores from the eigendecomposition of K.

    With lp = (n - 1) lambda, R = (K + lp I)^-1 and S = K R the weights of mu^(-i) are
    c_i = u + A e_i + t_i B e_i with A = -S / (n - 1), B = -lp R, u = S 1 / (n - 1) and
    t_i = (K R m_i)_i / (1 - (R K)_ii), m_i = (1 - e_i) / (n - 1): functions of K but for t, so that
    every term is a diagonal of one, sum_k Q_ik^2 f(lambda_k).
    """
    n = len(K)
    eigenvalues, Q = jnp.linalg.eigh(K)
    eigenvalues = jnp.maximum(eigenvalues, 0.0)
    squares, ones = Q**2, jnp.sum(Q, axis=0)

    def score(lam: jax.Array) -> jax.Array:
        lp = (n - 1) * lam
        resolvent = 1.0 / (eigenvalues + lp)
        smoother = eigenvalues * resolvent
        a, b = -smoother / (n - 1), -lp * resolvent
        u = Q @ (smoother * ones) / (n - 1)
        t = (u - squares @ smoother / (n - 1)) / (1.0 - squares @ smoother)
        Ku = Q @ (eigenvalues * smoother * ones) / (n - 1)
        KAu, KBu = (Q @ (f * eigenvalues * smoother * ones) / (n - 1) for f in (a, b))
        diagonal = [squares @ (eigenvalues * f) for f in (a, b, a * a, a * b, b * b)]
        KA, KB, KAA, KAB, KBB = diagonal
        uKu = jnp.sum(ones**2 * eigenvalues * smoother**2) / (n - 1) ** 2
        norms = uKu + 2.0 * (KAu + t * KBu) + KAA + 2.0 * t * KAB + t**2 * KBB
        return jnp.mean(norms - 2.0 * (Ku + KA + t * KB) + jnp.diagonal(K))

    return jax.lax.map(score, regularization)
