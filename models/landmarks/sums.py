"""What the landmark model needs of the data: sums over observations, which add."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from ..kernels.base import Kernel, as_points
from ..precision import double_precision
from .features import feature_map, log_volume_at

T = TypeVar("T")

#: Entries of the gradients of one block of rows.
BLOCK_ENTRIES = 2**17


class LandmarkSums(NamedTuple):
    """Of phi(x) over observations; :meth:`merged` gives those of a union, exactly."""

    n: jax.Array  # ()
    mean: jax.Array  # (m,), phi bar
    #: (m, m), sum of (phi(x_i) - phi bar)(phi(x_i) - phi bar)'; or (), its trace.
    scatter: jax.Array
    log_volume: jax.Array  # (), sum of log gamma(x_i)

    @property
    def spread(self) -> jax.Array:
        """Sum of |phi(x_i) - phi bar|^2."""
        return self.scatter if self.scatter.ndim == 0 else self.scatter.trace()

    @double_precision
    def merged(self, other: LandmarkSums) -> LandmarkSums:
        """Those of both sets of observations, without cancellation (Chan, Golub, LeVeque 1983)."""
        if self.scatter.ndim != other.scatter.ndim:
            raise ValueError("the one has the covariance of phi, the other its trace only")
        n = self.n + other.n
        share = other.n / jnp.maximum(n, 1.0)
        apart = other.mean - self.mean
        between = apart @ apart if jnp.ndim(self.scatter) == 0 else jnp.outer(apart, apart)
        return LandmarkSums(
            n,
            self.mean + share * apart,
            self.scatter + other.scatter + self.n * share * between,
            self.log_volume + other.log_volume,
        )


@double_precision
def landmark_sums(
    X: ArrayLike, landmarks: ArrayLike, kernel: Kernel, *, covariance: bool = False
) -> LandmarkSums:
    """Of data, (n, D) or (n,), and landmarks, (m, D) or (m,), a block of rows at a time.

    With ``covariance`` the scatter is a matrix.
    """
    points, places = as_points(X), as_points(landmarks, "landmarks")
    return _compiled(points, places, kernel, covariance=covariance)


def summed(
    X: jax.Array,
    landmarks: jax.Array,
    kernel: Kernel,
    *,
    volume: bool = True,
    covariance: bool = False,
) -> LandmarkSums:
    """As :func:`landmark_sums`, of points, inside compiled code; the ``volume`` is most of it."""
    zero, m = jnp.zeros(()), len(landmarks)
    none = jnp.zeros((m, m)) if covariance else zero
    nothing = LandmarkSums(zero, jnp.zeros(m), none, zero)

    def add(sums: LandmarkSums, rows: jax.Array, known: jax.Array) -> LandmarkSums:
        phi = feature_map(rows, landmarks, kernel)
        count = jnp.sum(known)
        mean = known @ phi / jnp.maximum(count, 1.0)
        apart = (phi - mean) * known[:, None]
        scatter = apart.T @ apart if covariance else jnp.vdot(apart, apart)
        log_volume = zero
        if volume:
            log_gamma = log_volume_at(rows, landmarks, kernel)
            log_volume = jnp.sum(jnp.where(known > 0.0, log_gamma, 0.0))
        return sums.merged(LandmarkSums(count, mean, scatter, log_volume))

    return over_blocks(add, nothing, X, len(landmarks))


_compiled = jax.jit(summed, static_argnames=("volume", "covariance"))


def over_blocks(
    add: Callable[[T, jax.Array, jax.Array], T], start: T, X: jax.Array, columns: int
) -> T:
    """``add`` every block of the rows of ``X`` to what ``start`` begins; 0 marks rows to leave out.

    Blocks are of one size, so that one program does, and the last is filled up with its last row.
    """
    n, dimension = X.shape
    blocks = -(-n * columns * dimension // BLOCK_ENTRIES)
    size = -(-n // blocks)

    def one(total: T, block: jax.Array) -> tuple[T, None]:
        index = block * size + jnp.arange(size)
        known = (index < n).astype(X.dtype)
        return add(total, X[jnp.minimum(index, n - 1)], known), None

    total, _ = jax.lax.scan(one, start, jnp.arange(blocks))
    return total
