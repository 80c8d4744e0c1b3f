"""What bets on the ranks of rows have won, a martingale for each score.

A row's p-value is its rank among all rows seen before and itself, ties broken at random. If these
are exchangeable p-values of one score are independent and uniform, whatever the score and however
coarse its bins (Vovk, Gammerman and Shafer 2005, theorem 2). A score's capital is a mixture over
bets on them and over the rows at which they begin. That the largest capital, times its score's
share of 1, ever reaches 1 / alpha has probability at most alpha: by Ville's inequality for each and
the sum of the shares for all, which need no common filtration.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..core.compilation import jit
from .bets import CELLS, bets, reserve
from .bins import BINS

#: Capital is cut here, which keeps it a supermartingale and numbers finite.
MOST = 1e30
#: Counts up to which 32 bits do.
ROOM = 2**30
#: Rows that are bet on in one go: as few as there are, or many.
FEW, MANY = 32, 512


class Capital(NamedTuple):
    """Martingales of J scores.

    Attributes:
        at_least: (J, BINS + 1), how many rows so far are in each bin or a higher one.
        staked: (J, K) in every bet.
        ages: (J,), how many rows each score has been bet on.
    """

    at_least: np.ndarray
    staked: np.ndarray
    ages: np.ndarray

    @classmethod
    def of(cls, counts: np.ndarray) -> Capital:
        """Start with 1 for each score, and rows that are only counted, (J, BINS) by their bins."""
        above = np.cumsum(counts[:, ::-1], axis=1)[:, ::-1]
        at_least = np.concatenate([above, np.zeros((len(counts), 1), above.dtype)], axis=1)
        staked = np.zeros((len(counts), bets().shape[1]))
        return cls(at_least.astype(np.int64), staked, np.zeros(len(counts), dtype=np.int64))

    def renewed(self, scores: slice, counts: np.ndarray) -> Capital:
        """Start some scores anew."""
        new = Capital.of(counts)
        parts = [one.copy() for one in self]
        for part, of in zip(parts, new, strict=True):
            part[scores] = of
        return Capital(*parts)

    def counted(self, counts: np.ndarray) -> Capital:
        """Add rows, (J, BINS) by their bins, that are only counted."""
        return self._replace(at_least=self.at_least + Capital.of(counts).at_least)

    def bet(self, bins: np.ndarray, uniform: np.ndarray) -> tuple[Capital, np.ndarray]:
        """Stake on rows, one after the other.

        Args:
            bins: (n, J) of their scores.
            uniform: (n, J) on [0, 1), which break ties.

        Returns:
            What is there afterwards, and the capital (n, J) after each row.
        """
        found, state = [], self
        for start in range(0, len(bins), MANY):
            rows = slice(start, min(start + MANY, len(bins)))
            state, won = state._bet(bins[rows], uniform[rows])
            found.append(won)
        return state, np.concatenate(found) if found else np.empty((0, len(self.ages)))

    def _bet(self, bins: np.ndarray, uniform: np.ndarray) -> tuple[Capital, np.ndarray]:
        rows = len(bins)
        padding = ((0, (FEW if rows <= FEW else MANY) - rows), (0, 0))
        ages = self.ages + np.arange(rows + 1)[:, np.newaxis]
        kept = reserve(ages)
        # Half as many bytes to add to, as long as they have room.
        of = np.int32 if self.at_least.max(initial=0) < ROOM else np.int64
        given = (
            self.at_least.astype(of),
            self.staked,
            np.pad(bins, padding).astype(np.int32),
            np.pad(uniform, padding),
            np.pad(kept[:-1] - kept[1:], padding),
            np.arange(sum(padding[0]) + rows) < rows,
        )
        with jax.enable_x64(True):
            at_least, staked, won = _program()(*given)
        after = Capital(np.asarray(at_least, dtype=np.int64), np.asarray(staked), ages[-1])
        return after, np.asarray(won)[:rows] + kept[1:]


@functools.cache
def _program() -> Any:
    """Compile bets on the rows of a block."""
    return jit(_bet_on_rows)


def _bet_on_rows(
    at_least: Array, staked: Array, bins: Array, uniform: Array, new: Array, there: Array
) -> tuple[Array, Array, Array]:
    """Rank and bet row by row: counts and stakes afterwards, and what is staked after each row."""
    table, places = jnp.asarray(bets()), jnp.arange(BINS + 1)
    scores = jnp.arange(bins.shape[1])

    def row(carry: tuple[Array, Array], of: tuple[Array, ...]) -> tuple[tuple[Array, Array], Array]:
        (at_least, staked), (bin_, uniform, new, there) = carry, of
        above = at_least[scores, bin_ + 1]
        equal = at_least[scores, bin_] - above
        pvalue = (above + uniform * (equal + 1)) / (at_least[:, 0] + 1)
        factors = table[(pvalue * CELLS).astype(jnp.int32)]
        after = jnp.minimum((staked + new[:, None] / table.shape[1]) * factors, MOST)
        staked = jnp.where(there, after, staked)
        at_least = at_least + ((places <= bin_[:, None]) & there)
        return (at_least, staked), staked.sum(axis=1)

    (at_least, staked), won = jax.lax.scan(row, (at_least, staked), (bins, uniform, new, there))
    return at_least, staked, won
