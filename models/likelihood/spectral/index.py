"""One column of data, prepared for any lengthscale.

What a lengthscale needs, the size of a basis or of a grid, depends on it only through its ratio to
the extent of the data. Long ones take waves, whose number does not grow with the lengthscale. Below
these lie ranges of a factor of two, each with a grid of its own, down to where every point has few
others near, or the n x n matrices cost less, or, for many points, where there would be more grid
than anybody waits for.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from ...kernels.base import Kernel
from ...kernels.squared_exponential import SquaredExponential
from ...linalg.pytrees import register_dataclass
from ...linalg.rows import PaddedRows
from ...measures import Measure, Unit
from ..base import LogLikelihoodTerms
from . import bumps
from .balanced import with_balanced
from .banded import VeryShortLengthscales, very_short
from .cells import TERMS, Cells, cells_over, evaluate, taylor, wave_sums, waves_over
from .gaussian import Spectra, basis, gaussian_term, on_waves, spectra
from .isolated import Isolated, isolated_points, stacked, with_isolated
from .obstacle import has_one, order_of, unscaled
from .prepared import (
    MOST_DENSE,
    RESOLUTION,
    SpectralIndex,
    SpectralParameters,
    at_zero,
    filled,
    line_rows,
)

#: Frequencies of mu_hat, in units of 1 / lengthscale: beyond, k has less than 1.5e-17 of its mass.
EMBEDDING_REACH = 8.8
#: Those of the Gaussian term, which is to be right beside sigma^2: k falls to 2e-11, r to 5e-22.
SMOOTHED_REACH = 7.0
#: Lengthscales between the data and their periodic copy: r falls to 1e-12 there, k to 1e-24.
GAP = 10.5
#: Extent of the data over the shortest lengthscale that waves are taken for. Their basis then has
#: 125 functions; below, a pass over the grid takes less time.
WAVES_RATIO = 45.0
WAVE_CELLS_PER_LENGTHSCALE = 2
#: Fewer rows than this are as fast by matrices at every lengthscale.
LEAST_ROWS = 250
#: Of a range of lengthscales: the longest over the shortest.
RANGE_FACTOR = 2.0
#: Blocks of a grid at most: beyond these rows; up to them, where such short lengthscales are rare
#: and every range takes time to prepare; and how many cost as much as the matrices of 600 rows.
MOST_BLOCKS, MOST_BESIDE_DENSE, AS_600_ROWS = 3000, 400, 80
#: There is room for a multiple of this many ranges; and how many there are at most, where the data
#: are so far apart that shorter lengthscales need no more grid.
RANGES, MOST_RANGES = 4, 24
#: Noise variance over the trace of R below which the grids' difference of two quadratic forms over
#: the noise is worth less than seven digits.
NOISE_ON_GRIDS = 1e-9
#: Gaps of the data are shortened to this many lengthscales: k is nothing beyond, and r 5e-22.
LONGEST_GAP = 14.0

Terms = tuple[jax.Array, jax.Array]


class LineSums(NamedTuple):
    """What sums over one column give at one lengthscale."""

    gaussian: jax.Array  # (), the Gaussian term of BKE (13)
    slopes: jax.Array  # (N,), of mu_hat at the points
    sizes: jax.Array  # (N,), of the terms that a slope is a sum of
    x: jax.Array  # (N,), the points; what is farther apart than anything matters may be nearer


@register_dataclass
@dataclasses.dataclass(frozen=True)
class LongLengthscales:
    """Waves, for the ``shortest`` lengthscale and all above."""

    shortest: Any  # ()
    x: Any  # (N,), ascending from 0, the last ones no data
    extent: Any  # (), of x
    cells: Cells
    embedding_waves: int = dataclasses.field(metadata={"static": True})
    smoothed_waves: int = dataclasses.field(metadata={"static": True})

    @property
    def basis_size(self) -> int:
        """Functions in the basis of the Gaussian term."""
        return 2 * self.smoothed_waves + 1

    def sums(
        self,
        n: jax.Array,
        kernel: SquaredExponential,
        noise_variance: jax.Array,
        measure: Measure,
        log_amplitude: jax.Array | None = None,
    ) -> LineSums:
        """Sums over ``n`` points; the other arguments are those of :meth:`LineIndex.terms`."""
        lengthscale = jnp.asarray(kernel.lengthscale)
        # The sums do not depend on the spacing, up to their tolerance.
        spacing = jax.lax.stop_gradient(2.0 * math.pi / (self.extent + GAP * lengthscale))
        f, m = self.smoothed_waves, self.embedding_waves
        frequencies = spacing * jnp.arange(max(2 * f, m) + 1)
        around = waves_over(self.cells, spacing, max(2 * f, m))
        cosines, sines = wave_sums(self.cells, around, frequencies)
        log_kernel, log_smoothed = spectra(kernel, measure, frequencies[: m + 1])
        on_basis = Spectra(on_waves(log_kernel[: f + 1]), on_waves(log_smoothed[: f + 1]))
        if log_amplitude is not None:
            on_basis = on_basis._replace(log_kernel=on_basis.log_kernel + log_amplitude)
        products = basis(cosines[: 2 * f + 1], sines[: 2 * f + 1], spacing, n)
        gaussian = gaussian_term(on_basis, noise_variance, products)
        twice = jnp.where(jnp.arange(m + 1) > 0, 2.0, 1.0) * spacing / (2.0 * math.pi * n)
        a, b = (twice * jnp.exp(log_kernel) * sums[: m + 1] for sums in (cosines, sines))
        polynomials = taylor(self.cells, around.first(m), frequencies[: m + 1], a, b)
        slopes = evaluate(self.cells, polynomials, self.x)
        size = jnp.sum(frequencies[: m + 1] * jnp.hypot(a, b))
        return LineSums(gaussian, slopes, jnp.full_like(slopes, size), self.x)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class ShortLengthscales:
    """Ranges of lengthscales from the longest down, each of a factor of two: grids."""

    shortest: Any  # (ranges,); -1 for those that are room only
    scaled: Any  # (ranges, N), the points in cells, ascending from 0, without the long gaps
    first: Any  # (ranges,), of the blocks of cells
    count: Any  # (ranges,), of these
    cells: bumps.Cells

    def range_of(self, lengthscale: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Which holds the ``lengthscale``, and whether one does."""
        which = jnp.sum(lengthscale < self.shortest)
        return which, which < jnp.sum(self.shortest > 0.0)

    def sums(
        self,
        n: jax.Array,
        kernel: SquaredExponential,
        noise_variance: jax.Array,
        measure: Measure,
        log_amplitude: jax.Array | None = None,
    ) -> LineSums:
        """Sums over ``n`` points, for a lengthscale in one of the ranges."""
        lengthscale = jnp.asarray(kernel.lengthscale)
        which, _ = self.range_of(lengthscale)
        width = 0.5 * self.shortest[which]
        first, count = self.first[which], self.count[which]
        rules = bumps.rules(lengthscale, width, n, measure)
        found = bumps.pass_over(self.cells, first, count, rules, noise_variance)
        quadratic = (found.square - found.explained) / noise_variance
        if log_amplitude is not None:
            quadratic = quadratic * jnp.exp(2.0 * log_amplitude)
        # Points of the grid beyond those of the data, whose pivot is the noise, and the reverse.
        more = n - bumps.unknowns(count)
        log_determinant = found.log_determinant + more * jnp.log(noise_variance)
        gaussian = -0.5 * (quadratic + log_determinant + n * math.log(2.0 * math.pi))
        slopes, sizes = bumps.slopes_at(found, self.cells, first, self.scaled[which])
        return LineSums(gaussian, slopes, sizes, width * self.scaled[which])


