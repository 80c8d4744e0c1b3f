"""One column of data, prepared for sums of waves over any range of lengthscales.

What a lengthscale needs, the number of waves and of cells, depends on it only through its ratio to
the extent of the data. Lengthscales are taken in ranges of a factor of 2.5, each with sizes fixed
when it is compiled: those of its shortest lengthscale.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from ..kernels import SquaredExponential
from ..kernels.base import Kernel
from .cells import TERMS, Cells, cells_over, evaluate, taylor, wave_sums, waves_over
from .gaussian import Spectra, basis, gaussian_term, on_waves, spectra
from .isolated import Isolated, isolated_points, with_isolated

#: Frequencies of mu_hat, in units of 1 / lengthscale: beyond, k has less than 1.5e-17 of its mass.
EMBEDDING_REACH = 8.8
#: Those of the Gaussian term, which is to be right beside sigma^2: k falls to 2e-11, r to 5e-22.
SMOOTHED_REACH = 7.0
#: Lengthscales between the data and their periodic copy: r falls to 1e-12 there, k to 1e-24.
GAP = 10.5
#: Extent of the data over the shortest lengthscale of the first range.
FIRST_RATIO = 45.0
RANGE_FACTOR = 2.5
CELLS_PER_LENGTHSCALE = 2
#: Basis functions of the Gaussian term beyond which the n x n matrix is as fast, and what a
#: likelihood should cost at most: seconds.
SHARE_OF_ROWS, MOST_WAVES = 0.5, 2400
#: A slope below this, over the sum of all waves' slopes, is rounding error: it is exactly zero, as
#: where the neighbours of a point balance.
RESOLUTION = 2.0**-50
#: Rows up to which a lengthscale too short for the waves goes to the n x n matrices.
MOST_DENSE = 5000
#: Gaps of the data are shortened to this many lengthscales: k is nothing beyond, and r 1e-22.
LONGEST_GAP = 14.0


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Range:
    """Lengthscales from ``shortest`` to 2.5 times that, or to infinity."""

    shortest: Any  # ()
    x: Any  # (n,), ascending, without the long gaps
    extent: Any  # (), of x
    cells: Cells
    isolated: Isolated
    embedding_waves: int = dataclasses.field(metadata={"static": True})
    smoothed_waves: int = dataclasses.field(metadata={"static": True})

    @property
    def basis_size(self) -> int:
        """Functions in the basis of the Gaussian term."""
        return 2 * self.smoothed_waves + 1

    def terms(
        self, kernel: SquaredExponential, noise_variance: jax.Array, measure: str
    ) -> tuple[jax.Array, jax.Array]:
        """The Gaussian term of BKE (13), a scalar, and log gamma at every point, (n,).

        Args:
            kernel: its lengthscale, a number, is in this range.
            noise_variance: sigma^2.
            measure: ``"unit"`` or ``"lebesgue"``.
        """
        lengthscale = jnp.asarray(kernel.lengthscale)
        n = len(self.x)
        # The sums do not depend on the spacing, up to their tolerance.
        spacing = jax.lax.stop_gradient(2.0 * math.pi / (self.extent + GAP * lengthscale))
        f, m = self.smoothed_waves, self.embedding_waves
        frequencies = spacing * jnp.arange(max(2 * f, m) + 1)
        around = waves_over(self.cells, spacing, max(2 * f, m))
        cosines, sines = wave_sums(self.cells, around, frequencies)
        log_kernel, log_smoothed = spectra(kernel, measure, frequencies[: m + 1])
        on_basis = Spectra(on_waves(log_kernel[: f + 1]), on_waves(log_smoothed[: f + 1]))
        products = basis(cosines[: 2 * f + 1], sines[: 2 * f + 1], spacing, n)
        gaussian = gaussian_term(on_basis, noise_variance, products)
        twice = jnp.where(jnp.arange(m + 1) > 0, 2.0, 1.0) * spacing / (2.0 * math.pi * n)
        a, b = (twice * jnp.exp(log_kernel) * sums[: m + 1] for sums in (cosines, sines))
        polynomials = taylor(self.cells, around.first(m), frequencies[: m + 1], a, b)
        slopes = evaluate(self.cells, polynomials, self.x)
        resolved = jnp.abs(slopes) > RESOLUTION * jnp.sum(frequencies[: m + 1] * jnp.hypot(a, b))
        log_volume = jnp.where(
            resolved, jnp.log(jnp.abs(jnp.where(resolved, slopes, 1.0))), -jnp.inf
        )
        return gaussian, with_isolated(log_volume, self.isolated, kernel)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class SpectralIndex:
    """The (n, 1) points, ascending, and the ranges of lengthscales from the longest down."""

    points: Any
    ranges: tuple[Range, ...]

    @property
    def entries(self) -> int:
        """Numbers that one value goes through, where all lengthscales are long."""
        return len(self.points) * TERMS + self.ranges[0].basis_size ** 2

    def takes(self, kernel: Kernel) -> bool:
        """Whether its lengthscale, a known number, is in a range, or the matrices can be taken."""
        lengthscale = cast(SquaredExponential, kernel).lengthscale
        known = bool(np.all(np.asarray(lengthscale) >= np.asarray(self.ranges[-1].shortest)))
        return known or len(self.points) <= MOST_DENSE

    def range_of(self, lengthscale: jax.Array) -> jax.Array:
        """Index of the range that holds ``lengthscale``; ``len(ranges)`` where none does."""
        shortest = jnp.stack([jnp.asarray(each.shortest) for each in self.ranges])
        return jnp.sum(lengthscale < shortest)


def spectral_index(X: np.ndarray) -> SpectralIndex:
    """Prepare (n, 1) data for every lengthscale whose waves cost less than the matrices would.

    Raises ``ValueError`` where no lengthscale's do: fewer than 250 rows, or all equal.
    """
    x = np.sort(np.asarray(X, dtype=float)[:, 0])
    extent = float(x[-1] - x[0])
    if not extent > 0.0:
        raise ValueError("all rows are equal")
    most_waves = min(SHARE_OF_ROWS * len(x), MOST_WAVES)
    ranges: list[Range] = []
    shortest = extent / FIRST_RATIO
    while (part := _range(x, shortest, bool(ranges))).basis_size <= most_waves:
        ranges.append(part)
        shortest = shortest / RANGE_FACTOR
    if not ranges:
        raise ValueError(f"{len(x)} rows are too few")
    return SpectralIndex(x[:, None], tuple(ranges))


def _range(x: np.ndarray, shortest: float, bounded: bool) -> Range:
    """Prepare the ascending ``x`` for lengthscales from ``shortest`` on."""
    longest = RANGE_FACTOR * shortest if bounded else math.inf
    moved = _without_gaps(x, LONGEST_GAP * longest)
    extent = float(moved[-1])
    ratio = _rounded_up(extent / shortest)
    embedding, smoothed = (
        math.ceil(reach * (ratio + GAP) / (2.0 * math.pi))
        for reach in (EMBEDDING_REACH, SMOOTHED_REACH)
    )
    count = math.ceil(CELLS_PER_LENGTHSCALE * ratio)
    return Range(
        np.float64(shortest),
        moved,
        np.float64(extent),
        cells_over(moved, shortest * ratio / count, count),
        isolated_points(x, shortest, longest),
        embedding,
        smoothed,
    )


def _without_gaps(x: np.ndarray, most: float) -> np.ndarray:
    """Ascending ``x`` from 0 on with every gap at most ``most``: what lay beyond still does."""
    return np.concatenate([[0.0], np.cumsum(np.minimum(np.diff(x), most))])


def _rounded_up(ratio: float) -> float:
    """To a step of half an octave from the first ratio: other sizes would compile anew."""
    steps = math.ceil(2.0 * math.log2(max(ratio, FIRST_RATIO) / FIRST_RATIO) - 1e-9)
    return FIRST_RATIO * 2.0 ** (0.5 * steps)
