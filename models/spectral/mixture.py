"""One column and a sum of squared exponentials: BKE (13) from nodes, whatever the lengthscales.

A function as smooth as the shortest component is known at the nodes of panels
(:mod:`.panels`), and so is any longer component, no matter how much longer. With the cardinal
functions L (n, m) of the nodes, R = L R_y L' and mu_hat = L K_y L'1 / n for the kernels at the
nodes, whose number m does not depend on n. For T with T'T = L'L,

    log |R + s I| = log |T R_y T' + s I| + (n - m) log s,
    mu_hat' (R + s I)^-1 mu_hat = v' (T R_y T' + s I)^-1 v,  v = T K_y L'1 / n,

and the slope of mu_hat at the points is the interpolant of its values at nodes of narrower panels.
"""

from __future__ import annotations

import dataclasses
import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero

from ..dense_likelihood import LogLikelihoodTerms, dense_terms, zero_or_array
from ..inverse import inverse_and_log_determinant
from ..jacobian import value_and_jacobian
from ..kernels import GaussianMixture
from ..kernels.base import Kernel
from ..kernels.components import Components, accumulate
from ..kernels.smoothed_components import ComponentCovariance, smooth_components
from ..one_by_one import one_by_one
from .outliers import Outliers, outliers, stacked, with_outliers
from .panels import ORDER, Nodes, Places, at_places, blocks_of, panels_over
from .prepared import MOST_DENSE, SpectralIndex, TooLargeError

#: Width of the panels, in lengthscales: of the Gaussian term, where k is right to 3e-12 of its
#: height and r to rounding; and of the slopes, where k' is.
GAUSSIAN_WIDTH, SLOPE_WIDTH = 6.8, 4.75
#: Blocks of nodes of the Gaussian term, a range of lengthscales each, and of the slopes over these.
BLOCKS, SLOPE_BLOCKS = (4, 8, 16, 32), 1.75
#: Rows per node at least, so that the matrices of all rows do not take less time.
ROWS_PER_NODE = 1.8
#: Steps between the lengthscales that are tried for a range, and the shortest over the extent.
FINER, LEAST_RATIO = 2.0**0.125, 2.0**-30
#: Fewer rows than this are as fast by matrices at every lengthscale.
LEAST_ROWS = 250
#: A slope below this, over the sizes of the terms it is a sum of, is rounding error.
RESOLUTION = 2.0**-48


class Mixture(NamedTuple):
    """sum_q exp(log_weight_q - precision_q d^2 / 2) in one column, (Q,) each."""

    log_weight: jax.Array
    precision: jax.Array

    @property
    def shortest(self) -> jax.Array:
        """The least of the lengthscales."""
        return jax.lax.rsqrt(jnp.max(self.precision))

    def smoothed(self, measure: str) -> Mixture:
        """R, as the matrices have it."""
        components = Components(self.log_weight, self.precision[:, None], None)
        covariance = smooth_components(components, measure)
        assert isinstance(covariance, ComponentCovariance)
        found = covariance.components
        return Mixture(found.log_weight, found.precision[:, 0])

    def at(self, delta: jax.Array) -> jax.Array:
        """The values at differences."""

        def part(one: Mixture) -> jax.Array:
            return jnp.exp(one.log_weight - 0.5 * one.precision * delta**2)

        total: jax.Array = accumulate(part, self, jnp.zeros(delta.shape))
        return total


def is_mixture(kernel: Kernel) -> bool:
    """Whether it is a sum of Gaussian components in one column."""
    components = jax.eval_shape(lambda: kernel.components(1))
    return components is not None and components.frequency is None