@register_dataclass
@dataclasses.dataclass(frozen=True)
class LineIndex(SpectralIndex):
    """The points of one column, ascending, and what they need at every lengthscale."""

    rows: PaddedRows
    long: LongLengthscales
    short: ShortLengthscales
    very_short: VeryShortLengthscales
    isolated: Isolated  # of the long ones and of every range of short ones

    @property
    def entries(self) -> int:
        """Numbers that one value goes through, where all lengthscales are long."""
        return len(self.rows) * TERMS + self.long.basis_size**2

    @property
    def shortest(self) -> float:
        """The lengthscale from which on no matrices are needed."""
        each = np.asarray(self.short.shortest)
        shortest = float(each[each > 0.0].min())
        return 0.0 if self.very_short.longest >= shortest else shortest

    @property
    def refused(self) -> str:
        """The lengthscales that go to the matrices, in words."""
        longest = float(self.very_short.longest)
        return f"between {longest:.3g} and {self.shortest:.3g}" if longest else super().refused

    def takes(self, kernel: Kernel) -> bool:
        """Whether its lengthscale, a known number, is long or very short, or matrices are taken."""
        return bool(self.shortest_of(kernel) <= self.very_short.longest) or super().takes(kernel)

    def prepared_for(self, kernel: Kernel) -> bool:
        """Whether it is a squared exponential, times a number or not."""
        return order_of(kernel) is None and has_one(kernel)

    def evaluated(self, parameters: SpectralParameters) -> LogLikelihoodTerms:
        """Both terms, by the way that takes the lengthscale."""
        one, noise_variance, measure, log_amplitude = parameters
        kernel = cast(SquaredExponential, one)
        given = kernel, noise_variance, measure, log_amplitude

        def by_sums() -> LogLikelihoodTerms:
            return self.summed(*self.terms(*given))

        def by_bands() -> LogLikelihoodTerms:
            return self.summed(*self.very_short.terms(self.rows, *given))

        def by_matrices() -> LogLikelihoodTerms:
            return self.by_matrices(parameters)

        which = self.route_of(kernel, noise_variance, measure)
        ways = [by_sums, by_bands, by_matrices]
        return cast(LogLikelihoodTerms, jax.lax.switch(which, ways))

    def route_of(
        self, kernel: SquaredExponential, noise_variance: jax.Array, measure: Measure
    ) -> jax.Array:
        """Which takes the kernel with this noise, (): 0 waves or grids, 1 bands, 2 neither."""
        lengthscale = jnp.asarray(kernel.lengthscale)
        _, known = self.short.range_of(lengthscale)
        known &= noise_variance > NOISE_ON_GRIDS * self.rows.number * at_zero(kernel, measure)
        known |= lengthscale >= self.long.shortest
        return jnp.where(lengthscale <= self.very_short.longest, 1, jnp.where(known, 0, 2))

    def terms(
        self,
        kernel: SquaredExponential,
        noise_variance: jax.Array,
        measure: Measure,
        log_amplitude: jax.Array | None = None,
    ) -> Terms:
        """The Gaussian term of BKE (13), a scalar, and log gamma at every point, (N,).

        Args:
            kernel: its lengthscale is a number.
            noise_variance: sigma^2.
            measure: :class:`~bke.models.Unit` or :class:`~bke.models.Lebesgue`.
            log_amplitude: log of a number that mu_hat in the Gaussian term is multiplied by.
        """
        n, lengthscale = self.rows.number, jnp.asarray(kernel.lengthscale)
        given = n, kernel, noise_variance, measure, log_amplitude
        long = lengthscale >= self.long.shortest
        found = jax.lax.cond(long, lambda: self.long.sums(*given), lambda: self.short.sums(*given))
        slopes, sizes = found.slopes, found.sizes
        resolved = jnp.abs(slopes) > RESOLUTION * sizes
        log_size = jnp.log(jnp.abs(jnp.where(resolved, slopes, 1.0)))
        log_volume = jnp.where(resolved, log_size, -jnp.inf)
        log_volume = with_balanced(log_volume, slopes, sizes, found.x, self.rows, kernel)
        which = jnp.where(long, 0, 1 + self.short.range_of(lengthscale)[0])
        isolated = jax.tree.map(lambda each: each[which], self.isolated)
        return found.gaussian, with_isolated(log_volume, n, isolated, kernel)

    def log_volume(self, kernel: Kernel) -> jax.Array:
        """Log gamma at every point, (N,), by sums, for a kernel that they are prepared for."""
        plain = cast(SquaredExponential, unscaled(kernel)[0])
        one = SquaredExponential(jnp.asarray(plain.lengthscale).reshape(()))
        return self.terms(one, jnp.ones(()), Unit())[1]


