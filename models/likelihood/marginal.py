"""The log marginal likelihood of the Bayesian kernel embedding, BKE (13), by any likelihood.

Each is a :class:`~bke.models.likelihood.base.Likelihood` with its options, whose solver computes
the terms: by n x n matrices (:mod:`bke.models.likelihood.dense`); by sums over one to three columns
of data, or a Kalman filter over one, at a cost linear in n (:mod:`bke.models.likelihood.spectral`);
and by approximations at a cost linear in n (:mod:`bke.models.likelihood.low_rank`).
"""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from ..kernels.base import Kernel, as_points
from ..linalg.precision import concrete, double_precision, tracing
from ..measures import Measure, as_measure, fixed_measure
from .base import Likelihood, LikelihoodSolver, compiled_terms
from .dense import Dense, dense_solver
from .landmark import Landmark
from .low_rank import Fourier, Nystrom
from .noise import Noise, check_noise
from .spectral import spectral_index
from .spectral.base import SpectralIndex, is_single, unsupported_reason


@dataclasses.dataclass(frozen=True)
class Spectral(Likelihood):
    """Sums over one to three columns of data, or a Kalman filter over one."""

    name = "spectral"
    exact = True

    def solver(
        self, points: Any, kernel: Kernel, noise_variance: Noise, measure: Measure
    ) -> SpectralIndex:
        """Sort (n, D) ``points`` and compute what every lengthscale needs."""
        reason, noise = None, check_noise(noise_variance)
        if isinstance(points, jax.core.Tracer):
            reason = "the data are traced, and it sorts them: close over them instead"
        elif not (reason := unsupported_reason(points.shape[1], kernel, measure, noise)):
            try:
                index = spectral_index(np.asarray(points), kernel).specialized(noise, measure)
                return cast(SpectralIndex, jax.tree.map(jnp.asarray, index))
            except ValueError as error:
                reason = str(error)
        raise ValueError(f"likelihood='spectral' cannot be used here: {reason}")


@dataclasses.dataclass(frozen=True)
class Auto(Likelihood):
    """Sums where they apply, else a factor of R where that is exact to 1e-11, else matrices.

    Args:
        once: whether a single value is computed: sums, which take longer to prepare, are then used
            from 2000 rows; in several columns and for sums of kernels, where more is compiled, from
            5001.
    """

    once: bool = False

    name = "auto"
    exact = True

    def solver(
        self, points: Any, kernel: Kernel, noise_variance: Noise, measure: Measure
    ) -> LikelihoodSolver:
        """Prepare (n, D) ``points`` for the fastest exact method."""
        min_rows = 0
        if self.once:
            min_rows = 2000 if points.shape[1] == 1 and is_single(kernel) else 5001
        if len(points) >= min_rows:
            with contextlib.suppress(ValueError):
                return Spectral().solver(points, kernel, noise_variance, measure)
        return dense_solver(points, noise_variance, low_rank=True)

    def record(self) -> dict[str, Any]:
        """Return the name; the number of values is not part of the model."""
        return {"likelihood": self.name}


#: All likelihoods by their names: those of BKE (13), and the landmark model.
LIKELIHOODS: dict[str, type[Likelihood]] = {
    cls.name: cls for cls in (Auto, Dense, Spectral, Nystrom, Fourier, Landmark)
}


def as_likelihood(likelihood: Likelihood | str) -> Likelihood:
    """Return a likelihood, or the one of that name.

    Raises:
        ValueError: for anything else, with the valid names, and for a class that is not in
            :data:`LIKELIHOODS`.
    """
    if isinstance(likelihood, str) and likelihood in LIKELIHOODS:
        cls = LIKELIHOODS[likelihood]
        if cls.required_option is None:
            return cls()
        call, option = f"{cls.__name__}(...)", cls.required_option
        raise ValueError(f"likelihood={likelihood!r} needs {option}: give {call} with it")
    if not isinstance(likelihood, Likelihood):
        classes = LIKELIHOODS.values()
        names = [repr(cls.name) for cls in classes if cls.required_option is None]
        calls = [f"{cls.__name__}(...)" for cls in classes if cls.required_option is not None]
        choices = ", ".join(names + calls)
        raise ValueError(f"likelihood must be one of {choices}, got {likelihood!r}")
    if type(likelihood) not in LIKELIHOODS.values():
        raise ValueError(
            f"likelihood={likelihood!r} is not one of bke, and could not be restored from a run"
        )
    return likelihood