def mixture_of(kernel: Kernel) -> Mixture:
    """Of a kernel that is a sum of Gaussian components in one column."""
    components = kernel.components(1)
    assert components is not None
    return Mixture(components.log_weight, components.precision.reshape(-1))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Range:
    """From a shortest lengthscale up."""

    shortest: Any  # ()
    gaussian: Nodes
    weights: Any  # (blocks, ORDER), of the same nodes
    roots: Any  # (blocks, ORDER, ORDER)
    slopes: Nodes
    slope_weights: Any  # (more blocks, ORDER)

    def gaussian_term(
        self, mixture: Mixture, noise_variance: jax.Array, measure: str, n: int, *, slopes: bool
    ) -> tuple[jax.Array, Mixture, jax.Array]:
        """Log N(mu_hat; 0, R + noise_variance I) and, if asked for, its slopes in both."""
        apart = self.gaussian.minus(self.gaussian)
        roots, weights = jnp.asarray(self.roots), self.weights.reshape(-1) / n
        transposed = jnp.swapaxes(roots, 1, 2)
        m = len(weights)

        def times(blocks: jax.Array, matrix: jax.Array) -> jax.Array:
            """Of a block diagonal matrix and another one."""
            return (blocks @ matrix.reshape(len(blocks), ORDER, -1)).reshape(matrix.shape)

        def covariance_at(mixture: Mixture) -> jax.Array:
            return mixture.smoothed(measure).at(apart)

        def embedding_at(mixture: Mixture) -> jax.Array:
            return mixture.at(apart) @ weights

        if not slopes:
            covariance, embedding = covariance_at(mixture), embedding_at(mixture)
        else:
            covariance, pull_covariance = jax.vjp(covariance_at, mixture)
            embedding, pull_embedding = jax.vjp(embedding_at, mixture)
        M = times(roots, times(roots, covariance).T)
        v = times(roots, embedding)
        regular = M + noise_variance * jnp.eye(m)
        if not slopes:
            cholesky = jnp.linalg.cholesky(regular)
            a = jax.scipy.linalg.cho_solve((cholesky, True), v)
            log_determinant = 2.0 * jnp.sum(jnp.log(jnp.diagonal(cholesky)))
        else:
            inverse, log_determinant = inverse_and_log_determinant(regular)
            a = inverse @ v
            a = a + inverse @ (v - regular @ a)  # the explicit inverse loses digits
        log_determinant = log_determinant + (n - m) * jnp.log(noise_variance)
        value = -0.5 * (v @ a + log_determinant + n * math.log(2.0 * math.pi))
        # As by the matrices: no number where the noise is lost to rounding beside tr R.
        value = jnp.where(jnp.trace(M) * jnp.finfo(M.dtype).eps < noise_variance, value, jnp.nan)
        if not slopes:
            return value, mixture, noise_variance
        sensitivity = 0.5 * (jnp.outer(a, a) - inverse)
        of_covariance = times(transposed, times(transposed, sensitivity).T)
        (of_r,), (of_k,) = pull_covariance(of_covariance), pull_embedding(-times(transposed, a))
        of_noise = jnp.trace(sensitivity) - 0.5 * (n - m) / noise_variance
        return value, jax.tree.map(jnp.add, of_r, of_k), of_noise

    def embedding_slopes(self, mixture: Mixture, x: jax.Array, n: int) -> Slopes:
        """mu_hat' at the nodes for slopes, and of each component at ``x`` (k,)."""
        weights = self.slope_weights.reshape(-1) / n
        apart = self.slopes.minus(self.slopes)
        far = Nodes(x, jnp.zeros_like(x)).minus(self.slopes)

        def slope(one: Mixture, delta: jax.Array) -> jax.Array:
            return -one.precision * delta * jnp.exp(one.log_weight - 0.5 * one.precision * delta**2)

        def part(one: Mixture) -> tuple[jax.Array, jax.Array]:
            each = slope(one, apart)
            sizes = jax.lax.stop_gradient(jnp.abs(each) @ jnp.abs(weights))
            return each @ weights, sizes

        nothing = jnp.zeros(len(weights))
        at_nodes, sizes = accumulate(part, mixture, (nothing, nothing))
        alone = jax.vmap(lambda one: slope(one, far) @ weights)(mixture)
        return Slopes(at_nodes.reshape(-1, ORDER), sizes.reshape(-1, ORDER), alone)


