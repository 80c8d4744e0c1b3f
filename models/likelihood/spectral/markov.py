"""One column of data, for Matern kernels: those of Markov processes, at every lengthscale alike."""

from __future__ import annotations

import dataclasses
import math
from typing import cast

import jax
import jax.numpy as jnp
import numpy as np

from ...kernels.base import Kernel
from ...kernels.matern import Matern
from ...linalg.pytrees import register_dataclass
from ...linalg.rows import PaddedRows
from ...measures import Measure
from ..base import LogLikelihoodTerms
from . import markov_filter
from .markov_sums import Side, pushforward
from .obstacle import order_of
from .prepared import SpectralIndex, SpectralParameters, at_zero, filled, line_rows

#: Fewer rows than this take a millisecond by matrices too.
LEAST_ROWS = 250
#: Noise variance over the trace of R below which the filter's rounding error is seen in the sixth
#: digit: 1e5 times what double precision tells apart.
LEAST_NOISE = 2e-11
#: Between rows that are no data: many times any lengthscale, and yet a number.
FAR = 1e200
#: Entries of a matrix that take as long as the filter does with a row.
ENTRIES_PER_ROW = 50


@register_dataclass
@dataclasses.dataclass(frozen=True)
class MarkovIndex(SpectralIndex):
    """The points of one column, ascending, and which lie to the left and to the right of each."""

    rows: PaddedRows
    left: Side
    right: Side

    @property
    def entries(self) -> int:
        """Numbers that one value goes through."""
        return ENTRIES_PER_ROW * len(self.rows)

    @property
    def shortest(self) -> float:
        """The lengthscale from which on no matrices are needed: all."""
        return 0.0

    def prepared_for(self, kernel: Kernel) -> bool:
        """Whether it is a Matern kernel."""
        return order_of(kernel) is not None

    def evaluated(self, parameters: SpectralParameters) -> LogLikelihoodTerms:
        """Both terms, by the filter where it resolves the noise."""
        kernel, noise_variance, measure, _ = parameters
        matern = cast(Matern, kernel)
        return cast(
            LogLikelihoodTerms,
            jax.lax.cond(
                self.resolves(matern, noise_variance, measure),
                lambda: self.summed(*self.terms(matern, noise_variance, measure)),
                lambda: self.by_matrices(parameters),
            ),
        )

    def resolves(self, kernel: Matern, noise_variance: jax.Array, measure: Measure) -> jax.Array:
        """Whether the noise is large enough beside R, ()."""
        return noise_variance > LEAST_NOISE * self.rows.number * at_zero(kernel, measure)

    def terms(
        self, kernel: Matern, noise_variance: jax.Array, measure: Measure
    ) -> tuple[jax.Array, jax.Array]:
        """The Gaussian term of BKE (13), a scalar, and log gamma at every point, (N,).

        Args:
            kernel: its lengthscale is a number.
            noise_variance: sigma^2.
            measure: :class:`~bke.models.Unit` or :class:`~bke.models.Lebesgue`.
        """
        rate = math.sqrt(2.0 * kernel.nu) / jnp.asarray(kernel.lengthscale)
        rows, n = self.rows, self.rows.number
        embedding, log_volume = pushforward(self.left, self.right, rate, kernel.nu, n)
        scale = at_zero(kernel, measure)
        noise = noise_variance / scale
        # R = scale R_1: the density of mu_hat / sqrt(scale), which has R_1.
        gaussian = markov_filter.log_density(
            rows.mask(embedding) / jnp.sqrt(scale),
            rate * self.left.gaps,
            noise,
            round(2.0 * kernel.nu + 1.0),
        )
        # Rows that are no data are 0 and far from all others.
        nothing = 0.5 * (len(rows) - n) * (jnp.log1p(noise) + math.log(2.0 * math.pi))
        return gaussian + nothing - 0.5 * n * jnp.log(scale), log_volume


def markov_index(X: np.ndarray) -> MarkovIndex:
    """Prepare (n, 1) data.

    Raises:
        ValueError: for fewer than 250 rows, or all equal ones.
    """
    x = np.sort(np.asarray(X, dtype=float)[:, 0])
    if not x[-1] > x[0]:
        raise ValueError("all rows are equal")
    if len(x) < LEAST_ROWS:
        raise ValueError(f"{len(x)} rows are too few")
    rows = line_rows(x)
    gaps = np.diff(x)
    more = [FAR] * (len(rows) - len(x))
    before = np.searchsorted(x, x) - 1
    after = np.searchsorted(x, x, side="right")
    beyond = np.concatenate([x, [np.inf, -np.inf]])  # ranks n and -1
    sides = [
        (np.concatenate([[0.0], gaps, more]), np.maximum(before, 0), x - beyond[before]),
        (np.concatenate([gaps, more, [0.0]]), np.minimum(after, len(x) - 1), beyond[after] - x),
    ]
    left, right = (
        Side(gap, *(filled(each, len(rows)) for each in neighbour)) for gap, *neighbour in sides
    )
    return MarkovIndex(rows, left, right)
