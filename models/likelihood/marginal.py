"""The log marginal likelihood of the Bayesian kernel embedding, BKE (13), by any of its ways.

Each way is a :class:`~bke.models.likelihood.way.Likelihood` with its options, which makes of the
data a :class:`~bke.models.likelihood.view.LikelihoodView`: the n x n matrices
(:mod:`bke.models.likelihood.dense`), sums over one to three columns of data, or a Kalman filter
over one, at a cost linear in n (:mod:`bke.models.likelihood.spectral`), and approximations at a
cost linear in the rows (:mod:`bke.models.likelihood.low_rank`).
"""

from __future__ import annotations

import jax
import numpy as np
from jax.typing import ArrayLike

from ..kernels.base import Kernel, as_points
from ..linalg.precision import concrete, double_precision, tracing
from ..measures import Measure, fixed_measure
from .noise import Noise, check_noise
from .routes import ROUTES, Auto
from .view import compiled_log_likelihood
from .way import Likelihood, as_likelihood


def known_points(X: ArrayLike) -> jax.Array:
    """``X`` as (n, D) points, with known entries where ``X`` has them, even inside a trace."""
    if isinstance(X, jax.core.Tracer):
        return as_points(X)
    with jax.ensure_compile_time_eval():
        return as_points(X)


@double_precision
def log_marginal_likelihood(
    X: ArrayLike,
    kernel: Kernel,
    *,
    noise_variance: Noise = 0.1,
    measure: Measure | str = "unit",
    likelihood: Likelihood | str = "auto",
) -> jax.Array:
    """Log p(X | kernel) = log N(mu_hat; 0, R + sigma^2 I) + sum_i log gamma(x_i), BKE (13).

    For D = 1 this is a density of the data (up to the non-injectivity of mu_hat); for D >= 2 it is
    a pseudo-likelihood. Its constant depends on the kernel family, so it compares lengthscales
    within a family and is no Bayes factor between families.

    Args:
        X: data, shape (n, D) or (n,).
        kernel: a kernel; its parameters may be traced (jit, grad, vmap).
        noise_variance: sigma^2 of BKE (5), a positive number. It cannot be learned freely: the
            value grows without bound as it goes to 0. Or ``"clt"``, ``"heteroscedastic"``, the
            sampling covariance of mu_hat, see :class:`~bke.models.SamplingNoise`.
        measure: ``"unit"``, ``"lebesgue"`` or :class:`~bke.models.Gaussian`.
        likelihood: ``"dense"``: the n x n matrices, which a sampling covariance always takes.
            ``"spectral"``: sums over waves, over a grid where the lengthscale is short, a band of R
            where every point has fewer than 50 others within 12 lengthscales, and sums over tensor
            products in two or three columns; for the squared exponential with one
            lengthscale, in one column also times a number and in sums (or ``GaussianMixture``), a
            measure that is not Gaussian and one noise variance. Agrees with the dense value to
            rounding at a cost linear in n and, in one column, in what there is of the data's
            extent, in lengthscales; in several, and for sums, it grows with the rank of R to the
            third power, that is with the extent, its square or its cube. Of a sum the shortest
            lengthscale decides, down to a 250th of what there is of the extent, and the others
            may be as long as they like. Where that is too much, a lengthscale takes the matrices,
            and is refused beyond 5000 rows. In one column also for Matern and Laplace, by a Kalman
            filter at a cost linear in n whatever the lengthscale, where sigma^2 is more than 2e-11
            of the trace of R. ``"auto"``: spectral where it can be and n is at least 2000, or in
            several columns and for sums 5001, else a low-rank factor of R where that is exact to
            1e-11, else dense.
            :class:`~bke.models.Nystrom` and :class:`~bke.models.Fourier`, of a rank:
            approximations at a cost linear in n in any number of columns, from landmarks or from
            random waves, corrected by rows chosen at random; :func:`~bke.models.low_rank_error`
            tells how far they may be off. Nystrom is the better one by far at the same rank, and
            takes any kernel.

    Returns:
        A scalar: NumPy float64 when called eagerly. ``-inf`` where a gamma(x_i) is exactly zero.

    Raises:
        ValueError: for an argument that makes no sense, naming it.
        ArithmeticError: where the noise is lost to rounding beside R, as with the Lebesgue measure
            and long lengthscales in several dimensions (r(x, x) grows like lengthscale^D), or the
            lengthscale is too short, see ``likelihood``; inside a transformation the value is NaN
            there.
        RuntimeError: inside a JAX transformation with ``jax_enable_x64`` off.
    """
    noise_variance = check_noise(noise_variance)
    measure = fixed_measure(measure)
    way = Auto(once=True) if likelihood == "auto" else as_likelihood(likelihood, ROUTES)
    if not (way.exact or way.approximate):
        raise ValueError(f"likelihood={way.name!r} is another model: it has no value of BKE (13)")
    points = known_points(X)
    if not tracing():
        kernel.smoothed(measure, points.shape[1])  # refuses what compiled code could not name
    view = way.view(points, kernel, noise_variance, measure)
    value = compiled_log_likelihood(view, kernel, noise_variance, measure)
    if not isinstance(value, jax.core.Tracer) and np.isnan(concrete(value)):
        raise ArithmeticError(
            view.obstacle(kernel)
            or "R + noise_variance I is not positive definite in double precision, or too near "
            "that for the route: noise_variance is too small beside the diagonal of R "
            "(measure='unit' keeps that at 1), or X has values that are not finite"
        )
    return value