class Slopes(NamedTuple):
    """mu_hat' where it is computed itself."""

    at_nodes: jax.Array  # (blocks, ORDER)
    sizes: jax.Array  # (blocks, ORDER), the sums of the absolute values of their terms
    alone: jax.Array  # (Q, k): of each component at the outliers


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class MixtureIndex(SpectralIndex):
    """The (n, 1) points, ascending, and ranges of lengthscales from the longest down."""

    points: Any
    ranges: tuple[Range, ...]
    places: Places  # of all ranges
    outliers: Outliers  # of all ranges

    @property
    def entries(self) -> int:
        """Numbers that one value goes through, at a lengthscale of the middle range."""
        return len(self.points) * ORDER + self.ranges[len(self.ranges) // 2].slope_weights.size ** 2

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

    def gaussian_term(
        self, which: Any, mixture: Mixture, noise_variance: jax.Array, measure: str, slopes: bool
    ) -> tuple[jax.Array, Mixture, jax.Array]:
        """Of one of the ranges, see :meth:`Range.gaussian_term`."""
        n = len(self.points)

        def of(each: Range) -> tuple[jax.Array, Mixture, jax.Array]:
            return each.gaussian_term(mixture, noise_variance, measure, n, slopes=slopes)

        found: tuple[jax.Array, Mixture, jax.Array]
        found = jax.lax.switch(which, [partial(of, each) for each in self.ranges])
        return found

    def embedding_slopes(self, which: Any, mixture: Mixture) -> Slopes:
        """Of one of the ranges; of as many nodes as any has."""
        n, most = len(self.points), max(len(each.slope_weights) for each in self.ranges)
        x = self.outliers.x[which]

        def of(each: Range) -> Slopes:
            found = each.embedding_slopes(mixture, x, n)
            more = ((0, most - len(each.slope_weights)), (0, 0))
            return Slopes(jnp.pad(found.at_nodes, more), jnp.pad(found.sizes, more), found.alone)

        found: Slopes = jax.lax.switch(which, [partial(of, each) for each in self.ranges])
        return found

    def log_volume(self, which: Any, slopes: Slopes, mixture: Mixture) -> jax.Array:
        """Log gamma at every point, (n,)."""
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
        return with_outliers(log_volume, far, slopes.alone, mixture.log_weight, mixture.precision)


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
    stacks = Places(*(np.stack(each) for each in zip(*places, strict=True)))
    return MixtureIndex(x[:, None], ranges, stacks, stacked(far, n))


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


def mixture_terms(
    index: MixtureIndex, kernel: Kernel, noise_variance: jax.Array, measure: str
) -> LogLikelihoodTerms:
    """Both terms of BKE (13) for a sum of squared exponentials, as :func:`.spectral_terms`."""
    terms: LogLikelihoodTerms = _terms(index, mixture_of(kernel), noise_variance, measure)
    return terms


def _by_matrices(
    index: MixtureIndex, mixture: Mixture, noise_variance: jax.Array, measure: str
) -> LogLikelihoodTerms:
    if len(index.points) > MOST_DENSE:
        nothing = jnp.nan * mixture.shortest  # whose slope is no number either
        return LogLikelihoodTerms(nothing, nothing)
    kernel = GaussianMixture(jax.lax.rsqrt(mixture.precision), jnp.exp(mixture.log_weight))
    return dense_terms(index.points, kernel, noise_variance, measure, low_rank=False)


@partial(jax.custom_jvp, nondiff_argnums=(3,))
def _terms(
    index: MixtureIndex, mixture: Mixture, noise_variance: jax.Array, measure: str
) -> LogLikelihoodTerms:
    @one_by_one
    def terms(
        index: MixtureIndex, mixture: Mixture, noise_variance: jax.Array
    ) -> LogLikelihoodTerms:
        which = index.range_of(mixture)

        def by_nodes() -> LogLikelihoodTerms:
            gaussian, *_ = index.gaussian_term(which, mixture, noise_variance, measure, False)
            slopes = index.embedding_slopes(which, mixture)
            return LogLikelihoodTerms(gaussian, jnp.sum(index.log_volume(which, slopes, mixture)))

        def by_matrices() -> LogLikelihoodTerms:
            return _by_matrices(index, mixture, noise_variance, measure)

        return jax.lax.cond(which < len(index.ranges), by_nodes, by_matrices)

    return terms(index, mixture, noise_variance)


@partial(_terms.defjvp, symbolic_zeros=True)
def _terms_jvp(
    measure: str, primals: tuple[Any, ...], tangents: tuple[Any, ...]
) -> tuple[LogLikelihoodTerms, LogLikelihoodTerms]:
    """Backward through the sums, even where forward was asked for: nodes are few, points many."""
    of_points = jax.tree.leaves(tangents[0], is_leaf=lambda leaf: isinstance(leaf, SymbolicZero))
    if not all(isinstance(leaf, SymbolicZero) for leaf in of_points):
        raise NotImplementedError("the spectral route has no derivative in the data")
    value, jacobian = _value_and_slopes(*primals, measure)
    dots = [zero_or_array(dot).reshape(-1) for dot in (*tangents[1], tangents[2])]
    return LogLikelihoodTerms(*value), LogLikelihoodTerms(*(jacobian @ jnp.concatenate(dots)))


def _value_and_slopes(
    index: MixtureIndex, mixture: Mixture, noise_variance: jax.Array, measure: str
) -> tuple[jax.Array, jax.Array]:
    """Both terms, (2,), and their slopes in log weights, precisions and noise, (2, 2 Q + 1)."""

    @one_by_one
    def both(index: MixtureIndex, mixture: Mixture, noise_variance: jax.Array) -> Any:
        which = index.range_of(mixture)

        def by_nodes() -> tuple[jax.Array, jax.Array]:
            gaussian, *of_gaussian = index.gaussian_term(
                which, mixture, noise_variance, measure, True
            )
            slopes = index.embedding_slopes(which, mixture)

            def summed(slopes: Slopes, mixture: Mixture) -> jax.Array:
                return jnp.sum(index.log_volume(which, slopes, mixture))

            volume, (of_slopes, of_pairs) = jax.value_and_grad(summed, (0, 1))(slopes, mixture)

            def along(mixture: Mixture) -> jax.Array:
                found = index.embedding_slopes(which, mixture)
                by_nodes = jnp.vdot(found.at_nodes, of_slopes.at_nodes)
                return by_nodes + jnp.vdot(found.alone, of_slopes.alone)

            of_volume = jax.tree.map(jnp.add, of_pairs, jax.grad(along)(mixture))
            rows = [*of_gaussian[0], of_gaussian[1][None], *of_volume, jnp.zeros(1)]
            return jnp.stack([gaussian, volume]), jnp.concatenate(rows).reshape(2, -1)

        def by_matrices() -> tuple[jax.Array, jax.Array]:
            def stacked(theta: jax.Array) -> jax.Array:
                *each, noise = jnp.split(theta, [q, 2 * q])
                moved = Mixture(*each)
                return jnp.stack(_by_matrices(index, moved, noise.reshape(()), measure))

            q = len(mixture.precision)
            theta = jnp.concatenate([*mixture, noise_variance[None]])
            return value_and_jacobian(stacked, theta)

        return jax.lax.cond(which < len(index.ranges), by_nodes, by_matrices)

    found: tuple[jax.Array, jax.Array] = both(index, mixture, noise_variance)
    return found
