"""Base class of data prepared for the spectral likelihood, and the models that it supports."""

from __future__ import annotations

import abc
import math
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.scipy.linalg import solve_triangular

from ...kernels.algebra import Scaled
from ...kernels.base import Kernel
from ...kernels.matern import Laplace, Matern
from ...kernels.squared_exponential import SquaredExponential
from ...linalg.derivatives import value_and_jacobian
from ...linalg.rows import PaddedRows, padded, shared_size
from ...linalg.symmetric import inverse_and_log_determinant
from ...measures import Measure, as_measure
from ..base import LikelihoodSolver, LogLikelihoodTerms, Parameters, closed_form
from ..dense import dense_terms
from ..noise import SamplingNoise, check_noise

#: Rows up to which a lengthscale that is too short for the sums is computed with n x n matrices.
MAX_DENSE = 5000


class TooLargeError(ValueError):
    """Preparing the data for a lengthscale would take too much time or memory."""


class Sums(NamedTuple):
    """Parts of the two terms of BKE (13) for a kernel without a variance, and r(x, x) = 1.

    Attributes:
        quadratic: mu_hat' (R + sigma^2 I)^-1 mu_hat, ().
        log_determinant: log |R + sigma^2 I|, ().
        log_jacobian: log gamma at every point, (N,).
    """

    quadratic: jax.Array
    log_determinant: jax.Array
    log_jacobian: jax.Array


