"""How much the feature map of a kernel stretches volume."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve, cholesky, solve_triangular
from jax.typing import ArrayLike

from ..kernels.base import Covariance, as_points, check_columns, check_kernel, check_positive
from ..linalg.padding import PaddedRows, as_padded, dense_size, padded, shared_size
from ..linalg.precision import concrete, double_precision
from ..linalg.pytrees import register_dataclass


@double_precision
def log_volume_element(X: ArrayLike, kernel: Covariance) -> jax.Array:
    """Log det(<d_i phi(x), d_j phi(x)>)^(1/2), the last factor of KST (6).

    The inner products are d^2 k(x, y) / dx_i dy_j at y = x. For a kernel of x - y they are the same
    at every x (KST, appendix B).

    Args:
        X: shape (m, D) or (m,).
        kernel: twice differentiable where its arguments are equal.

    Returns:
        Shape (m,); minus infinity where features do not change to first order in some direction,
        such as x = 0 for the kernel (x y)^2.

    Raises:
        ValueError: that is so at all points known, as for kernels with a kink where x = y.
    """
    points = as_points(X)
    value = _log_volume_element(kernel, points)
    known = concrete(value)
    if isinstance(known, np.ndarray) and len(known) and not np.any(np.isfinite(known)):
        raise ValueError(
            f"the features of {kernel} have no derivative that automatic differentiation finds, or "
            "none in some direction"
        )
    return value


@jax.jit
def _log_volume_element(kernel: Covariance, points: jax.Array) -> jax.Array:
    def one(x: jax.Array) -> jax.Array:
        def value(x: jax.Array, y: jax.Array) -> jax.Array:
            return kernel.matrix(x[None], y[None])[0, 0]

        products = jax.jacfwd(jax.grad(value), argnums=1)(x, x)
        sign, logarithm = jnp.linalg.slogdet(products)
        return jnp.where(sign > 0, 0.5 * logarithm, -jnp.inf)

    return jax.vmap(one)(points)


#: Entries of the sections of one block of points.
BLOCK_ENTRIES = 2**22


@register_dataclass
@dataclasses.dataclass(frozen=True, repr=False)
class KernelStudentT:
    """log q(x), unnormalised, with features phi(x) ~ N(mu, Sigma) and both integrated out.

    The prior is Sigma ~ W^-1(sigma_0^2 I, alpha), mu | Sigma ~ N(0, Sigma / beta) (KST 2). What
    KST (3) to (5) come to, with the features not centred, is the predictive variance of a Gaussian
    process with covariance k + sigma_0^2 / beta and noise sigma_0^2::

        s(x) = k(x, x) + sigma_0^2 (1 + 1/beta) - a(x)' A^-1 a(x)
        a(x) = k(X, x) + sigma_0^2 / beta,      A = K + sigma_0^2 (I + 11'/beta)
        log q(x) = -(1 + N + alpha)/2 log(s(x) / sigma_0^2) + log volume element    (KST 6)

    because the rows' joint density is |A|^(-(alpha + N)/2), a determinant of one row more. The
    volume element is left out where it does not change with x, as for every kernel of x - y. For
    such a kernel q does not fall to zero far from the data: it has a normalizer on a bounded set
    alone, see :func:`~bke.models.log_normalizer`.

    Attributes:
        kernel: k.
        rows: the N points, (N, D), and further ones that count for nothing.
        noise_variance: sigma_0^2.
        alpha: degrees of freedom of the inverse Wishart distribution.
        beta: how many rows the prior of the mean is worth.
        cholesky_factor: lower Cholesky factor of A, that of the identity where rows count for nothing.
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

    @double_precision
    def variance(self, at: ArrayLike) -> jax.Array:
        """s(x) of points ``at``, shape (m, D) or (m,): (m,), at least sigma_0^2."""
        points = self.check_points(at)
        return _by_blocks(_variance, self, points)

    @double_precision
    def log_density(self, at: ArrayLike) -> jax.Array:
        """Log q(x) up to a constant, of points (m, D) or (m,): (m,); minus infinity where it is 0.

        The constant hangs on the kernel, on N and on alpha: it does not compare densities.

        Raises:
            ValueError: for points of other columns, or that are not finite numbers.
        """
        points = self.check_points(at)
        return _by_blocks(_log_density, self, points)

    @double_precision
    def leave_one_out_variance(self) -> jax.Array:
        """The variance s of every row given the others, 1 / (A^-1)_nn, shape (N,)."""
        return (1.0 / jnp.diagonal(self.inverse()))[: int(self.rows.number)]

    @double_precision
    def leave_one_out_log_density(self, left_out: int = 0) -> jax.Array:
        """The logarithm of q of every row given all the others, (N,), up to a constant.

        Args:
            left_out: 1 for the power of s that belongs to N - 1 rows, which the density given all
                but one has; 0 for that of N rows, to compare with :meth:`log_density`.
        """
        ratio = self.leave_one_out_variance() / self.noise_variance
        value = -(self.exponent - 0.5 * left_out) * jnp.log(ratio)
        if self.kernel.translation_invariant:
            return value
        return value + log_volume_element(self.rows.data, self.kernel)

    def inverse(self) -> jax.Array:
        """A^-1, (N, N)."""
        return cho_solve((jnp.asarray(self.cholesky_factor), True), jnp.eye(len(self.rows)))

    @property
    def exponent(self) -> Any:
        """(1 + N + alpha) / 2, of q as a power of 1/s."""
        return 0.5 * (1.0 + self.rows.number + self.alpha)

    def check_points(self, at: ArrayLike) -> jax.Array:
        """``at`` as points (m, D) of this density, or ``ValueError``."""
        points = as_points(at, "at")
        if np.shape(at) == (self.dimension,) and self.dimension > 1:
            raise ValueError(f"at has shape {np.shape(at)}: one point is of shape (1, {len(at)})")  # type: ignore[arg-type]
        check_columns(jnp.asarray(self.rows.points), points, "at")
        self.kernel.check_points(points)
        return points

    def cross_covariance(self, at: jax.Array) -> jax.Array:
        """a(x), (m, N)."""
        across = self.kernel.matrix(at, jnp.asarray(self.rows.points))
        return self.rows.of_data(across + self.noise_variance / self.beta)

    def prior_variance(self, at: jax.Array) -> jax.Array:
        """k(x, x) + sigma_0^2 (1 + 1/beta), (m,): s without any row."""
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
    """The kernel Student-t density of the next row, given the rows of ``X`` (KST 3 to 6).

    Args:
        X: shape (N, D) or (N,), N at least 1; known points are filled up with rows that count for
            nothing to a number that is shared, because each is compiled for.
        kernel: k.
        noise_variance: sigma_0^2, positive, beside values k(x, x): the features' variance that is
            expected before any data. Small values make modes at the points that are narrow.
        alpha: positive. The larger, the less weight have regions without data; beside N rows it
            matters little.
        beta: positive, the weight of the prior mean 0 of the features in rows.

    Raises:
        ValueError: for arguments that make no sense, or a kernel that is not of x - y and whose
            features have no derivative at the points (:func:`~bke.models.log_volume_element`).
        ArithmeticError: sigma_0^2 is so small that A is singular to rounding.
    """
    check_kernel(kernel, "kernel")
    for value, name in ((noise_variance, "noise_variance"), (alpha, "alpha"), (beta, "beta")):
        check_positive(concrete(value), name)
        if np.ndim(value):
            raise ValueError(f"{name} must be one number, got shape {np.shape(value)}")
    rows = X if isinstance(X, PaddedRows) else _shared(as_points(X))
    points = jnp.asarray(rows.points)
    kernel.check_points(points)
    gram = rows.of_pairs(kernel.matrix(points, points) + noise_variance / beta)
    counted = rows.of_data(jnp.ones(len(points)))
    root = cholesky(gram + jnp.diag(jnp.where(counted > 0, noise_variance, 1.0)), lower=True)
    known = concrete(root)
    if isinstance(known, np.ndarray) and not np.all(np.isfinite(known)):
        raise ArithmeticError(
            f"noise_variance = {noise_variance} is lost beside the kernel's values: the matrix of "
            "this density is singular to rounding"
        )
    made = KernelStudentT(kernel, rows, noise_variance, alpha, beta, root)
    if not kernel.translation_invariant and not isinstance(points, jax.core.Tracer):
        log_volume_element(rows.data, kernel)
    return made


def _shared(points: jax.Array) -> PaddedRows:
    """Known points (N, D) filled up to a size that others share what is compiled with."""
    if not len(points):
        raise ValueError("a kernel Student-t density needs at least 1 row")
    known = concrete(points)
    if not isinstance(known, np.ndarray):
        return as_padded(points)
    return padded(known, dense_size(len(known)))


def _by_blocks(of: Any, density: KernelStudentT, at: jax.Array) -> jax.Array:
    """``of`` (density, points), in blocks whose sizes are shared, because each is compiled for."""
    most = max(1, BLOCK_ENTRIES // len(density.rows))
    found = [jnp.zeros(0)]
    for start in range(0, len(at), most):
        block = at[start : start + most]
        size = shared_size(len(block), per_octave=2)
        filled = jnp.pad(block, ((0, size - len(block)), (0, 0)), mode="edge")
        found.append(of(density, filled)[: len(block)])
    return jnp.concatenate(found)


@jax.jit
def _variance(density: KernelStudentT, at: jax.Array) -> jax.Array:
    explained = solve_triangular(
        density.cholesky_factor, density.cross_covariance(at).T, lower=True
    )
    left = density.prior_variance(at) - jnp.sum(explained**2, axis=0)
    # The variance of a value with noise: below is rounding.
    return jnp.maximum(left, density.noise_variance)


@jax.jit
def _log_density(density: KernelStudentT, at: jax.Array) -> jax.Array:
    value = -density.exponent * jnp.log(_variance(density, at) / density.noise_variance)
    if density.kernel.translation_invariant:
        return value
    return value + log_volume_element(at, density.kernel)
