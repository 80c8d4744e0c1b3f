"""What a covariance function is, the points it takes, and the checks of its parameters."""

from __future__ import annotations

import abc
import functools
import operator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from ..linalg.precision import double_precision


class ValueAndGrad(NamedTuple):
    """k and its derivative with a common factor taken out, so that far points do not underflow.

    ``k = exp(log_scale) * value`` and ``dk/dx_d = exp(log_scale) * gradient[d]``.
    """

    log_scale: jax.Array  # (n, m)
    value: jax.Array  # (n, m)
    gradient: jax.Array  # (D, n, m), derivative in the first argument


class SmoothingError(ValueError):
    """The smoothed kernel r has no implemented form for this kernel and measure."""


def as_points(X: ArrayLike, name: str = "X") -> jax.Array:
    """``X`` as an (n, D) float64 array; a 1-D array means D = 1.

    Raises ``ValueError`` naming the row of a concrete value that is not a finite real number.
    """
    if not isinstance(X, jax.core.Tracer):
        _check_real(np.asarray(X), name)
    points = jnp.asarray(X, dtype=jnp.float64)
    if points.ndim == 1:
        points = points[:, None]
    if points.ndim != 2:
        raise ValueError(f"{name} must have shape (n,) or (n, D), got {points.shape}")
    return points


def _check_real(values: np.ndarray, name: str) -> None:
    if values.dtype.kind not in "fiu":
        raise ValueError(f"{name} must hold real numbers, got type {values.dtype}")
    if not np.all(np.isfinite(values)):
        row = int(np.argwhere(~np.isfinite(values))[0, 0]) + 1
        raise ValueError(f"{name} has a value that is not finite in row {row}")


def check_columns(X: jax.Array, other: jax.Array, name: str) -> None:
    """Refuse points (n, D) and (m, E) of different numbers of columns."""
    if X.shape[1] != other.shape[1]:
        raise ValueError(f"X has {X.shape[1]} columns but {name} has {other.shape[1]}")


def differences(X: jax.Array, Y: jax.Array) -> jax.Array:
    """x_i - y_j coordinate by coordinate, shape (D, n, m).

    Taken directly: |x|^2 + |y|^2 - 2xy would cancel for near points, which decide the volume term.
    """
    check_columns(X, Y, "Y")
    return X.T[:, :, None] - Y.T[:, None, :]


@jax.custom_jvp
def squared_norm(delta: jax.Array) -> jax.Array:
    """Sum of squares over the leading axis, (D, n, m) to (n, m).

    Written out term by term, because XLA's reduction over a leading axis stores all D matrices;
    its derivative is a reduction, because that of a slice is a matrix of zeros with a slice in it.
    """
    return functools.reduce(operator.add, [coordinate**2 for coordinate in delta])


@squared_norm.defjvp
def _squared_norm_jvp(
    primals: tuple[jax.Array], tangents: tuple[jax.Array]
) -> tuple[jax.Array, jax.Array]:
    (delta,), (delta_dot,) = primals, tangents
    return squared_norm(delta), 2.0 * jnp.sum(delta * delta_dot, axis=0)


def per_column(parameter: Any, dimension: int, name: str) -> jax.Array:
    """A scalar or (D,) parameter as shape (D or 1, 1, 1), to broadcast against differences."""
    if parameter is None:
        raise ValueError(f"{name} must be a positive number, got None")
    values: jax.Array = jnp.asarray(parameter, dtype=jnp.float64)
    if values.ndim > 1 or (values.ndim == 1 and values.shape[0] not in (1, dimension)):
        raise ValueError(
            f"{name} must be a number or have one entry per column ({dimension}), "
            f"got shape {values.shape}"
        )
    return values.reshape(-1, 1, 1)


def check_positive(parameter: Any, name: str) -> None:
    """Raise ``ValueError`` for a concrete parameter that is not positive and finite."""
    if isinstance(parameter, str):
        raise ValueError(f"{name} must be a positive number, got {parameter!r}")
    values = concrete_values(parameter)
    if not np.all(np.isfinite(values) & (values > 0)):
        raise ValueError(f"{name} must be positive and finite, got {parameter}")


def concrete_values(parameter: Any) -> np.ndarray:
    """The numbers of a parameter, none where it is ``None`` or any of them is traced."""
    entries = jax.tree.leaves(parameter)
    if all(isinstance(entry, (int, float, np.ndarray, np.number)) for entry in entries):
        return np.asarray(parameter if entries else [], dtype=float)
    return np.empty(0)


class Covariance(abc.ABC):
    """A covariance function: ``r(X, Y)`` is its matrix."""

    numerical: bool = False
    """Whether the values come from a quadrature rule; the class says how accurate it is."""

    characteristic: bool | None = None
    """Whether any two distributions that differ have different embeddings (KER-10): true of a
    kernel of x - y whose spectral density is positive everywhere. None: not known."""

    translation_invariant: bool = False
    """Whether k(x, y) is known to hang on x - y alone."""

    @abc.abstractmethod
    def matrix(self, X: jax.Array, Y: jax.Array) -> jax.Array:
        """The (n, m) matrix r(x_i, y_j) of two (n, D), (m, D) arrays."""

    def check_points(self, X: jax.Array) -> None:  # noqa: B027
        """Raise ``ValueError`` for concrete (n, D) points that the covariance is not for."""

    def diagonal(self, X: jax.Array) -> jax.Array:
        """r(x_i, x_i) of an (n, D) array, shape (n,)."""
        return jax.vmap(lambda x: self.matrix(x[None], x[None])[0, 0])(X)

    @double_precision
    def __call__(self, X: ArrayLike, Y: ArrayLike | None = None) -> jax.Array:
        """The (n, m) Gram matrix; ``Y`` defaults to ``X``."""
        points = as_points(X)
        others = points if Y is None else as_points(Y, "Y")
        for given in (points, others):
            self.check_points(given)
        return _matrix(self, points, others)


def check_kernel(kernel: Any, name: str) -> None:
    """Refuse what is no kernel, such as the names that ``bke.inference.kernel_of`` takes."""
    if not isinstance(kernel, Covariance):
        raise ValueError(
            f"{name} must be a kernel, such as SquaredExponential(1.0), got {kernel!r}; "
            "bke.inference.kernel_of makes one from the data"
        )


# One program: operation by operation the derivatives of ``value_and_grad`` would be computed too.
@jax.jit
def _matrix(covariance: Covariance, X: jax.Array, Y: jax.Array) -> jax.Array:
    return covariance.matrix(X, Y)