def line_index(X: np.ndarray) -> LineIndex:
    """Prepare (n, 1) data.

    Raises:
        ValueError: for fewer than 250 rows, all equal ones, or more than can be prepared that are
            far nearer each other than the data are wide.
    """
    x = np.sort(np.asarray(X, dtype=float)[:, 0])
    if not x[-1] > x[0]:
        raise ValueError("all rows are equal")
    if len(x) < LEAST_ROWS:
        raise ValueError(f"{len(x)} rows are too few")
    return _prepared(x, None, 0.0)


def weighted_line_index(
    x: np.ndarray, weights: np.ndarray, shortest: float, room: int = 0
) -> LineIndex:
    """Prepare points that stand for more rows than there are of them.

    Args:
        x: ascending (N,), not all equal.
        weights: (N,), for how many rows each stands, as :mod:`.bins` makes them.
        shortest: lengthscale that they stand for the rows at; below, terms may be NaN.
        room: for how many points there is room at least.

    Raises:
        ValueError: for more rows than can be prepared that are far nearer each other than the data
            are wide.
    """
    return _prepared(x, weights, shortest, room)


def _prepared(x: np.ndarray, weights: np.ndarray | None, least: float, room: int = 0) -> LineIndex:
    rows = line_rows(x, weights, room)
    long = _long(x, weights, len(rows))
    bands = very_short(x, weights)
    short, isolated = _short(x, weights, len(rows), max(float(bands.longest), least))
    isolated = [isolated_points(x, float(long.shortest), math.inf, weights), *isolated]
    return LineIndex(rows, long, short, bands, stacked(isolated, len(rows)))