class SpectralIndex(LikelihoodSolver):
    """Points, with tables from which the likelihood is computed at every lengthscale.

    A subclass defines the abstract methods for one kind of kernel.
    """

    rows: PaddedRows

    description = "the spectral likelihood"
    #: Number of parameters from which the derivative is computed backward.
    smallest_reverse = 4
    #: Whether a program contains the n x n matrices; without, terms are NaN where it needs them.
    has_matrices: bool = True

    @property
    @abc.abstractmethod
    def shortest(self) -> float:
        """The lengthscale from which on no matrices are needed."""

    def supports(self, kernel: Kernel) -> bool:
        """Return whether the points are prepared for this kind of kernel.

        By default a squared exponential, times a variance or not.
        """
        return matern_nu(kernel) is None and is_single(kernel)

    @abc.abstractmethod
    def is_accurate(self, kernel: Any, noise_variance: jax.Array) -> jax.Array:
        """Return whether :meth:`sums` are accurate, ()."""

    @abc.abstractmethod
    def sums(self, kernel: Any, noise_variance: jax.Array) -> Sums:
        """Compute the parts of BKE (13) for a kernel without a variance and the unit measure."""

    @property
    def matrix_size(self) -> int:
        """The number of rows where a short lengthscale may need matrices; 0 for too many rows."""
        return int(self.rows.number) if len(self.rows) <= MAX_DENSE else 0

    @property
    def dense_range(self) -> tuple[float, float]:
        """The range of lengthscales that need matrices."""
        return 0.0, self.shortest

    def specialized(self, noise_variance: Any, measure: Measure) -> SpectralIndex:
        """Return data that are prepared for this model alone, whose programs compile faster."""
        return self

    def shortest_of(self, kernel: Kernel) -> Any:
        """Return the lengthscale of a known ``kernel`` that limits the use of the sums."""
        return cast(Any, unscaled(kernel)[0]).lengthscale

    def unsupported_reason(self, kernel: Kernel) -> str | None:
        """Return why the terms of a known ``kernel`` are NaN, or ``None`` where they are not."""
        longest, shortest = self.dense_range
        lengthscale = np.asarray(self.shortest_of(kernel))
        dense = (longest < lengthscale) & (lengthscale < shortest)
        if len(self.rows) <= MAX_DENSE or not dense.any():
            return None
        limits = f"between {longest:.3g} and" if longest else "below"
        return (
            f"a lengthscale {limits} {shortest:.3g} is too short for {int(self.rows.number)} rows: "
            "R has a rank for which no method is fast enough"
        )

    def likelihood_terms(
        self, kernel: Kernel, noise_variance: Any, measure: Measure | str
    ) -> LogLikelihoodTerms:
        """Compute log N(mu_hat; 0, R + sigma^2 I) and sum_i log gamma(x_i).

        n x n matrices are used at lengthscales (of a sum, the shortest) in :attr:`dense_range`, and
        where the noise variance is too small compared with R (on grids below 1e-9 of its trace; in
        several columns below 1e-5 of its diagonal, at long lengthscales 1e-7; with Matern below
        2e-11 of its trace). With more than :data:`MAX_DENSE` rows both terms are NaN there.

        Raises:
            ValueError: for a model that is not supported, with the reason.
        """
        measure, noise_variance = as_measure(measure), check_noise(noise_variance)
        reason = unsupported_reason(self.rows.points.shape[1], kernel, measure, noise_variance)
        if reason is not None:
            raise ValueError(f"likelihood='spectral' cannot be used here: {reason}")
        if not self.supports(kernel):
            raise ValueError(f"the data are not prepared for {type(kernel).__name__}")
        index = jax.tree.map(jnp.asarray, self)
        parameters = Parameters.of(kernel, noise_variance, measure)
        return closed_form(index, parameters)

    def value(self, parameters: Parameters) -> LogLikelihoodTerms:
        """Compute both terms, by sums where these are accurate and by matrices elsewhere.

        With variance v, mu_hat is v times that of the kernel without, and R times a height: v^2
        r(x, x), or 1 if relative. The determinant of both is factored out.
        """
        kernel, noise_variance, measure = parameters
        plain, variance = unscaled(kernel)
        dimension, n = self.rows.points.shape[1], self.rows.number
        log_variance = jnp.log(jnp.asarray(1.0 if variance is None else variance)).reshape(())
        if is_single(plain):
            lengthscale = jnp.reshape(cast(Any, plain).lengthscale, ())
            order = matern_nu(plain)
            plain = SquaredExponential(lengthscale) if order is None else Matern(order, lengthscale)
        log_height = jnp.zeros(())
        if not measure.relative:
            origin = jnp.zeros((1, dimension))
            at_zero = plain.smoothed(measure, dimension).matrix(origin, origin)[0, 0]
            log_height = jnp.log(at_zero) + 2.0 * log_variance
        noise = noise_variance * jnp.exp(-log_height)

        def by_sums() -> LogLikelihoodTerms:
            quadratic, log_determinant, log_jacobian = self.sums(plain, noise)
            gaussian = -0.5 * (
                quadratic * jnp.exp(2.0 * log_variance - log_height)
                + log_determinant
                + n * (log_height + math.log(2.0 * math.pi))
            )
            # As with matrices: NaN where the noise is lost to rounding compared with tr R.
            gaussian = jnp.where(n * jnp.finfo(noise.dtype).eps < noise, gaussian, jnp.nan)
            return LogLikelihoodTerms(gaussian, self.rows.total(log_jacobian) + n * log_variance)

        def by_matrices() -> LogLikelihoodTerms:
            if len(self.rows) > MAX_DENSE:
                # The derivative is NaN, too.
                nan = jnp.nan * jnp.sum(ravel_pytree(kernel)[0])
                return LogLikelihoodTerms(nan, nan)
            return dense_terms(self.rows, kernel, noise_variance, measure, low_rank=False)

        accurate = self.is_accurate(plain, noise)
        if not self.has_matrices:
            terms = by_sums()
            return terms._replace(gaussian=jnp.where(accurate, terms.gaussian, jnp.nan))
        return cast(LogLikelihoodTerms, jax.lax.cond(accurate, by_sums, by_matrices))

    @property
    def sequential(self) -> bool:
        """True: there are many branches."""
        return True

    def value_and_grad(
        self, parameters: Any, moving: tuple[bool, ...]
    ) -> tuple[LogLikelihoodTerms, LogLikelihoodTerms]:
        """Compute both terms and their derivatives, forward unless there are many parameters."""
        leaves, tree = jax.tree.flatten(parameters)
        moved = [i for i, moves in enumerate(moving) if moves]
        theta, unravel = ravel_pytree([leaves[i] for i in moved])

        def stacked(theta: jax.Array) -> jax.Array:
            values = dict(enumerate(leaves)) | dict(zip(moved, unravel(theta), strict=True))
            return jnp.stack(self.value(jax.tree.unflatten(tree, values.values())))

        value, jacobian = value_and_jacobian(stacked, theta, self.smallest_reverse)
        columns = np.repeat(moving, [leaf.size for leaf in leaves])
        gradients = jnp.zeros((2, len(columns))).at[:, np.flatnonzero(columns)].set(jacobian)
        return LogLikelihoodTerms(*value), LogLikelihoodTerms(*gradients)


