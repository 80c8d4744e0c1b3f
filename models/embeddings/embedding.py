"""A mean embedding as an object: a weighted sum of kernel sections in a Hilbert space."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from ..kernels.base import (
    Covariance,
    Kernel,
    as_points,
    check_columns,
    check_kernel,
    twice_smoothed,
)
from ..kernels.scikit_learn import SklearnKernel, as_kernel
from ..linalg.precision import concrete, double_precision
from ..linalg.pytrees import register_dataclass
from ..linalg.rows import map_rows
from ..measures import Measure, as_measure


@register_dataclass
@dataclasses.dataclass(frozen=True, repr=False)
class Embedding:
    """sum_i w_i k(x_i, .), an element of the Hilbert space H of the kernel (KME-2).

    The weights may have any sign and any sum: the empirical embedding has weights 1/n, a difference
    of two those of both. Embeddings of one kernel are added, subtracted and multiplied by numbers,
    and what they are asked is an inner product in H. :func:`mean_embedding` makes one.

    With a ``measure`` the sections are those of r instead, sum_i w_i r(x_i, .), and H stays that of
    k: r(x, .) is the embedding of the measure k(x, u) nu(du). That is what the posterior mean of
    BKE (7) is, see :func:`posterior_mean_embedding`.

    Attributes:
        kernel: k.
        points: (n, D).
        weights: (n,).
        measure: of the sections r, or ``None`` where they are those of k.
    """

    kernel: Covariance
    points: Any
    weights: Any
    measure: Measure | None = dataclasses.field(default=None, metadata={"static": True})

    def __post_init__(self) -> None:
        if isinstance(self.measure, str):
            object.__setattr__(self, "measure", as_measure(self.measure))
        shapes = [getattr(part, "shape", None) for part in (self.points, self.weights)]
        if None in shapes:  # placeholders of a transformation
            return
        points, weights = shapes
        if points is None or weights is None or len(points) != 2 or weights != points[:1]:
            raise ValueError(
                f"an embedding has points (n, D) and one weight for each, got shapes {points} and "
                f"{weights}"
            )

    def __repr__(self) -> str:
        shape = getattr(self.points, "shape", "?")
        smoothed = "" if self.measure is None else f", measure={self.measure!r}"
        return f"Embedding(points of shape {shape}, kernel={self.kernel}{smoothed})"

    @property
    def sections(self) -> Covariance:
        """k, or r where there is a measure."""
        if self.measure is None:
            return self.kernel
        if not isinstance(self.kernel, Kernel):
            raise ValueError(f"{type(self.kernel).__name__} has no smoothed kernel")
        return self.kernel.smoothed(self.measure, self.points.shape[1])

    @double_precision
    def __call__(self, at: ArrayLike) -> jax.Array:
        """Its values at the points ``at`` (m, D) or (m,): <k(t, .), mu>, shape (m,)."""
        places = as_points(at, "at")
        check_columns(self.points, places, "at")
        return _values(self.sections, places, self.points, self.weights)

    @double_precision
    def inner_product(self, other: Embedding) -> jax.Array:
        """Inner product in H, sum_ij w_i v_j k(x_i, y_j) (DST-1).

        Raises:
            ValueError: the other one belongs to another kernel.
        """
        self._check_space(other)
        values = _values(self._between(other), self.points, other.points, other.weights)
        return jnp.asarray(self.weights) @ values

    @double_precision
    def squared_norm(self) -> jax.Array:
        """The inner product with itself, at least 0."""
        return jnp.maximum(self.inner_product(self), 0.0)

    def norm(self) -> jax.Array:
        """The norm in H."""
        return self.squared_norm() ** 0.5

    @double_precision
    def squared_distance(self, other: Embedding) -> jax.Array:
        """Squared norm of the difference: the squared MMD (MMD-4), by no estimate of bias."""
        own = self.inner_product(self) + other.inner_product(other)
        return jnp.maximum(own - 2.0 * self.inner_product(other), 0.0)

    def distance(self, other: Embedding) -> jax.Array:
        """Norm of the difference, the MMD."""
        return self.squared_distance(other) ** 0.5

    def expectation(self, function: Embedding | Callable[[np.ndarray], ArrayLike]) -> jax.Array:
        """What the embedding says of E f(X) (KME-2, KME-3).

        Args:
            function: an element of H, sum_j c_j k(z_j, .), for which this is the inner product; or
                any function of the points (n, D) with n values or rows (n, ...), of which the
                weighted sum is taken. It is not divided by the sum of the weights, see
                :meth:`normalised`.

        Raises:
            ValueError: for such a function where the sections are those of r, which are no points;
                or one that returns another number of values.
        """
        if isinstance(function, Embedding):
            return self.inner_product(function)
        return self._weighted_sum(function)

    @double_precision
    def _weighted_sum(self, function: Callable[[np.ndarray], ArrayLike]) -> jax.Array:
        if self.measure is not None:
            raise ValueError(
                "an embedding with smoothed sections is not a sum over points: give the function "
                "as an Embedding, an element of the Hilbert space"
            )
        values = jnp.asarray(function(self.points), dtype=jnp.float64)
        if values.ndim == 0 or len(values) != len(self.weights):
            raise ValueError(
                f"the function must return one value or row for each of {len(self.weights)} points,"
                f" got shape {values.shape}"
            )
        return jnp.tensordot(jnp.asarray(self.weights), values, 1)

    @double_precision
    def normalised(self) -> Embedding:
        """The embedding with weights that sum to one.

        Raises:
            ArithmeticError: they sum to nothing.
        """
        total = jnp.sum(jnp.asarray(self.weights))
        known = concrete(total)
        if isinstance(known, np.ndarray) and not abs(known) > 1e-12 * np.abs(self.weights).sum():
            raise ArithmeticError("the weights of this embedding sum to nothing")
        return dataclasses.replace(self, weights=self.weights / total)

    def mean(self) -> jax.Array:
        """E X by the normalised weights, (D,)."""
        return self.normalised().expectation(lambda points: points)

    def __add__(self, other: Embedding) -> Embedding:
        if not isinstance(other, Embedding):
            return NotImplemented
        self._check_space(other)
        if self.measure != other.measure:
            raise ValueError("one embedding has sections of k and the other of r: they do not add")
        points, weights = (
            jnp.concatenate([getattr(one, name) for one in (self, other)])
            if any(isinstance(getattr(one, name), jax.Array) for one in (self, other))
            else np.concatenate([getattr(one, name) for one in (self, other)])
            for name in ("points", "weights")
        )
        return dataclasses.replace(self, points=points, weights=weights)

    def __mul__(self, factor: ArrayLike) -> Embedding:
        if isinstance(factor, Embedding) or np.ndim(factor) != 0:
            return NotImplemented
        return dataclasses.replace(self, weights=self.weights * factor)

    # NumPy scalars leave ``2.0 * embedding`` to __rmul__ instead of building an object array.
    __array_ufunc__ = None
    __rmul__ = __mul__

    def __truediv__(self, divisor: ArrayLike) -> Embedding:
        return self * (1.0 / divisor)  # type: ignore[operator]

    def __neg__(self) -> Embedding:
        return self * -1.0

    def __sub__(self, other: Embedding) -> Embedding:
        return self + (-other) if isinstance(other, Embedding) else NotImplemented

    def _check_space(self, other: Embedding) -> None:
        if self.points.shape[1] != other.points.shape[1]:
            raise ValueError(
                f"the embeddings have {self.points.shape[1]} and {other.points.shape[1]} columns"
            )
        if not same_kernel(self.kernel, other.kernel):
            raise ValueError(
                f"the embeddings belong to different kernels: {self.kernel} and {other.kernel}"
            )

    def _between(self, other: Embedding) -> Covariance:
        """Inner products in H of the sections of both."""
        if self.measure is None:
            return other.sections
        if other.measure is None:
            return self.sections
        if self.measure != other.measure or not isinstance(self.kernel, Kernel):
            raise ValueError("the embeddings are smoothed by different measures")
        return twice_smoothed(self.kernel, self.measure, self.points.shape[1])


def _values(covariance: Covariance, at: Any, points: Any, weights: Any) -> jax.Array:
    if isinstance(covariance, SklearnKernel):
        return jnp.asarray(covariance(at, points) @ np.asarray(weights))
    return _compiled_values(covariance, at, points, weights)


@jax.jit
def _compiled_values(covariance: Covariance, at: Any, points: Any, weights: Any) -> jax.Array:
    """sum_i w_i r(t, x_i) at every t (m, D), without the m x n matrix."""
    at, points, weights = (jnp.asarray(part) for part in (at, points, weights))
    values: jax.Array = map_rows(
        lambda t: covariance.matrix(t[None], points)[0] @ weights, at, len(points)
    )
    return values


def same_kernel(first: Covariance, second: Covariance) -> bool:
    """Whether both are known to be one function; traced parameters must be the same objects."""
    leaves, form = cast(tuple[list[Any], Any], jax.tree.flatten(first))
    others, other_form = cast(tuple[list[Any], Any], jax.tree.flatten(second))
    if form != other_form:
        return False
    pairs = zip(leaves, others, strict=True)
    return all(a is b or _equal(concrete(a), concrete(b)) for a, b in pairs)


def _equal(first: Any, second: Any) -> bool:
    traced = isinstance(first, jax.core.Tracer) or isinstance(second, jax.core.Tracer)
    return not traced and bool(np.array_equal(first, second))


@double_precision
def mean_embedding(X: ArrayLike, kernel: Covariance, weights: ArrayLike | None = None) -> Embedding:
    """The embedding of a weighted sample, sum_i w_i k(x_i, .) (KME-2).

    Args:
        X: shape (n, D) or (n,).
        kernel: the kernel, of this package or of ``sklearn.gaussian_process.kernels``.
        weights: (n,), of any sign; ``None`` for 1/n each, the empirical embedding (KME-4).

    Raises:
        ValueError: for no points, or weights that do not match them or are not finite.
    """
    kernel = as_kernel(kernel)
    check_kernel(kernel, "kernel")
    points = as_points(X)
    n = len(points)
    if n == 0:
        raise ValueError("an embedding needs at least 1 point")
    kernel.check_points(points)
    if weights is None:
        return Embedding(kernel, points, jnp.full(n, 1.0 / n))
    values = jnp.asarray(weights, dtype=jnp.float64)
    if values.shape != (n,):
        raise ValueError(f"there are {n} points, and the weights have shape {values.shape}")
    known = concrete(values)
    if isinstance(known, np.ndarray) and not np.all(np.isfinite(known)):
        row = int(np.argmin(np.isfinite(known))) + 1
        raise ValueError(f"weights has a value that is not finite in row {row}")
    return Embedding(kernel, points, values)