def restore_likelihood(record: dict[str, Any]) -> Likelihood:
    """Restore a likelihood from its :meth:`~bke.models.likelihood.base.Likelihood.record`.

    ``record`` may have other entries, such as the ``landmarks``, which are stored elsewhere.
    """
    cls = LIKELIHOODS[record["likelihood"]]
    fields = [field.name for field in dataclasses.fields(cls)]
    return cls(**{name: record[name] for name in fields if record.get(name) is not None})


def likelihood_solver(
    points: Any,
    kernel: Kernel,
    noise_variance: Noise,
    measure: Measure | str,
    likelihood: Likelihood | str,
) -> LikelihoodSolver:
    """Prepare (n, D) ``points`` for ``likelihood``; a solver is returned unchanged.

    Raises:
        ValueError: for arguments that the likelihood does not support, with the reason.
    """
    if isinstance(points, LikelihoodSolver):
        return points
    likelihood, measure = as_likelihood(likelihood), as_measure(measure)
    return likelihood.solver(known_points(points), kernel, noise_variance, measure)


def known_points(X: ArrayLike) -> jax.Array:
    """Return ``X`` as (n, D) points, with known entries if ``X`` has them, even inside a trace."""
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
    """Compute log p(X | kernel) = log N(mu_hat; 0, R + sigma^2 I) + sum_i log gamma(x_i), BKE (13).

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
        likelihood: ``"dense"``: the n x n matrices, which a sampling covariance always needs.
            ``"spectral"``: sums over waves, over a grid where the lengthscale is short, a band of R
            where every point has fewer than 50 others within 12 lengthscales, and sums over tensor
            products in two or three columns; for the squared exponential with one lengthscale, in
            one column also times a number and in sums (or ``GaussianMixture``), a measure that is
            not Gaussian and one noise variance. Agrees with the dense value to rounding at a cost
            linear in n and, in one column, in the extent of the data in lengthscales; in several,
            and for sums, it grows with the rank of R to the third power, that is with the extent,
            its square or its cube. The shortest lengthscale of a sum determines the cost, down to a
            250th of the extent; the others may be arbitrarily long. Where that is too much, the
            matrices are used, up to 5000 rows; beyond, the value is an error. In one column also
            for Matern and Laplace, by a Kalman filter at a cost linear in n whatever the
            lengthscale, where sigma^2 is more than 2e-11 of the trace of R. ``"auto"``: spectral
            where possible and n is at least 2000, or in several columns and for sums 5001, else a
            low-rank factor of R where that is exact to 1e-11, else dense.
            :class:`~bke.models.Nystrom` and :class:`~bke.models.Fourier`, of a rank:
            approximations at a cost linear in n in any number of columns, from landmarks or from
            random waves, corrected by random rows; :func:`~bke.models.low_rank_error` estimates
            their error. Nystrom is far more accurate at the same rank, and takes any kernel.

    Returns:
        A scalar: NumPy float64 when called eagerly. ``-inf`` where a gamma(x_i) is exactly zero.

    Raises:
        ValueError: for an invalid argument, naming it.
        ArithmeticError: where the noise is lost to rounding next to R, as with the Lebesgue measure
            and long lengthscales in several dimensions (r(x, x) grows like lengthscale^D), or the
            lengthscale is too short, see ``likelihood``; inside a transformation the value is NaN
            there.
        RuntimeError: inside a JAX transformation with ``jax_enable_x64`` off.
    """
    noise_variance = check_noise(noise_variance)
    measure = fixed_measure(measure)
    if not isinstance(likelihood, Likelihood):
        likelihood = Auto(once=True) if likelihood == "auto" else as_likelihood(likelihood)
    if not (likelihood.exact or likelihood.approximate):
        raise ValueError(
            f"likelihood={likelihood.name!r} is another model: it has no value of BKE (13)"
        )
    points = known_points(X)
    if not tracing():
        kernel.smoothed(measure, points.shape[1])  # raises, which compiled code cannot
    solver = likelihood.solver(points, kernel, noise_variance, measure)
    value = jnp.add(*compiled_terms(solver, kernel, noise_variance, measure))
    if not isinstance(value, jax.core.Tracer) and np.isnan(concrete(value)):
        raise ArithmeticError(
            solver.unsupported_reason(kernel)
            or "R + noise_variance I is not positive definite in double precision, or too near "
            "that for the method: noise_variance is too small compared with the diagonal of R "
            "(measure='unit' keeps that at 1), or X has values that are not finite"
        )
    return value
