"""Kernel mean shrinkage estimators: the empirical embedding moved towards a fixed element of H.

KME section 3.4.1; Muandet et al., *Kernel Mean Shrinkage Estimators*, JMLR 17 (2016). The spectral
estimator shrinks every eigendirection of the Gram matrix by a different amount: KME (3.25);
Muandet, Sriperumbudur and Schölkopf, *Kernel mean estimation via spectral filtering* (2014). With
the smoothed kernel r in place of k it is the posterior mean of BKE (7), section 4.2.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from ..kernels.base import Covariance, as_points, check_positive
from ..linalg.precision import concrete, double_precision
from .embedding import Embedding, mean_embedding

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
            risk of mu_hat, and rho = ``|mu_hat - f*|^2``: ``"plug-in"`` D / (D + rho) (SHR-2);
            ``"positive-part"`` min(D / rho, 1), James and Stein's (SHR-3); ``"leave-one-out"`` the
            a that predicts left out features best (SHR-5), 1 where none does.
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
    risk = (mean_square - rho) / (n - 1)  # the unbiased estimate of E |mu_hat - mu|^2, SHR-2
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
    """Compute spectral shrinkage with Tikhonov's filter, weights (K + n lambda I)^-1 K 1/n (SHR-6).

    Args:
        X: shape (n, D) or (n,).
        kernel: the kernel.
        regularization: lambda, positive; or ``"leave-one-out"``, the lambda of a grid with the
            lowest of :func:`leave_one_out_scores`.
        smallest: of the grid, n lambda over the mean of the diagonal of K; the largest is n, beyond
            which everything is shrunk to zero. Not tuned.
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
    return Embedding(kernel, points, _spectral_weights(kernel.matrix(points, points), n * chosen))


@jax.jit
def _spectral_weights(K: jax.Array, added: jax.Array) -> jax.Array:
    factor = jax.scipy.linalg.cho_factor(K + added * jnp.eye(len(K)))
    weights: jax.Array = jax.scipy.linalg.cho_solve(factor, jnp.mean(K, axis=1))
    return weights


@double_precision
def leave_one_out_scores(X: ArrayLike, kernel: Covariance, regularization: ArrayLike) -> jax.Array:
    """Compute the mean squared distance of left out features to the others' estimate (SHR-7).

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
    values = jnp.atleast_1d(jnp.asarray(regularization, dtype=jnp.float64))
    if not isinstance(values, jax.core.Tracer) and not np.all(np.asarray(values) > 0.0):
        raise ValueError("regularization must be positive")
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

    scores: jax.Array = jax.lax.map(score, regularization)
    return scores
