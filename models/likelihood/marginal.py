"""The log marginal likelihood of the Bayesian kernel embedding, BKE (13), by one of several routes.

``"dense"`` works with the n x n matrices (:mod:`bke.models.likelihood.dense`), ``"spectral"`` with
sums over one to three columns of data, or a Kalman filter over one, at a cost linear in n
(:mod:`bke.models.likelihood.spectral`).
``"nystrom"`` and ``"fourier"`` approximate the first at a cost linear in the rows
(:mod:`bke.models.likelihood.low_rank`).
``"landmark"`` is no route but another model of the same kernel (:mod:`bke.models.landmarks`).
"""

from __future__ import annotations

from functools import partial
from typing import Any, TypeAlias, cast, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from ..arrays.padding import PaddedRows, dense_size, padded
from ..arrays.precision import concrete, double_precision, tracing
from ..kernels.base import Kernel, as_points
from ..landmarks import LandmarkView, landmark_terms, landmark_view
from ..measures.measure import Gaussian, Measure, check_fixed, check_measure
from .dense import LogLikelihoodTerms, dense_terms
from .low_rank import LOW_RANK, LowRankView, low_rank_terms, low_rank_view
from .names import LikelihoodName, Route
from .noise import Noise, SamplingNoise, check_noise
from .spectral import SpectralIndex, has_one, spectral_index, spectral_obstacle, spectral_terms

ROUTES: tuple[str, ...] = get_args(Route)
LIKELIHOODS: tuple[str, ...] = get_args(LikelihoodName)

#: Points as they are, (n, D), padded, or prepared for another route or the landmark model.
Prepared: TypeAlias = jax.Array | PaddedRows | SpectralIndex | LowRankView | LandmarkView
#: What these are, but for points as they are.
READY = PaddedRows, SpectralIndex, LowRankView, LandmarkView
#: Rows from which on a single value by the spectral route takes less time than by matrices, with
#: what it takes to prepare; and in several columns, and for sums, where there is more to compile.
SMALLEST_PREPARED_ONCE, SMALLEST_BOX_ONCE = 2000, 5001


def check_likelihood(likelihood: str, choices: tuple[str, ...] = LIKELIHOODS) -> str:
    """Return ``likelihood`` or raise ``ValueError`` naming the ``choices``."""
    if likelihood not in choices:
        raise ValueError(f"likelihood must be one of {choices}, got {likelihood!r}")
    return likelihood


def known_points(X: ArrayLike) -> jax.Array:
    """``X`` as (n, D) points, with known entries where ``X`` has them, even inside a trace."""
    if isinstance(X, jax.core.Tracer):
        return as_points(X)
    with jax.ensure_compile_time_eval():
        return as_points(X)


def prepared(
    points: Any,
    kernel: Kernel,
    noise_variance: Noise,
    measure: Measure,
    likelihood: str,
    landmarks: Any = None,
    smallest: int = 0,
    rank: Any = None,
) -> Prepared:
    """(n, D) ``points`` as the route needs them that ``likelihood`` asks for.

    ``"auto"`` takes the spectral route where it can, from ``smallest`` rows on; ``"landmark"``
    needs (m, D) ``landmarks``, ``"nystrom"`` and ``"fourier"`` a ``rank``.

    Raises:
        ValueError: where what was asked for cannot be used, with the reason.
    """
    auto = likelihood == "auto"
    check_has_rank(likelihood, rank)
    if isinstance(points, READY):
        return points
    if likelihood == "dense":
        return of_shared_size(points, noise_variance)
    if likelihood in LOW_RANK:
        if isinstance(check_noise(noise_variance), SamplingNoise):
            raise ValueError(f"likelihood={likelihood!r} has one noise variance, sigma^2")
        return low_rank_view(points, kernel, measure, likelihood, rank)
    if likelihood == "landmark":
        return _seen_from(points, landmarks, noise_variance)
    if isinstance(points, jax.core.Tracer):
        reason = "the data are traced, and it sorts them: close over them instead"
    else:
        dimension, noise = points.shape[1], check_noise(noise_variance)
        reason = spectral_obstacle(dimension, kernel, measure, noise) or ""
        if not reason and not (auto and len(points) < smallest):
            try:
                index = spectral_index(np.asarray(points), kernel)
                return cast(SpectralIndex, jax.tree.map(jnp.asarray, index))
            except ValueError as error:
                reason = str(error)
    if not auto:
        raise ValueError(f"likelihood='spectral' cannot be used here: {reason}")
    return of_shared_size(points, noise_variance)