def _long(x: np.ndarray, weights: np.ndarray | None, size: int) -> LongLengthscales:
    extent = float(x[-1] - x[0])
    shortest = extent / WAVES_RATIO
    embedding, smoothed = (
        math.ceil(reach * (WAVES_RATIO + GAP) / (2.0 * math.pi))
        for reach in (EMBEDDING_REACH, SMOOTHED_REACH)
    )
    cells = math.ceil(WAVE_CELLS_PER_LENGTHSCALE * WAVES_RATIO)
    return LongLengthscales(
        np.float64(shortest),
        filled(x - x[0], size),
        np.float64(extent),
        cells_over(x - x[0], extent / cells, cells, weights),
        embedding,
        smoothed,
    )


def _short(
    x: np.ndarray, weights: np.ndarray | None, size: int, least: float
) -> tuple[ShortLengthscales, list[Isolated]]:
    """Down to the ``least`` lengthscale, or to where there would be too much grid."""
    most = MOST_BLOCKS
    if size <= MOST_DENSE:
        most = int(min(MOST_BESIDE_DENSE, AS_600_ROWS * (size / 600) ** 3))
    longest = float(x[-1] - x[0]) / WAVES_RATIO
    shortest: list[float] = []
    scaled, isolated = [], []
    while len(shortest) < MOST_RANGES and not (shortest and longest <= least):
        below = longest / RANGE_FACTOR
        near = _without_gaps(x, LONGEST_GAP * longest) / (0.5 * below)
        if shortest and bumps.blocks_of(near) > most:
            break
        shortest.append(below)
        scaled.append(near)
        isolated.append(isolated_points(x, below, longest, weights))
        longest = below
    cells, first, count = bumps.cells_of(scaled, most, size, weights)
    # Filled up to sizes that most data share: others would compile anew.
    more = -len(shortest) % RANGES
    room = [0] * more
    found = ShortLengthscales(
        np.array(shortest + [-1.0] * more),
        filled(np.stack(scaled + scaled[-1:] * more, axis=1), size).T,
        np.append(first, room).astype(int),
        np.append(count, room).astype(int),
        cells,
    )
    return found, isolated + isolated[-1:] * more


def _without_gaps(x: np.ndarray, most: float) -> np.ndarray:
    """Ascending ``x`` from 0 on with every gap at most ``most``: what lay beyond still does."""
    return np.concatenate([[0.0], np.cumsum(np.minimum(np.diff(x), most))])
