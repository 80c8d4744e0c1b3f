"""The ways to BKE (13) itself: by matrices, by sums where there are any, or whichever pays."""

from __future__ import annotations

import dataclasses
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from ..kernels.base import Kernel, as_points
from ..linalg.precision import concrete, double_precision, tracing
from ..linalg.rows import PaddedRows, dense_size, padded
from ..measures import Measure, as_measure, fixed_measure
from .base import Likelihood, LikelihoodSolver, compiled_log_likelihood
from .dense import DenseSolver
from .fourier import Fourier
from .landmark import Landmark
from .noise import Noise, SamplingNoise, check_noise
from .nystrom import Nystrom
from .spectral import SpectralIndex, has_one, spectral_index, spectral_obstacle

#: Rows from which on a single value by the spectral route takes less time than by matrices, with
#: what it takes to prepare; and in several columns, and for sums, where there is more to compile.
SMALLEST_PREPARED_ONCE, SMALLEST_BOX_ONCE = 2000, 5001


@dataclasses.dataclass(frozen=True)
class Dense(Likelihood):
    """The n x n matrices."""

    name = "dense"
    exact = True

    def solver(
        self, points: Any, kernel: Kernel, noise_variance: Noise, measure: Measure
    ) -> DenseSolver:
        """(n, D) ``points``, padded where that is known to pay."""
        return _by_matrices(points, noise_variance, low_rank=False)


@dataclasses.dataclass(frozen=True)
class Spectral(Likelihood):
    """Sums over one to three columns of data, or a Kalman filter over one."""

    name = "spectral"
    exact = True

    def solver(
        self, points: Any, kernel: Kernel, noise_variance: Noise, measure: Measure
    ) -> SpectralIndex:
        """(n, D) ``points``, sorted, with what every lengthscale needs."""
        found = _by_sums(points, kernel, noise_variance, measure)
        if isinstance(found, str):
            raise ValueError(f"likelihood='spectral' cannot be used here: {found}")
        return found


@dataclasses.dataclass(frozen=True)
class Auto(Likelihood):
    """Sums where they can be had, else a factor of R where that is exact to 1e-11, else matrices.

    Args:
        once: whether a single value is wanted, for which little is worth preparing.
    """

    once: bool = False

    name = "auto"
    exact = True

    def solver(
        self, points: Any, kernel: Kernel, noise_variance: Noise, measure: Measure
    ) -> LikelihoodSolver:
        """(n, D) ``points`` as the way needs them that is taken."""
        if len(points) >= self._smallest(points, kernel):
            found = _by_sums(points, kernel, noise_variance, measure)
            if not isinstance(found, str):
                return found
        return _by_matrices(points, noise_variance, low_rank=True)

    def record(self) -> dict[str, Any]:
        """Its name: how often a value is wanted is no part of the model."""
        return {"likelihood": self.name}

    def _smallest(self, points: Any, kernel: Kernel) -> int:
        if not self.once:
            return 0
        one = points.shape[1] == 1 and has_one(kernel)
        return SMALLEST_PREPARED_ONCE if one else SMALLEST_BOX_ONCE


def likelihood_solver(
    points: Any,
    kernel: Kernel,
    noise_variance: Noise,
    measure: Measure | str,
    likelihood: Likelihood | str,
) -> LikelihoodSolver:
    """(n, D) ``points`` as ``likelihood`` needs them, unless they are prepared already.

    Raises:
        ValueError: where what was asked for cannot be used, with the reason.
    """
    if isinstance(points, LikelihoodSolver):
        return points
    return as_likelihood(likelihood).solver(points, kernel, noise_variance, as_measure(measure))


def _by_matrices(points: Any, noise_variance: Noise, *, low_rank: bool) -> DenseSolver:
    size = dense_size(len(points))
    traced = isinstance(points, jax.core.Tracer)
    sampling = isinstance(check_noise(noise_variance), SamplingNoise)
    if traced or sampling or size == len(points):
        return DenseSolver(PaddedRows(points), low_rank)
    return DenseSolver(jax.tree.map(jnp.asarray, padded(points, size)), low_rank)


def _by_sums(
    points: Any, kernel: Kernel, noise_variance: Noise, measure: Measure
) -> SpectralIndex | str:
    """The points prepared for sums, or why that cannot be."""
    if isinstance(points, jax.core.Tracer):
        return "the data are traced, and it sorts them: close over them instead"
    noise = check_noise(noise_variance)
    if reason := spectral_obstacle(points.shape[1], kernel, measure, noise):
        return reason
    try:
        index = spectral_index(np.asarray(points), kernel)
    except ValueError as error:
        return str(error)
    return cast(SpectralIndex, jax.tree.map(jnp.asarray, index))


#: All likelihoods: those of BKE (13), and the landmark model.
LIKELIHOODS: tuple[type[Likelihood], ...] = (
    Auto,
    Dense,
    Spectral,
    Nystrom,
    Fourier,
    Landmark,
)


def as_likelihood(likelihood: Likelihood | str) -> Likelihood:
    """Return a likelihood, or the one of that name.

    Raises:
        ValueError: for anything else, with the valid names, and for a class that is not in
            :data:`LIKELIHOODS`.
    """
    for cls in LIKELIHOODS:
        if isinstance(likelihood, str) and likelihood == cls.name:
            if cls.required_option is None:
                return cls()
            raise ValueError(
                f"likelihood={likelihood!r} needs {cls.required_option}: give "
                f"{cls.__name__}(...) with it"
            )
    if not isinstance(likelihood, Likelihood):
        names = [repr(cls.name) for cls in LIKELIHOODS if cls.required_option is None]
        calls = [f"{cls.__name__}(...)" for cls in LIKELIHOODS if cls.required_option is not None]
        raise ValueError(
            f"likelihood must be one of {', '.join(names + calls)}, got {likelihood!r}"
        )
    if type(likelihood) not in LIKELIHOODS:
        raise ValueError(
            f"likelihood={likelihood!r} is not one of bke, and could not be restored from a run: "
            "LIKELIHOODS in models/likelihood/marginal.py lists them"
        )
    return likelihood


def restore_likelihood(record: dict[str, Any]) -> Likelihood:
    """Restore a likelihood from its :meth:`~bke.models.likelihood.base.Likelihood.record`.

    ``record`` may have other entries, such as the ``landmarks``, which are stored elsewhere.
    """
    classes = {likelihood.name: likelihood for likelihood in LIKELIHOODS}
    return classes[record["likelihood"]].from_record(record)


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
    if likelihood == "auto":
        likelihood = Auto(once=True)
    elif not isinstance(likelihood, Likelihood):
        likelihood = as_likelihood(likelihood)
    if not (likelihood.exact or likelihood.approximate):
        raise ValueError(
            f"likelihood={likelihood.name!r} is another model: it has no value of BKE (13)"
        )
    points = known_points(X)
    if not tracing():
        kernel.smoothed(measure, points.shape[1])  # refuses what compiled code could not name
    solver = likelihood.solver(points, kernel, noise_variance, measure)
    value = compiled_log_likelihood(solver, kernel, noise_variance, measure)
    if not isinstance(value, jax.core.Tracer) and np.isnan(concrete(value)):
        raise ArithmeticError(
            solver.unsupported_reason(kernel)
            or "R + noise_variance I is not positive definite in double precision, or too near "
            "that for the route: noise_variance is too small beside the diagonal of R "
            "(measure='unit' keeps that at 1), or X has values that are not finite"
        )
    return value