def of_shared_size(points: Any, noise_variance: Noise) -> jax.Array | PaddedRows:
    """(n, D) ``points`` for the matrices, padded where that is known to pay."""
    size = dense_size(len(points))
    traced = isinstance(points, jax.core.Tracer)
    sampling = isinstance(check_noise(noise_variance), SamplingNoise)
    if traced or sampling or size == len(points):
        return cast(jax.Array, points)
    return cast(PaddedRows, jax.tree.map(jnp.asarray, padded(points, size)))


def check_has_rank(likelihood: str, rank: Any) -> None:
    """Refuse a ``rank`` that nothing is made of."""
    if rank is not None and likelihood not in LOW_RANK:
        raise ValueError(f"rank is for likelihood='nystrom' or 'fourier', not for {likelihood!r}")


def _seen_from(points: jax.Array, landmarks: Any, noise_variance: Noise) -> LandmarkView:
    if isinstance(check_noise(noise_variance), SamplingNoise):
        raise ValueError("likelihood='landmark' has one noise variance, that of k(x, z)")
    if landmarks is None:
        raise ValueError("likelihood='landmark' needs landmarks, see choose_landmarks")
    return landmark_view(points, as_points(landmarks, "landmarks"))


def log_likelihood_terms(
    points: Prepared,
    kernel: Kernel,
    noise_variance: Noise = 0.1,
    measure: Measure = "unit",
    likelihood: str = "auto",
) -> LogLikelihoodTerms:
    """Log N(mu_hat; 0, R + sigma^2 I) and sum_i log gamma(x_i) for ``points``."""
    if isinstance(points, SpectralIndex):
        return spectral_terms(points, kernel, check_noise(noise_variance), measure)
    if isinstance(points, LowRankView):
        return low_rank_terms(points, kernel, noise_variance, measure)
    if isinstance(points, LandmarkView):
        return landmark_terms(points, kernel, noise_variance, measure)
    return dense_terms(points, kernel, noise_variance, measure, low_rank=likelihood != "dense")


@partial(jax.jit, static_argnames=("measure", "likelihood"))
def _compiled(
    points: Prepared,
    kernel: Kernel,
    noise_variance: Any,
    finite_measure: Gaussian | None,
    measure: str | None,
    likelihood: str,
) -> jax.Array:
    chosen = cast(Measure, finite_measure if measure is None else measure)
    terms = log_likelihood_terms(points, kernel, noise_variance, chosen, likelihood)
    return terms.gaussian + terms.volume


@double_precision
def log_marginal_likelihood(
    X: ArrayLike,
    kernel: Kernel,
    *,
    noise_variance: Noise = 0.1,
    measure: Measure = "unit",
    likelihood: str = "auto",
    rank: int | None = None,
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
            ``"nystrom"``, ``"fourier"``: approximations at a cost linear in n in any number of
            columns, from landmarks or from random waves, corrected by rows chosen at random;
            :func:`~bke.models.low_rank_error` tells how far they may be off. Nystrom is the
            better one by far at the same rank, and takes any kernel.
        rank: m of these two, the number of landmarks or of waves: the cost is that of n m (m + D).

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
    check_fixed(check_measure(measure))
    check_likelihood(likelihood, (*ROUTES, *LOW_RANK))
    points = known_points(X)
    if not tracing():
        kernel.smoothed(measure, points.shape[1])  # refuses what compiled code could not name
    named = isinstance(measure, str)
    one = points.shape[1] == 1 and has_one(kernel)
    smallest = SMALLEST_PREPARED_ONCE if one else SMALLEST_BOX_ONCE
    ready = prepared(
        points, kernel, noise_variance, measure, likelihood, smallest=smallest, rank=rank
    )
    value = _compiled(
        ready,
        kernel,
        noise_variance,
        finite_measure=None if named else measure,
        measure=measure if named else None,
        likelihood=likelihood,
    )
    if not isinstance(value, jax.core.Tracer) and np.isnan(concrete(value)):
        if isinstance(ready, SpectralIndex) and not ready.takes(kernel):
            raise ArithmeticError(
                f"a lengthscale {ready.refused} is too short beside "
                f"{len(points)} rows: R has a rank for which no route is fast enough"
            )
        raise ArithmeticError(
            "R + noise_variance I is not positive definite in double precision, or too near that "
            "for the route: noise_variance is too small beside the diagonal of R (measure='unit' "
            "keeps that at 1), or X has values that are not finite"
        )
    return value