def matern_nu(kernel: Kernel) -> float | None:
    """Return the smoothness nu of a Matern kernel, or of Laplace in one column; else ``None``."""
    if type(kernel) is Laplace:
        return 0.5
    return kernel.nu if type(kernel) is Matern else None


def is_single(kernel: Kernel) -> bool:
    """Return whether the kernel is Matern, or a squared exponential times a variance or not."""
    return matern_nu(kernel) is not None or type(unscaled(kernel)[0]) is SquaredExponential


def unscaled(kernel: Kernel) -> tuple[Kernel, Any]:
    """Return the kernel without its variance, and the variance or ``None``."""
    variance = None
    while type(kernel) is Scaled:
        variance = kernel.variance if variance is None else variance * kernel.variance
        kernel = kernel.kernel
    return kernel, variance


def unsupported_reason(
    dimension: int, kernel: Kernel, measure: Measure, noise_variance: Any
) -> str | None:
    """Return why the spectral likelihood does not support a model, or ``None`` where it does."""
    if dimension not in (1, 2, 3):
        return f"the data have {dimension} columns, and it takes up to 3"
    name = type(kernel).__name__
    if dimension > 1 and matern_nu(kernel) is not None:
        return f"the data have {dimension} columns, and it takes one with {name}"
    single = is_single(kernel) if dimension == 1 else type(kernel) is SquaredExponential
    if not single:
        components = jax.eval_shape(lambda: kernel.components(1)) if dimension == 1 else None
        if components is None or components.frequency is not None:
            more = ", sums of such, Matern and Laplace" if dimension == 1 else " in several columns"
            return f"the kernel is {name}, and it takes only SquaredExponential{more}"
    elif np.size(cast(Any, unscaled(kernel)[0]).lengthscale) != 1:
        return "there is a lengthscale for each column, and it takes one for all"
    if not measure.translation_invariant:
        return "the measure is Gaussian, and it takes 'unit' and 'lebesgue'"
    if isinstance(noise_variance, SamplingNoise):
        return "the noise is a sampling covariance, and it takes a number"
    return None


def sorted_column(X: np.ndarray, min_rows: int = 250) -> np.ndarray:
    """Return the entries of (n, 1) data in ascending order.

    Raises:
        ValueError: for equal rows, or fewer than ``min_rows``, for which matrices are as fast at
            every lengthscale.
    """
    x = np.sort(np.asarray(X, dtype=float)[:, 0])
    if not x[-1] > x[0]:
        raise ValueError("all rows are equal")
    if len(x) < min_rows:
        raise ValueError(f"{len(x)} rows are too few")
    return x


def column_rows(x: np.ndarray, weights: np.ndarray | None = None, min_size: int = 0) -> PaddedRows:
    """Return ascending points (n,) as rows, padded to a size that similar data share.

    Points with ``weights`` are padded to ``min_size`` at least, and never need matrices.
    """
    n = len(x)
    if weights is not None:
        size = shared_size(max(n, min_size, MAX_DENSE + 1))
        points = pad_rows(x[:, None], size)
        return PaddedRows(points, np.sum(weights), np.pad(weights, (0, size - n)))
    return padded(x[:, None], min(shared_size(n), MAX_DENSE) if n <= MAX_DENSE else shared_size(n))


def pad_rows(values: np.ndarray, size: int) -> np.ndarray:
    """Pad ``values`` (n, ...) of points to the ``size`` of the rows with copies of the last."""
    return np.pad(values, [(0, size - len(values)), *[(0, 0)] * (values.ndim - 1)], mode="edge")


