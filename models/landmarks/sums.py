"""What the landmark model needs of the data: sums over observations, which add."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from ..kernels.base import Kernel
from ..linalg.blocks import over_blocks
from ..linalg.precision import double_precision
from .features import feature_map, log_volume_at
from .view import BLOCK_ENTRIES, BLOCK_ENTRIES_OF_GPU, ROWS, LandmarkView

T = TypeVar("T")

#: Entries of the gradients of a block where each costs an m x m matrix: up to m rows, if so many.
COVARIANCE_ENTRIES = 2**21


class LandmarkSums(NamedTuple):
    """Sums of phi(x) over observations; :meth:`merged` gives those of a union, exactly."""

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


#: :meth:`LandmarkSums.merged` of sums with a leading axis, compiled.
merged_each = jax.jit(jax.vmap(LandmarkSums.merged))


def summed(
    view: LandmarkView, kernel: Kernel, *, volume: bool = True, covariance: bool = False
) -> LandmarkSums:
    """Sum over the data of a view; the ``volume`` is most of the work.

    With ``covariance`` the scatter is a matrix.
    """
    zero, m = jnp.zeros(()), len(view.landmarks)
    none = jnp.zeros((m, m)) if covariance else zero
    least = 1
    if covariance and view.mesh is None:
        # A matrix of every part would be more than the data: one part, and no fewer rows in a block
        # than make its matrix worth it.
        dimension = view.parts.shape[-1]
        view = dataclasses.replace(view, parts=view.parts.reshape(1, -1, dimension))
        least = min(m, COVARIANCE_ENTRIES // (m * dimension))
    nothing = LandmarkSums(zero, jnp.zeros(m), none, zero)

    def add(given: Any, sums: LandmarkSums, rows: jax.Array, known: jax.Array) -> LandmarkSums:
        kernel, landmarks = given
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

    of_parts = over_parts(add, (kernel, view.landmarks), nothing, view, least)
    sums, _ = jax.lax.scan(lambda sums, part: (sums.merged(part), None), nothing, of_parts)
    return sums


#: :func:`summed`, compiled.
sums_of_view = jax.jit(summed, static_argnames=("volume", "covariance"))


def over_parts(
    add: Callable[[Any, T, jax.Array, jax.Array], T],
    given: Any,
    start: T,
    view: LandmarkView,
    least: int = 1,
) -> T:
    """What the rows of every part of the view add to ``start``, block by block; leading axis parts.

    Args:
        add: of what is ``given``, a total, rows (b, D), and 1 for those to add, 0 for repeats.
        given: what it depends on; all devices have it.
        start: the total of no rows.
        view: every device goes through its own parts, and then has the totals of all.
        least: rows of a block at least, where a part has as many.
    """
    parts, rows, dimension = view.parts.shape
    entries = BLOCK_ENTRIES if jax.default_backend() == "cpu" else BLOCK_ENTRIES_OF_GPU
    most = max(1, least, entries // (len(view.landmarks) * dimension))

    def one(given: Any, count: jax.Array, part: jax.Array, which: jax.Array) -> T:
        def add_block(total: T, block: jax.Array, index: jax.Array, known: jax.Array) -> T:
            return add(given, total, block, known * (which * rows + index < count))

        return over_blocks(add_block, start, part, most)

    def own(given: Any, count: jax.Array, mine: jax.Array, which: jax.Array) -> T:
        return jax.lax.map(lambda both: one(given, count, *both), (mine, which))

    arguments = given, view.count, view.parts, jnp.arange(parts)
    if view.mesh is None:
        return own(*arguments)

    def shared(*arguments: Any) -> T:
        return jax.lax.all_gather(own(*arguments), ROWS, tiled=True)  # type: ignore[no-any-return]

    everywhere, split = PartitionSpec(), PartitionSpec(ROWS)
    specs = (everywhere, everywhere, split, split)
    spread = jax.shard_map(
        shared, mesh=view.mesh, in_specs=specs, out_specs=everywhere, check_vma=False
    )
    return spread(*arguments)  # type: ignore[no-any-return]
