"""One column of data, prepared for sums of squared exponentials of any lengthscales.

What is needed depends on the shortest lengthscale only, in ranges that each begin where a number
of nodes is enough; below the last the n x n matrices are taken, as by the others.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ...kernels.base import Kernel
from ...kernels.squared_exponential import GaussianMixture
from ...linalg.pytrees import register_dataclass
from ...linalg.rows import PaddedRows
from ...linalg.transforms import sequential_vmap, value_and_jacobian
from ...measures import Measure
from ..base import LogLikelihoodTerms, closed_form
from ..dense import dense_terms
from .mixture import Mixture, Range, Slopes, mixture_of
from .obstacle import order_of
from .outliers import Outliers, outliers, stacked, with_outliers
from .panels import ORDER, Places, at_places, blocks_of, panels_over
from .prepared import (
    MOST_DENSE,
    SpectralIndex,
    TooLargeError,
    filled,
    line_rows,
    unresolved,
)

#: Width of the panels, in lengthscales: of the Gaussian term, where k is right to 2e-10 of its
#: height and r to rounding; and of the slopes, where k' is.
GAUSSIAN_WIDTH, SLOPE_WIDTH = 8.0, 4.75
#: Blocks of nodes of the Gaussian term, a range of lengthscales each, and of the slopes over these.
BLOCKS, SLOPE_BLOCKS = (4, 12, 32), 1.75
#: Rows per node at least, so that the matrices of all rows do not take less time.
ROWS_PER_NODE = 1.8
#: Steps between the lengthscales that are tried for a range, and the shortest over the extent.
FINER, LEAST_RATIO = 2.0**0.125, 2.0**-30
#: Fewer rows than this are as fast by matrices at every lengthscale.
LEAST_ROWS = 250
#: A slope below this, over the sizes of the terms it is a sum of, is rounding error.
RESOLUTION = 2.0**-48


class MixtureParameters(NamedTuple):
    """What the sums are differentiated in."""

    mixture: Mixture
    noise_variance: jax.Array
    measure: Measure


@register_dataclass
@dataclasses.dataclass(frozen=True)
class MixtureIndex(SpectralIndex):
    """The points of one column, ascending, and ranges of lengthscales from the longest down."""

    rows: PaddedRows
    ranges: tuple[Range, ...]
    places: Places  # of all ranges
    outliers: Outliers  # of all ranges

    @property
    def entries(self) -> int:
        """Numbers that one value goes through, at a lengthscale of the middle range."""
        return len(self.rows) * ORDER + self.ranges[len(self.ranges) // 2].slope_weights.size ** 2

    @property
    def shortest(self) -> float:
        """The lengthscale of the shortest component from which on no matrices are needed."""
        return float(self.ranges[-1].shortest)

    def shortest_of(self, kernel: Kernel) -> Any:
        """The lengthscale of the ``kernel``'s shortest component."""
        return mixture_of(kernel).shortest

    def range_of(self, mixture: Mixture) -> jax.Array:
        """Which range takes it; how many there are if none does."""
        return sum((mixture.shortest < each.shortest).astype(int) for each in self.ranges)

    def prepared_for(self, kernel: Kernel) -> bool:
        """Whether it is a sum of squared exponentials."""
        return order_of(kernel) is None

    def terms_for(
        self, kernel: Kernel, noise_variance: jax.Array, measure: Measure
    ) -> LogLikelihoodTerms:
        """Both terms of BKE (13) for a sum of squared exponentials."""
        parameters = MixtureParameters(mixture_of(kernel), noise_variance, measure)
        terms: LogLikelihoodTerms = closed_form(self, parameters)
        return terms

    def evaluated(self, parameters: Any) -> LogLikelihoodTerms:
        """Both terms, by the nodes of the range that takes the shortest lengthscale."""
        mixture, noise_variance, measure = parameters
        which = self.range_of(mixture)

        def by_nodes() -> LogLikelihoodTerms:
            gaussian, *_ = self.gaussian_term(which, mixture, noise_variance, measure, False)
            slopes = self.embedding_slopes(which, mixture)
            return LogLikelihoodTerms(gaussian, jnp.sum(self.log_volume(which, slopes, mixture)))

        def by_matrices() -> LogLikelihoodTerms:
            return self.mixture_by_matrices(mixture, noise_variance, measure)

        terms: LogLikelihoodTerms
        terms = jax.lax.cond(which < len(self.ranges), by_nodes, by_matrices)
        return terms

    def mixture_by_matrices(
        self, mixture: Mixture, noise_variance: jax.Array, measure: Measure
    ) -> LogLikelihoodTerms:
        """Both terms by the dense route."""
        if len(self.rows) > MOST_DENSE:
            return unresolved(mixture.shortest)
        kernel = GaussianMixture(jax.lax.rsqrt(mixture.precision), jnp.exp(mixture.log_weight))
        return dense_terms(self.rows, kernel, noise_variance, measure, low_rank=False)

    def value_and_grad(
        self, parameters: Any, moving: tuple[bool, ...]
    ) -> tuple[LogLikelihoodTerms, LogLikelihoodTerms]:
        """Backward through the sums, even where forward was asked for: nodes are few, points many.

        The slopes, (2 Q + 1,), are in log weights, precisions and noise.
        """
        mixture, noise_variance, measure = parameters

        @sequential_vmap
        def both(index: MixtureIndex, mixture: Mixture, noise_variance: jax.Array) -> Any:
            which = index.range_of(mixture)
            given = mixture, noise_variance, measure
            return jax.lax.cond(
                which < len(index.ranges),
                lambda: index.slopes_by_nodes(which, *given),
                lambda: index.slopes_by_matrices(*given),
            )

        value, slopes = both(self, mixture, noise_variance)
        return LogLikelihoodTerms(*value), LogLikelihoodTerms(*slopes)

    def slopes_by_nodes(
        self, which: jax.Array, mixture: Mixture, noise_variance: jax.Array, measure: Measure
    ) -> tuple[jax.Array, jax.Array]:
        """Both terms, (2,), and their slopes, (2, 2 Q + 1), by the nodes of a range."""
        gaussian, of_mixture, of_noise = self.gaussian_term(
            which, mixture, noise_variance, measure, True
        )
        slopes = self.embedding_slopes(which, mixture)

        def summed(slopes: Slopes, mixture: Mixture) -> jax.Array:
            return jnp.sum(self.log_volume(which, slopes, mixture))

        volume, (of_slopes, of_pairs) = jax.value_and_grad(summed, (0, 1))(slopes, mixture)

        def along(mixture: Mixture) -> jax.Array:
            found = self.embedding_slopes(which, mixture)
            by_nodes = jnp.vdot(found.at_nodes, of_slopes.at_nodes)
            return by_nodes + jnp.vdot(found.alone, of_slopes.alone)

        of_volume = jax.tree.map(jnp.add, of_pairs, jax.grad(along)(mixture))
        rows = [*of_mixture, of_noise[None], *of_volume, jnp.zeros(1)]
        return jnp.stack([gaussian, volume]), jnp.concatenate(rows).reshape(2, -1)

    def slopes_by_matrices(
        self, mixture: Mixture, noise_variance: jax.Array, measure: Measure
    ) -> tuple[jax.Array, jax.Array]:
        """Both terms and their slopes by the dense route."""
        q = len(mixture.precision)

        def stacked(theta: jax.Array) -> jax.Array:
            *each, noise = jnp.split(theta, [q, 2 * q])
            moved = Mixture(*each)
            return jnp.stack(self.mixture_by_matrices(moved, noise.reshape(()), measure))

        return value_and_jacobian(stacked, jnp.concatenate([*mixture, noise_variance[None]]))

    def gaussian_term(
        self,
        which: Any,
        mixture: Mixture,
        noise_variance: jax.Array,
        measure: Measure,
        slopes: bool,
    ) -> tuple[jax.Array, Mixture, jax.Array]:
        """The Gaussian term by one of the ranges, see :meth:`Range.gaussian_term`."""
        n = self.rows.number

        def of(each: Range) -> tuple[jax.Array, Mixture, jax.Array]:
            return each.gaussian_term(mixture, noise_variance, measure, n, slopes=slopes)

        found: tuple[jax.Array, Mixture, jax.Array]
        found = jax.lax.switch(which, [partial(of, each) for each in self.ranges])
        return found

    def embedding_slopes(self, which: Any, mixture: Mixture) -> Slopes:
        """mu_hat' at the nodes of one of the ranges, filled up to as many as any has."""
        n, most = self.rows.number, max(len(each.slope_weights) for each in self.ranges)
        x = self.outliers.x[which]

        def of(each: Range) -> Slopes:
            found = each.embedding_slopes(mixture, x, n)
            more = ((0, most - len(each.slope_weights)), (0, 0))
            return Slopes(jnp.pad(found.at_nodes, more), jnp.pad(found.sizes, more), found.alone)

        found: Slopes = jax.lax.switch(which, [partial(of, each) for each in self.ranges])
        return found

    def log_volume(self, which: Any, slopes: Slopes, mixture: Mixture) -> jax.Array:
        """Log gamma at every point, (N,); 0 where there is none."""
        places, far = jax.tree.map(lambda each: each[which], (self.places, self.outliers))
        slope = at_places(slopes.at_nodes, places)
        sizes = jnp.where(
            places.node >= 0,
            slopes.sizes.reshape(-1)[jnp.maximum(places.node, 0)],
            jnp.max(slopes.sizes, axis=1)[places.block],
        )
        resolved = jnp.abs(slope) > RESOLUTION * sizes
        log_volume = jnp.where(
            resolved, jnp.log(jnp.abs(jnp.where(resolved, slope, 1.0))), -jnp.inf
        )
        log_volume = with_outliers(
            log_volume, far, slopes.alone, mixture.log_weight, mixture.precision, self.rows.number
        )
        return self.rows.mask(log_volume)