def log_abs(values: jax.Array, sizes: jax.Array, resolution: float = 2.0**-50) -> jax.Array:
    """Return log |values|, -inf where these are rounding error of terms of the given ``sizes``.

    A value below ``resolution`` times the size counts as zero, as where the neighbors of a point
    balance.
    """
    resolved = jnp.abs(values) > resolution * sizes
    return jnp.where(resolved, jnp.log(jnp.abs(jnp.where(resolved, values, 1.0))), -jnp.inf)


@jax.custom_jvp
def quadratic_and_log_determinant(
    A: jax.Array, v: jax.Array, noise_variance: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Compute v' (A + sigma^2 I)^-1 v and log |A + sigma^2 I| for a covariance (m, m)."""
    cholesky = jnp.linalg.cholesky(A + noise_variance * jnp.eye(len(A), dtype=A.dtype))
    scaled = solve_triangular(cholesky, v, lower=True)
    return scaled @ scaled, 2.0 * jnp.sum(jnp.log(jnp.diagonal(cholesky)))


@quadratic_and_log_determinant.defjvp
def _quadratic_and_log_determinant_jvp(primals: Any, tangents: Any) -> Any:
    """Compute value and derivative from the inverse; up to 512 rows are not split, to compile less.

    JAX's derivative of a Cholesky factor would take several times as long.
    """
    (A, v, noise_variance), (A_dot, v_dot, noise_dot) = primals, tangents
    covariance = A + noise_variance * jnp.eye(len(A), dtype=A.dtype)
    inverse, log_determinant = inverse_and_log_determinant(covariance, unsplit=512)
    a = inverse @ v
    a = a + inverse @ (v - covariance @ a)  # the explicit inverse loses digits
    quadratic_dot = a @ (2.0 * v_dot - A_dot @ a - noise_dot * a)
    log_dot = jnp.vdot(inverse, A_dot) + noise_dot * jnp.trace(inverse)
    return (v @ a, log_determinant), (quadratic_dot, log_dot)


def gaussian_taylor(scaled: jax.Array, ratio: jax.Array, terms: int) -> jax.Array:
    """Return the coefficients of u^p in exp(-(scaled + ratio u)^2 / 2), (terms, ...)."""

    # A loop: unrolled, Hermite's recursion takes most of the time to compile.
    def step(pair: tuple[jax.Array, jax.Array], p: jax.Array) -> tuple[Any, jax.Array]:
        before, last = pair
        return (last, (-ratio / p) * (scaled * last + ratio * before)), last

    start = jnp.zeros_like(scaled), jnp.exp(-0.5 * scaled**2)
    return jax.lax.scan(step, start, jnp.arange(1.0, terms + 1.0))[1]


def horner(coefficients: jax.Array, index: jax.Array, offset: jax.Array) -> jax.Array:
    """Evaluate at each ``offset`` (n,) the polynomial (terms,) of an ``index`` (n,)."""

    # A loop: unrolled, the gathers of every term take most of the time to compile.
    def step(value: jax.Array, column: jax.Array) -> tuple[jax.Array, None]:
        return value * offset + column.at[index].get(mode="promise_in_bounds"), None

    return jax.lax.scan(step, jnp.zeros_like(offset), coefficients.T, reverse=True)[0]


def chebyshev(order: int) -> tuple[np.ndarray, np.ndarray]:
    """Return Chebyshev nodes, ascending from -1 to 1, (order,).

    Also the matrix (order, order) of the Chebyshev coefficients of an interpolant (rows) from its
    values at the nodes (columns).
    """
    angles = np.pi * (np.arange(order)[::-1] + 0.5) / order
    coefficients = 2.0 / order * np.cos(np.arange(order)[:, None] * angles)
    coefficients[0] *= 0.5
    return np.cos(angles), coefficients


def chebyshev_polynomials(u: np.ndarray, count: int) -> Iterator[np.ndarray]:
    """Iterate over T_0(u), T_1(u), ..., ``count`` arrays."""
    before, last = u, np.ones_like(u)  # T_-1 = T_1
    for _ in range(count):
        yield last
        before, last = last, 2.0 * u * last - before
