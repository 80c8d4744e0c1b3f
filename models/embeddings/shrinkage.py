"""Kernel mean shrinkage estimators: the empirical embedding moved towards a fixed element of H.

KME section 3.4.1; Muandet et al., *Kernel Mean Shrinkage Estimators*, JMLR 17 (2016).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from ..kernels.base import Covariance, as_points, check_positive
from ..linalg.precision import concrete, double_precision
from .embedding import Embedding, mean_embedding

AMOUNTS = ("plug-in", "positive-part", "leave-one-out")


class Spread(NamedTuple):
    """What the amounts hang on: of the features k(x_i, .) - f*."""

    mean_square: jax.Array  # (1/n) sum_i |k(x_i, .) - f*|^2
    square_of_mean: jax.Array  # |mu_hat - f*|^2
    size: int  # n

    @property
    def risk(self) -> jax.Array:
        """The unbiased estimate of E |mu_hat - mu|^2, SHR-2."""
        return (self.mean_square - self.square_of_mean) / (self.size - 1)


@double_precision
def shrunk_embedding(
    X: ArrayLike,
    kernel: Covariance,
    *,
    amount: str | float = "plug-in",
    target: Embedding | None = None,
) -> Embedding:
    """The shrinkage estimator a f* + (1 - a) mu_hat, KME (3.22).

    What it lowers is the risk E |mu~ - mu|^2 in the kernel's Hilbert space, most with few rows in
    many columns; its values at the data need not be closer (``benchmarks/shrinkage.py``).

    Args:
        X: shape (n, D) or (n,), at least 2 rows unless ``amount`` is a number.
        kernel: the kernel.
        amount: a, between 0 and 1; or how it is found from the data. With D the unbiased estimate
            of the risk of mu_hat, and rho = ``|mu_hat - f*|^2``: ``"plug-in"`` D / (D + rho)
            (SHR-2); ``"positive-part"`` min(D / rho, 1), James and Stein's (SHR-3: what would be
            taken off mu_hat beyond all of it is not); ``"leave-one-out"`` the a that predicts left
            out features best (SHR-5), all of f* where none does.
        target: f*, an element of the kernel's Hilbert space chosen without the data; ``None`` for
            zero.

    Raises:
        ValueError: for arguments that make no sense, naming them.
    """
    empirical = mean_embedding(X, kernel)
    a = shrinkage_amount(X, kernel, target) if isinstance(amount, str) else None
    if a is None:
        value: Any = _checked(amount)
    elif amount in AMOUNTS:
        value = getattr(a, str(amount).replace("-", "_"))
    else:
        raise ValueError(f"amount must be a number or one of {AMOUNTS}, got {amount!r}")
    shrunk = empirical * (1.0 - value)
    return shrunk if target is None else shrunk + target * value


class Amounts(NamedTuple):
    """a by each of the three rules, see :func:`shrunk_embedding`."""

    plug_in: jax.Array
    positive_part: jax.Array
    leave_one_out: jax.Array


@double_precision
def shrinkage_amount(X: ArrayLike, kernel: Covariance, target: Embedding | None = None) -> Amounts:
    """How far :func:`shrunk_embedding` goes towards the target, by each of its rules.

    Raises:
        ValueError: for less than 2 rows.
    """
    spread = _spread(mean_embedding(X, kernel), target)
    n, vr, rho, risk = spread.size, spread.mean_square, spread.square_of_mean, spread.risk
    # lam = n (vr - rho) / ((n - 1) (n rho - vr)) and a = lam / (1 + lam), in one fraction: at
    # n rho = vr, where lam is infinite, a is 1.
    taken, kept = n * (vr - rho), (n - 1) * (n * rho - vr)
    everything = kept <= 0.0
    left_out = jnp.where(everything, 1.0, taken / jnp.where(everything, 1.0, taken + kept))
    none = risk <= 0.0  # all features are equal
    return Amounts(
        *(
            jnp.where(none, 0.0, a)
            for a in (
                risk / jnp.where(none, 1.0, risk + rho),
                jnp.minimum(risk / jnp.where(rho > 0.0, rho, risk), 1.0),
                left_out,
            )
        )
    )


def _spread(empirical: Embedding, target: Embedding | None) -> Spread:
    n = len(empirical.points)
    if n < 2:
        raise ValueError(f"shrinkage needs at least 2 rows to see their spread, got {n}")
    mean_square = jnp.mean(empirical.kernel.diagonal(empirical.points))
    if target is None:
        return Spread(mean_square, jnp.asarray(empirical.squared_norm()), n)
    away = target.squared_norm() - 2.0 * empirical.inner_product(target)
    return Spread(mean_square + away, jnp.asarray(empirical.squared_distance(target)), n)


def _checked(amount: Any) -> Any:
    value = concrete(amount)
    if isinstance(value, jax.core.Tracer):
        return amount
    if isinstance(value, bool) or np.ndim(value) != 0 or not 0.0 <= float(value) <= 1.0:
        raise ValueError(f"amount must be between 0 and 1, got {amount!r}")
    return float(value)


#: Regularizations that are tried: n lambda over the mean of the diagonal of K, from LOWEST to the
#: number of rows, beyond which everything is shrunk away.
LOWEST, TRIED = 1e-8, 120


@double_precision
def spectral_embedding(
    X: ArrayLike, kernel: Covariance, *, regularization: str | float = "leave-one-out"
) -> Embedding:
    """Spectral shrinkage with Tikhonov's filter, weights (K + n lambda I)^-1 K 1/n (SHR-6).

    Args:
        X: shape (n, D) or (n,).
        kernel: the kernel.
        regularization: lambda, positive; or ``"leave-one-out"``, the one of
            :func:`leave_one_out_scores` that predicts left out features best, among 120 of them.

    Raises:
        ValueError: for arguments that make no sense, naming them.
    """
    points = as_points(X)
    if isinstance(regularization, str):
        if regularization != "leave-one-out":
            raise ValueError(
                f"regularization must be a number or 'leave-one-out', got {regularization!r}"
            )
        n = len(points)
        unit = jnp.mean(kernel.diagonal(points)) / n
        tried = unit * jnp.geomspace(LOWEST, n, TRIED)
        chosen: ArrayLike = tried[jnp.argmin(jnp.asarray(leave_one_out_scores(X, kernel, tried)))]
    else:
        check_positive(regularization, "regularization")
        chosen = regularization
    K = kernel.matrix(points, points)
    return Embedding(kernel, points, _weights(K, len(K) * jnp.asarray(chosen)))


@jax.jit
def _weights(K: jax.Array, added: jax.Array) -> jax.Array:
    root = jax.scipy.linalg.cho_factor(K + added * jnp.eye(len(K)))
    weights: jax.Array = jax.scipy.linalg.cho_solve(root, jnp.mean(K, axis=1))
    return weights


@double_precision
def leave_one_out_scores(X: ArrayLike, kernel: Covariance, regularization: ArrayLike) -> jax.Array:
    """Mean squared distance of left out features to the spectral estimate of the others (SHR-7).

    (1/n) sum_i |mu^(-i) - k(x_i, .)|^2, with lambda per row: mu^(-i) is of n - 1 rows. One
    eigendecomposition, and then a cost of n^2 for every lambda.

    Args:
        X: shape (n, D) or (n,), at least 2 rows.
        kernel: the kernel.
        regularization: values of lambda, positive, (l,) or a number.

    Returns:
        Shape (l,).
    """
    points = as_points(X)
    if len(points) < 2:
        raise ValueError(f"leaving one out needs at least 2 rows, got {len(points)}")
    values = jnp.atleast_1d(jnp.asarray(regularization, dtype=jnp.float64))
    if not isinstance(values, jax.core.Tracer) and not np.all(np.asarray(values) > 0.0):
        raise ValueError("regularization must be positive")
    return _scores(kernel.matrix(points, points), values)


@jax.jit
def _scores(K: jax.Array, regularization: jax.Array) -> jax.Array:
    """The scores, from the eigendecomposition of K.

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
        own = jnp.sum(ones**2 * eigenvalues * smoother**2) / (n - 1) ** 2
        norms = own + 2.0 * (KAu + t * KBu) + KAA + 2.0 * t * KAB + t**2 * KBB
        return jnp.mean(norms - 2.0 * (Ku + KA + t * KB) + jnp.diagonal(K))

    scores: jax.Array = jax.lax.map(score, regularization)
    return scores