def mixture_index(X: np.ndarray) -> MixtureIndex:
    """Prepare (n, 1) data.

    Raises:
        ValueError: for fewer than 250 rows, all equal ones, or more than can be prepared that are
            far nearer each other than the data are wide.
    """
    x = np.sort(np.asarray(X, dtype=float)[:, 0])
    n = len(x)
    if not x[-1] > x[0]:
        raise ValueError("all rows are equal")
    if n < LEAST_ROWS:
        raise ValueError(f"{n} rows are too few")
    longest = float(x[-1] - x[0])
    found: list[tuple[Range, Places, Outliers]] = []
    for blocks in BLOCKS:
        if found and blocks * ORDER * ROWS_PER_NODE > n:
            break
        longest = _shortest(x, blocks, longest)
        try:
            found.append(_range(x, blocks, longest))
        except TooLargeError as reason:
            if not found:
                raise ValueError(str(reason)) from None
            break
    ranges, places, far = zip(*found, strict=True)
    rows = line_rows(x)
    each = zip(*places, strict=True)
    stacks = Places(*(filled(np.stack(field, axis=1), len(rows)).T for field in each))
    return MixtureIndex(rows, ranges, stacks, stacked(far, len(rows)))


def _shortest(x: np.ndarray, blocks: int, longest: float) -> float:
    """The shortest lengthscale, from the ``longest`` down, for which so many ``blocks`` do."""

    def do(lengthscale: float) -> bool:
        few = blocks_of(x, GAUSSIAN_WIDTH * lengthscale) <= blocks
        return few and blocks_of(x, SLOPE_WIDTH * lengthscale) <= SLOPE_BLOCKS * blocks

    least = LEAST_RATIO * float(x[-1] - x[0])
    factor = 4.0
    while factor >= FINER:
        while longest / factor >= least and do(longest / factor):
            longest /= factor
        factor **= 0.5
    return longest


def _range(x: np.ndarray, blocks: int, shortest: float) -> tuple[Range, Places, Outliers]:
    gaussian = panels_over(x, GAUSSIAN_WIDTH * shortest, blocks)
    slopes = panels_over(x, SLOPE_WIDTH * shortest, int(SLOPE_BLOCKS * blocks))
    found = Range(
        np.float64(shortest),
        gaussian.nodes,
        gaussian.weights,
        gaussian.roots(),
        slopes.nodes,
        slopes.weights,
    )
    return found, slopes.places, outliers(x, slopes.dense, shortest)
