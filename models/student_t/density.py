"""The kernel Student-t density: the predictive density of a Gaussian model in feature space."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve, cholesky, solve_triangular
from jax.typing import ArrayLike

from ..kernels.base import Covariance, as_points, check_columns, check_kernel
from ..linalg.precision import check_positive, concrete, double_precision
from ..linalg.pytrees import register_dataclass
from ..linalg.rows import PaddedRows, as_padded, dense_size, padded, shared_size


@double_precision
def log_volume_element(X: ArrayLike, kernel: Covariance) -> jax.Array:
    """Compute log det(<d_i phi(x), d_j phi(x)>)^(1/2), the last factor of KST (6).

    The inner products are d^2 k(x, y) / dx_i dy_j at y = x. For a kernel of x - y they are the same
    at every x (KST, appendix B).

    Args:
        X: shape (m, D) or (m,).
        kernel: twice differentiable where its arguments are equal.

    Returns:
        Shape (m,); minus infinity where the derivative of the features is zero in some direction,
        such as x = 0 for the kernel (x y)^2.

    Raises:
        ValueError: the value is minus infinity at all points known, as for kernels with a kink
            where x = y.
    """
    value = _log_volume_element(kernel, as_points(X))
    known = concrete(value)
    if isinstance(known, np.ndarray) and len(known) and not np.any(np.isfinite(known)):
        raise ValueError(
            f"the features of {kernel} have no derivative that automatic differentiation finds, or "
            "none in some direction"
        )
    return value


@jax.jit
def _log_volume_element(kernel: Covariance, points: jax.Array) -> jax.Array:
    def at_point(x: jax.Array) -> jax.Array:
        def value(x: jax.Array, y: jax.Array) -> jax.Array:
            return kernel.matrix(x[None], y[None])[0, 0]

        products = jax.jacfwd(jax.grad(value), argnums=1)(x, x)
        sign, logarithm = jnp.linalg.slogdet(products)
        return jnp.where(sign > 0, 0.5 * logarithm, -jnp.inf)

    return jax.vmap(at_point)(points)


@register_dataclass
@dataclasses.dataclass(frozen=True, repr=False)
class KernelStudentT:
    """Unnormalized log q(x) for features phi(x) ~ N(mu, Sigma), with mu and Sigma integrated out.

    The prior is Sigma ~ W^-1(sigma_0^2 I, alpha), mu | Sigma ~ N(0, Sigma / beta) (KST 2). For
    features that are not centered, KST (3) to (5) reduce to the predictive variance of a Gaussian
    process with covariance k + sigma_0^2 / beta and noise sigma_0^2::

        s(x) = k(x, x) + sigma_0^2 (1 + 1/beta) - a(x)' A^-1 a(x)
        a(x) = k(X, x) + sigma_0^2 / beta,      A = K + sigma_0^2 (I + 11'/beta)
        log q(x) = -(1 + N + alpha)/2 log(s(x) / sigma_0^2) + log volume element    (KST 6)

    because the joint density of the rows is |A|^(-(alpha + N)/2), and q adds one row to the
    determinant. The volume element is left out where it does not change with x, as for every kernel
    of x - y. For such a kernel q does not fall to zero far from the data, so that it can be
    normalized only on a bounded set, see :func:`~bke.models.log_normalizer`.

    Attributes:
        kernel: k.
        rows: the N points, (N, D), and padding.
        noise_variance: sigma_0^2.
        alpha: degrees of freedom of the inverse Wishart distribution.
        beta: weight of the prior mean, in rows.
        cholesky_factor: lower Cholesky factor of A, with rows of the identity for the padding.
    """

    kernel: Covariance
    rows: PaddedRows
    noise_variance: Any
    alpha: Any
    beta: Any
    cholesky_factor: Any

    def __repr__(self) -> str:
        return (
            f"KernelStudentT({len(self.rows.data)} points, kernel={self.kernel}, "
            f"noise_variance={self.noise_variance}, alpha={self.alpha}, beta={self.beta})"
        )

    @property
    def dimension(self) -> int:
        """D."""
        return int(self.rows.points.shape[1])

    @property
    def exponent(self) -> Any:
        """(1 + N + alpha) / 2, the exponent of 1/s in q."""
        return 0.5 * (1.0 + self.rows.number + self.alpha)

    @double_precision
    def variance(self, at: ArrayLike) -> jax.Array:
        """Compute s(x) of points ``at``, shape (m, D) or (m,): (m,), at least sigma_0^2."""
        return _in_blocks(_variance, self, self.check_points(at))

    @double_precision
    def log_density(self, at: ArrayLike) -> jax.Array:
        """Compute log q(x) up to a constant.

        The constant depends on the kernel, on N and on alpha: values of different densities cannot
        be compared.

        Args:
            at: points, (m, D) or (m,).

        Returns:
            Shape (m,); minus infinity where q is 0.

        Raises:
            ValueError: points have other columns, or are not finite numbers.
        """
        return _in_blocks(_log_density, self, self.check_points(at))

    @double_precision
    def leave_one_out_variance(self) -> jax.Array:
        """Compute s of every row given the others, 1 / (A^-1)_nn, shape (N,)."""
        return (1.0 / jnp.diagonal(self.inverse()))[: int(self.rows.number)]

    @double_precision
    def leave_one_out_log_density(self, left_out: int = 0) -> jax.Array:
        """Compute log q of every row given all the others, (N,), up to a constant.

        Args:
            left_out: 1 for the exponent of s that belongs to N - 1 rows, as in the density given
                all rows but one; 0 for that of N rows, to compare with :meth:`log_density`.
        """
        ratio = self.leave_one_out_variance() / self.noise_variance
        value = -(self.exponent - 0.5 * left_out) * jnp.log(ratio)
        return value + self.log_volume_element(self.rows.data)

    def inverse(self) -> jax.Array:
        """Compute A^-1, (N, N)."""
        return cho_solve((jnp.asarray(self.cholesky_factor), True), jnp.eye(len(self.rows)))

    def check_points(self, at: ArrayLike) -> jax.Array:
        """Return ``at`` as points (m, D), or raise ``ValueError``."""
        points = as_points(at, "at")
        if np.shape(at) == (self.dimension,) and self.dimension > 1:
            raise ValueError(f"at has shape {np.shape(at)}: one point is of shape (1, {len(at)})")  # type: ignore[arg-type]
        check_columns(jnp.asarray(self.rows.points), points, "at")
        self.kernel.check_points(points)
        return points

    def cross_covariance(self, at: jax.Array) -> jax.Array:
        """Compute a(x) of points (m, D), (m, N)."""
        values = self.kernel.matrix(at, jnp.asarray(self.rows.points))
        return self.rows.mask(values + self.noise_variance / self.beta)

    def log_volume_element(self, at: jax.Array) -> jax.Array:
        """Compute the log volume element at points (m, D), (m,); zero where it is constant."""
        if self.kernel.translation_invariant:
            return jnp.zeros(len(at))
        return log_volume_element(at, self.kernel)

    def prior_variance(self, at: jax.Array) -> jax.Array:
        """Compute k(x, x) + sigma_0^2 (1 + 1/beta), (m,): s without any row."""
        return self.kernel.diagonal(at) + self.noise_variance * (1.0 + 1.0 / self.beta)


@double_precision
def kernel_student_t(
    X: ArrayLike | PaddedRows,
    kernel: Covariance,
    *,
    noise_variance: Any = 1.0,
    alpha: Any = 1.0,
    beta: Any = 0.01,
) -> KernelStudentT:
    """Compute the kernel Student-t density of the next row, given the rows of ``X`` (KST 3 to 6).

    Args:
        X: shape (N, D) or (N,), N at least 1. Known points are padded to a size that data of
            similar size share, because each size is compiled.
        kernel: k.
        noise_variance: sigma_0^2, positive: the variance of the features expected before any data,
            relative to the values k(x, x). Small values make narrow modes at the points.
        alpha: positive. The larger, the less weight have regions without data; it matters little
            if N is much larger.
        beta: positive, the weight of the prior mean 0 of the features, in rows.

    Raises:
        ValueError: an argument is invalid, or the kernel is not of x - y and its features have no
            derivative at the points (:func:`~bke.models.log_volume_element`).
        ArithmeticError: sigma_0^2 is so small that A is numerically singular.
    """
    check_kernel(kernel, "kernel")
    for value, name in ((noise_variance, "noise_variance"), (alpha, "alpha"), (beta, "beta")):
        check_positive(concrete(value), name)
        if np.ndim(value):
            raise ValueError(f"{name} must be one number, got shape {np.shape(value)}")
    rows = X if isinstance(X, PaddedRows) else as_padded(as_points(X))
    if not len(rows):
        raise ValueError("a kernel Student-t density needs at least 1 row")
    known = concrete(rows.points)
    if not isinstance(X, PaddedRows) and isinstance(known, np.ndarray):
        rows = padded(known, dense_size(len(known)))
    points = jnp.asarray(rows.points)
    kernel.check_points(points)
    gram = rows.mask_matrix(kernel.matrix(points, points) + noise_variance / beta)
    factor = cholesky(gram + jnp.diag(jnp.where(rows.known, noise_variance, 1.0)), lower=True)
    known = concrete(factor)
    if isinstance(known, np.ndarray) and not np.all(np.isfinite(known)):
        raise ArithmeticError(
            f"noise_variance = {noise_variance} is too small for the kernel's values: the matrix "
            "of this density is singular to rounding"
        )
    if not kernel.translation_invariant and not isinstance(points, jax.core.Tracer):
        log_volume_element(rows.data, kernel)
    return KernelStudentT(kernel, rows, noise_variance, alpha, beta, factor)


def _in_blocks(
    function: Callable[[KernelStudentT, jax.Array], jax.Array],
    density: KernelStudentT,
    at: jax.Array,
    max_entries: int = 2**22,
) -> jax.Array:
    """Evaluate ``function`` at points (m, D) in blocks.

    The sizes of blocks are shared by similar numbers of points, because each is compiled.

    Args:
        function: called with the density and points.
        density: its first argument.
        at: points, (m, D).
        max_entries: entries of the cross-covariance of one block; 32 MiB, not tuned.
    """
    block_size = max(1, max_entries // len(density.rows))
    values = [jnp.zeros(0)]
    for start in range(0, len(at), block_size):
        block = at[start : start + block_size]
        size = shared_size(len(block), per_octave=2)
        filled = jnp.pad(block, ((0, size - len(block)), (0, 0)), mode="edge")
        values.append(function(density, filled)[: len(block)])
    return jnp.concatenate(values)


@jax.jit
def _variance(density: KernelStudentT, at: jax.Array) -> jax.Array:
    half = solve_triangular(density.cholesky_factor, density.cross_covariance(at).T, lower=True)
    value = density.prior_variance(at) - jnp.sum(half**2, axis=0)
    # A variance that includes the noise: values below sigma_0^2 are rounding errors.
    return jnp.maximum(value, density.noise_variance)


@jax.jit
def _log_density(density: KernelStudentT, at: jax.Array) -> jax.Array:
    value = -density.exponent * jnp.log(_variance(density, at) / density.noise_variance)
    return value + density.log_volume_element(at)
