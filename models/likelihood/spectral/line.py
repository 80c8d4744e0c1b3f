"""One column and a single squared exponential, at any lengthscale.

The tables that a lengthscale needs depend on it only through its ratio to the extent of the data.
Long ones use waves, whose number does not grow with the lengthscale (:mod:`.waves`). Below are
ranges of a factor of two, each with a separate grid (:mod:`.grid`), down to where every point has
few neighbors, or the n x n matrices cost less, or, for many points, the grid would be too long.

The points may be those that stand for many more rows. In a bin much narrower than the lengthscale,
a smooth function is its interpolant at Chebyshev nodes. So a sum over the rows of a bin is one over
its nodes, with weights from the sums of as many Chebyshev polynomials over the rows, which are
gathered in one pass in any order. All sums of the Gaussian term are smooth. The volume term, the
sum of log |mu_hat'|, is not near zeros of mu_hat', if there are any: there the rows themselves must
be used. The last coefficients of the interpolants of log |mu_hat'| show the distance of the other
bins from one.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from ...kernels.base import Kernel
from ...kernels.squared_exponential import SquaredExponential
from ...linalg.pytrees import register_dataclass
from ...linalg.rows import PaddedRows
from ...measures import Measure
from .base import (
    SpectralIndex,
    Sums,
    chebyshev,
    chebyshev_polynomials,
    column_rows,
    log_abs,
)
from .grid import RANGE_FACTOR, ShortLengthscales, banded_sums, longest_banded, short_lengthscales
from .pairs import IsolatedPoints, isolated_in_column, recompute_balanced, stack_ranges
from .waves import SMOOTHED_WAVES, TERMS, LongLengthscales, long_lengthscales

#: Noise variance over the trace of R from which grids are accurate: below, their difference of two
#: quadratic forms over the noise has less than seven digits.
MIN_NOISE = 1e-9


@register_dataclass
@dataclasses.dataclass(frozen=True)
class LineIndex(SpectralIndex):
    """The points of one column, ascending, prepared for a squared exponential.

    Attributes:
        rows: the points.
        long: waves.
        short: grids.
        banded: lengthscale up to which R is a band, (); 0 for none.
        isolated: isolated points of the long lengthscales and of every range of short ones.
        has_matrices: true if the n x n matrices are part of a program.
    """

    rows: PaddedRows
    long: LongLengthscales
    short: ShortLengthscales
    banded: Any
    isolated: IsolatedPoints
    has_matrices: bool = dataclasses.field(default=True, metadata={"static": True})

    @property
    def entries(self) -> int:
        """The number of array entries that one value takes, at a long lengthscale."""
        return len(self.rows) * TERMS + (2 * SMOOTHED_WAVES + 1) ** 2

    @property
    def shortest(self) -> float:
        """The lengthscale from which on no matrices are needed."""
        lengthscales = np.asarray(self.short.shortest)
        shortest = float(lengthscales[lengthscales > 0.0].min())
        return 0.0 if self.banded >= shortest else shortest

    @property
    def dense_range(self) -> tuple[float, float]:
        """The range of lengthscales that need matrices."""
        return float(self.banded), self.shortest

    def specialized(self, noise_variance: Any, measure: Measure) -> LineIndex:
        """Leave out the matrices where no lengthscale needs them at this known noise variance."""
        longest, shortest = self.dense_range
        known = measure.relative and not isinstance(noise_variance, jax.core.Tracer)
        known = known and longest >= shortest
        if known and noise_variance > MIN_NOISE * self.rows.number:
            return dataclasses.replace(self, has_matrices=False)
        return self

    def is_accurate(self, kernel: Any, noise_variance: jax.Array) -> jax.Array:
        """Return whether sums are accurate: on grids from a relative noise variance on."""
        on_grid = self.short.range_of(kernel.lengthscale)[1]
        on_grid &= noise_variance > MIN_NOISE * self.rows.number
        long = kernel.lengthscale >= self.long.shortest
        return on_grid | long | (kernel.lengthscale <= self.banded)

    def sums(self, kernel: Any, noise_variance: jax.Array) -> Sums:
        """Compute the parts of BKE (13) by waves, by grids or by bands."""
        rows, lengthscale = self.rows, kernel.lengthscale

        def by_bands() -> Sums:
            return banded_sums(rows, lengthscale, noise_variance)

        def by_basis() -> Sums:
            long = lengthscale >= self.long.shortest
            quadratic, log_determinant, derivatives, sizes, x = jax.lax.cond(
                long,
                lambda: self.long.sums(rows.number, kernel, noise_variance),
                lambda: self.short.sums(rows.number, lengthscale, noise_variance),
            )
            index = jnp.where(long, 0, 1 + self.short.range_of(lengthscale)[0])
            isolated = jax.tree.map(lambda leaf: leaf[index], self.isolated)
            log_jacobian = recompute_balanced(
                log_abs(derivatives, sizes), derivatives, sizes, x, rows, isolated, lengthscale
            )
            precision = jnp.reshape(lengthscale**-2, 1)
            log_jacobian = isolated.overwrite(log_jacobian, rows.number, precision)
            return Sums(quadratic, log_determinant, log_jacobian)

        return cast(Sums, jax.lax.cond(lengthscale <= self.banded, by_bands, by_basis))

    def log_jacobian(self, kernel: Kernel) -> jax.Array:
        """Compute log gamma at every point, (N,), by sums for a supported kernel."""
        lengthscale = jnp.reshape(jnp.asarray(self.shortest_of(kernel)), ())
        return self.sums(SquaredExponential(lengthscale), jnp.ones(())).log_jacobian


def weighted_line_index(
    x: np.ndarray, weights: np.ndarray | None, shortest: float, min_size: int = 0
) -> LineIndex:
    """Prepare points that stand for more rows than there are points.

    Args:
        x: ascending (N,), not all equal.
        weights: number of rows that each stands for, (N,), see :func:`weighted_points`; ``None``
            for the rows themselves.
        shortest: lengthscale from which on they stand for the rows; below, terms may be NaN.
        min_size: minimum number of points to which they are padded.

    Raises:
        ValueError: for too many rows that are far nearer each other than the data are wide.
    """
    rows = column_rows(x, weights, min_size)
    # Rows that points stand for are too near each other for any bands.
    banded = longest_banded(x) if weights is None else 0.0
    long = long_lengthscales(x, weights, len(rows))
    longest = float(long.shortest)
    short = short_lengthscales(x, weights, len(rows), longest, max(banded, shortest))
    isolated = [isolated_in_column(x, [longest], weights=weights)]
    for length in short.shortest[short.shortest > 0.0]:
        isolated.append(isolated_in_column(x, [length], RANGE_FACTOR * length, weights))
    isolated += isolated[-1:] * (1 + len(short.shortest) - len(isolated))
    return LineIndex(rows, long, short, np.float64(banded), stack_ranges(isolated, len(rows)))


#: Nodes of a bin, and the rows of a bin up to which these are used themselves.
ORDER = 8
MAX_UNBINNED = 2 * ORDER
NODES, COEFFICIENTS = chebyshev(ORDER)


class WeightedPoints(NamedTuple):
    """Points that stand for n rows.

    Attributes:
        x: ascending, (N,).
        weights: (N,): a sum over the rows is one over these; they add up to n.
        nodes: indices of the nodes of each bin, (bins, ORDER).
        counts: number of rows that these stand for, (bins,); 0 where rows are used instead.
    """

    x: np.ndarray
    weights: np.ndarray
    nodes: np.ndarray
    counts: np.ndarray


def find_bins(x: np.ndarray, width: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the bin of every entry of ``x`` (n,), counted from 0 upward, and where in it, -1 to 1.

    Args:
        x: the rows, in the units of the bins.
        width: width of a bin; exact where it is a power of two.
    """
    scaled = x / width
    bins = np.floor(scaled)
    return bins.astype(np.int64), 2.0 * (scaled - bins) - 1.0


