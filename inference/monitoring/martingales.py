"""Conformal test martingales: wealth of bets on the ranks of rows, one martingale for each score.

The p-value of a row is its rank among all rows up to and including it, with ties broken at random.
If these rows are exchangeable, the p-values of a score are independent and uniform, for any score
and any bins (Vovk, Gammerman and Shafer 2005, theorem 2). A betting function is a density on the
unit interval, so its product over rows is a martingale that starts at 1 (Vovk, Nouretdinov and
Gammerman 2003). The wealth of a score is a mixture over betting functions and over the rows at
which betting starts.

The wealth of each score is multiplied by a weight; the weights sum to 1. The probability that the
largest product ever reaches 1 / alpha is at most alpha. This follows from Ville's inequality for
each score and the union bound, and needs no common filtration.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.special import ndtri

from ..core.compilation import jit
from .scores import NUM_BINS

#: Number of steps of a betting function. A step function has a mean of exactly 1.
NUM_STEPS = 1024
#: Lower bound of betting functions: the smallest proportion of the wealth that one row leaves.
MIN_FACTOR = 0.05
#: Upper bound of the wealth. Truncation keeps a supermartingale, and numbers finite.
MAX_WEALTH = 1e30
#: Sizes of blocks of rows. A block is padded to one of them, so that two programs are compiled.
SMALL_BLOCK, LARGE_BLOCK = 32, 512


@functools.cache
def betting_functions() -> np.ndarray:
    """Compute the betting functions (NUM_STEPS, K) on a grid of p-values.

    They are likelihood ratios of N(shift, 1) and of N(0, factor^2) to N(0, 1) at the normal score
    of 1 - p, and cosines and sines of p for other deviations from uniformity.
    """
    pvalue = (np.arange(NUM_STEPS) + 0.5) / NUM_STEPS
    score = -ndtri(pvalue)
    log_ratios = [
        shift * score - 0.5 * shift**2 for size in (0.25, 0.6, 1.2, 2.5) for shift in (size, -size)
    ]
    log_ratios += [
        -0.5 * (1.0 / factor**2 - 1.0) * score**2 - math.log(factor)
        for factor in (0.5, 0.75, 1.35, 2.0)
    ]
    log_ratios += [
        np.log1p(amplitude * wave(4.0 * np.pi * pvalue))
        for wave in (np.cos, np.sin)
        for amplitude in (0.8, -0.8)
    ]
    result = np.exp(np.stack(log_ratios, axis=1))
    result /= result.mean(axis=0)
    return np.asarray(MIN_FACTOR + (1.0 - MIN_FACTOR) * result)


def uninvested(num_rows: np.ndarray, *, scale: float = 100.0) -> np.ndarray:
    """Compute the proportion of the initial wealth on which no bet has been placed after some rows.

    The investment is about even over the first ``scale`` rows. In row t it then decreases as
    1 / (t log(t)^2), so that a change has positive prior weight at any time.
    """
    return np.asarray(math.log(scale) / np.log(scale + num_rows))


class Martingales(NamedTuple):
    """Test martingales of J scores.

    Attributes:
        upper_counts: (J, NUM_BINS + 1), number of rows so far in each bin or a higher one.
        invested: (J, K), wealth of each betting function.
        num_bets: (J,), number of rows that have been bet on.
    """

    upper_counts: np.ndarray
    invested: np.ndarray
    num_bets: np.ndarray

    @classmethod
    def initialize(cls, counts: np.ndarray) -> Martingales:
        """Start with wealth 1 after rows with counts (J, NUM_BINS) per bin."""
        upper = np.cumsum(counts[:, ::-1], axis=1)[:, ::-1]
        upper = np.concatenate([upper, np.zeros((len(counts), 1), upper.dtype)], axis=1)
        invested = np.zeros((len(counts), betting_functions().shape[1]))
        return cls(upper.astype(np.int64), invested, np.zeros(len(counts), dtype=np.int64))

    def restart(self, scores: slice, counts: np.ndarray) -> Martingales:
        """Start the martingales of some scores again, with counts (j, NUM_BINS) of these scores."""
        arrays = [array.copy() for array in self]
        for array, initial in zip(arrays, Martingales.initialize(counts), strict=True):
            array[scores] = initial
        return Martingales(*arrays)

    def add_reference(self, counts: np.ndarray) -> Martingales:
        """Count rows of the reference, (J, NUM_BINS) per bin, without a bet."""
        added = Martingales.initialize(counts).upper_counts
        return self._replace(upper_counts=self.upper_counts + added)

    def update(self, bins: np.ndarray, uniform: np.ndarray) -> tuple[Martingales, np.ndarray]:
        """Bet on rows, one after the other.

        Args:
            bins: (n, J) bins of the scores.
            uniform: (n, J) uniform random numbers on [0, 1), which break ties.

        Returns:
            The martingales after all rows, and the wealth (n, J) after each row.
        """
        wealth, state = [np.empty((0, len(self.num_bets)))], self
        for start in range(0, len(bins), LARGE_BLOCK):
            block = bins[start : start + LARGE_BLOCK]
            rows = len(block)
            padding = ((0, (SMALL_BLOCK if rows <= SMALL_BLOCK else LARGE_BLOCK) - rows), (0, 0))
            num_bets = state.num_bets + np.arange(rows + 1)[:, np.newaxis]
            remaining = uninvested(num_bets)
            # Additions in 32 bits are faster.
            dtype = np.int32 if state.upper_counts.max(initial=0) < 2**30 else np.int64
            with jax.enable_x64(True):
                upper_counts, invested, invested_wealth = _compiled_scan()(
                    state.upper_counts.astype(dtype),
                    state.invested,
                    np.pad(block, padding).astype(np.int32),
                    np.pad(uniform[start : start + rows], padding),
                    np.pad(remaining[:-1] - remaining[1:], padding),
                    np.arange(sum(padding[0]) + rows) < rows,
                )
            counts = np.asarray(upper_counts, dtype=np.int64)
            state = Martingales(counts, np.asarray(invested), num_bets[-1])
            wealth.append(np.asarray(invested_wealth)[:rows] + remaining[1:])
        return state, np.concatenate(wealth)


@functools.cache
def _compiled_scan() -> Any:
    return jit(_scan_rows)


def _scan_rows(
    upper_counts: Array,
    invested: Array,
    bins: Array,
    uniform: Array,
    new_investment: Array,
    is_row: Array,
) -> tuple[Array, Array, Array]:
    """Rank rows and bet on each.

    Args:
        upper_counts: (J, NUM_BINS + 1), as of :class:`Martingales`.
        invested: (J, K), as of :class:`Martingales`.
        bins: (n, J) bins of the scores.
        uniform: (n, J) uniform random numbers, which break ties.
        new_investment: (n, J) proportion of the initial wealth that is invested before each row.
        is_row: (n,), false for padding.

    Returns:
        ``upper_counts`` and ``invested`` after all rows, and the invested wealth (n, J) after each.
    """
    table, bin_range = jnp.asarray(betting_functions()), jnp.arange(NUM_BINS + 1)
    scores = jnp.arange(bins.shape[1])

    def step(
        carry: tuple[Array, Array], row: tuple[Array, ...]
    ) -> tuple[tuple[Array, Array], Array]:
        (upper_counts, invested), (bins, uniform, new_investment, is_row) = carry, row
        above = upper_counts[scores, bins + 1]
        equal = upper_counts[scores, bins] - above
        pvalue = (above + uniform * (equal + 1)) / (upper_counts[:, 0] + 1)
        factors = table[(pvalue * NUM_STEPS).astype(jnp.int32)]
        wealth = (invested + new_investment[:, None] / table.shape[1]) * factors
        invested = jnp.where(is_row, jnp.minimum(wealth, MAX_WEALTH), invested)
        upper_counts = upper_counts + ((bin_range <= bins[:, None]) & is_row)
        return (upper_counts, invested), invested.sum(axis=1)

    (upper_counts, invested), wealth = jax.lax.scan(
        step, (upper_counts, invested), (bins, uniform, new_investment, is_row)
    )
    return upper_counts, invested, wealth


class WealthHistory(NamedTuple):
    """Wealth after every ``stride``-th row, in bounded memory.

    Attributes:
        wealth: (h,), after rows stride, 2 stride, ...: the largest over all scores, times weights.
        stride: number of rows between two values.
    """

    wealth: np.ndarray = np.empty(0)
    stride: int = 1

    @property
    def rows(self) -> np.ndarray:
        """Numbers of the rows (h,), counted from 1."""
        return self.stride * np.arange(1, len(self.wealth) + 1)

    def extend(self, num_rows: int, wealth: np.ndarray, *, max_length: int = 2048) -> WealthHistory:
        """Add the wealth (n,) after each of the rows that follow the first ``num_rows``."""
        is_selected = np.arange(num_rows + 1, num_rows + len(wealth) + 1) % self.stride == 0
        thinned, stride = np.concatenate([self.wealth, wealth[is_selected]]), self.stride
        while len(thinned) > max_length:
            thinned, stride = thinned[1::2], 2 * stride
        return WealthHistory(thinned, stride)