def bin_moments(index: np.ndarray, u: np.ndarray, count: int) -> np.ndarray:
    """Compute the sums over rows of T_0(u), ..., T_7(u) in each of ``count`` bins, (count, ORDER).

    Args:
        index: bin of each row, (n,).
        u: where in it, from -1 to 1, (n,).
        count: number of bins.
    """
    polynomials = chebyshev_polynomials(u, ORDER)
    return np.stack([np.bincount(index, p, minlength=count) for p in polynomials], axis=1)


def weighted_points(
    bins: np.ndarray, moments: np.ndarray, width: float, complete: np.ndarray, rows: np.ndarray
) -> WeightedPoints:
    """Return nodes of bins, and rows, as points in ascending order.

    Args:
        bins: ascending, (bins,).
        moments: of their rows, (bins, ORDER), see :func:`bin_moments`.
        width: width of a bin.
        complete: mask (bins,) of the bins all of whose rows are among ``rows``.
        rows: all rows that are not in the other bins, (k,).
    """
    at_nodes = (bins[~complete, None] + 0.5 + 0.5 * NODES) * width
    x = np.concatenate([at_nodes.ravel(), rows])
    weights = np.concatenate([(moments[~complete] @ COEFFICIENTS).ravel(), np.ones(len(rows))])
    order = np.argsort(x, kind="stable")
    index = np.argsort(order)[: at_nodes.size]
    nodes = np.zeros((len(bins), ORDER), dtype=np.int64)
    nodes[~complete] = index.reshape(-1, ORDER)
    return WeightedPoints(x[order], weights[order], nodes, np.where(complete, 0.0, moments[:, 0]))


def volume_errors(
    log_jacobian: jax.Array,
    nodes: jax.Array,
    counts: jax.Array,
    last: int = 2,
    error_if_undefined: float = 10.0,
) -> jax.Array:
    """Estimate the error of the volume term in every bin, (bins,), in nats.

    The coefficients of an interpolant decrease geometrically, the faster, the farther the next zero
    of mu_hat' is; the sum of those after the last ones is less than these while they halve.

    Args:
        log_jacobian: log gamma at the points, (N,).
        nodes: indices of the nodes of each bin, (bins, ORDER).
        counts: number of rows of each bin, (bins,).
        last: number of coefficients that are used.
        error_if_undefined: error of a row where they are not finite.
    """
    error = jnp.sum(jnp.abs(log_jacobian[nodes] @ COEFFICIENTS[-last:].T), axis=1)
    return counts * jnp.where(jnp.isfinite(error), error, error_if_undefined)
