"""Witnesses of how the stream's last rows differ from the reference, watched on the rows to come.

A witness is learned from rows before it is bet on and from rows of the reference that are not
ranked, at rows that are fixed beforehand; so it is one more score, chosen before it sees a row.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.spatial.distance import cdist

from .bins import binned, counts_of, edges_of
from .scores import LEARNED, row_sums

#: Rows between two generations of witnesses: at least so many, or this share of all rows.
SPACING, SHARE = 500, 0.05
#: Rows from which a witness is learned, at most, and landmarks of its kernel.
WINDOW, LANDMARKS = 1000, 128
#: The kernel's lengthscale as a share of the median distance, and the noise of a label.
NEAR, NOISE = 0.5, 3.0
#: Generations that are watched at a time, and witnesses of each: of a kernel, and of means.
ALIVE, EACH = 2, 2
SLOTS = ALIVE * EACH


class Witnesses(NamedTuple):
    """Witnesses in slots, those of a generation beside each other.

    Attributes:
        landmarks: (ALIVE, LANDMARKS, d).
        weights: (ALIVE, LANDMARKS), of the kernel at each landmark.
        slopes: (ALIVE, d), of positions.
        edges: (SLOTS, BINS - 1) of bins.
        shares: (SLOTS,) of the alarm's level, 0 of a slot that is empty.
        scale: the kernel's lengthscale.
        generation: how many there have been.
        next_at: the row after which the next is learned.
    """

    landmarks: np.ndarray
    weights: np.ndarray
    slopes: np.ndarray
    edges: np.ndarray
    shares: np.ndarray
    scale: float
    generation: int = 0
    next_at: int = SPACING

    @classmethod
    def of(cls, dimension: int, scale: float, bins: int) -> Witnesses:
        """Begin with none, for positions (n, dimension)."""
        return cls(
            np.zeros((ALIVE, LANDMARKS, dimension)),
            np.zeros((ALIVE, LANDMARKS)),
            np.zeros((ALIVE, dimension)),
            np.full((SLOTS, bins - 1), np.inf, dtype=np.float32),
            np.zeros(SLOTS),
            NEAR * scale,
        )

    def at(self, positions: np.ndarray) -> np.ndarray:
        """The scores (n, SLOTS) of rows at positions (n, d), in single precision."""
        found = np.zeros((len(positions), SLOTS), dtype=np.float32)
        for one in range(min(self.generation, ALIVE)):
            kernel = _kernel(positions, self.landmarks[one], self.scale)
            found[:, EACH * one] = row_sums(kernel * self.weights[one])
            found[:, EACH * one + 1] = row_sums(positions * self.slopes[one])
        return found

    @property
    def window(self) -> int:
        """How many of the last rows the next generation is learned from."""
        return min(WINDOW, self.next_at - self.born)

    @property
    def born(self) -> int:
        """The row after which the youngest generation was learned."""
        return _born(self.generation)

    def learned_from(self, slot: int) -> tuple[int, int]:
        """The last row that the witness in a slot was learned from, and how many there were."""
        back = (self.generation - 1 - slot // EACH) % ALIVE
        last, before = _born(self.generation - back), _born(self.generation - back - 1)
        return last, min(WINDOW, last - before)

    @property
    def youngest(self) -> slice:
        """The slots of the youngest generation."""
        slot = (self.generation - 1) % ALIVE * EACH
        return slice(slot, slot + EACH)

    def renewed(
        self, recent: np.ndarray, apart: np.ndarray, ranked: np.ndarray, rng: np.random.Generator
    ) -> tuple[Witnesses, np.ndarray]:
        """Learn the next generation in place of the oldest.

        Args:
            recent: positions (m, d) of the last rows of the stream.
            apart: (n, d), of rows of the reference that are not ranked.
            ranked: (r, d), of rows of the reference that are.
            rng: of the choice of landmarks.

        Returns:
            The witnesses, and how many of the ranked rows are in the bins of the new ones.
        """
        one, generation = self.generation % ALIVE, self.generation + 1
        slots = slice(one * EACH, (one + 1) * EACH)
        landmarks, weights = _fitted(recent, apart, self.scale, rng)
        slopes = recent.mean(axis=0) - apart.mean(axis=0)
        new = self._replace(
            landmarks=_with(self.landmarks, one, landmarks),
            weights=_with(self.weights, one, weights),
            slopes=_with(self.slopes, one, slopes),
            generation=generation,
            next_at=_born(generation + 1),
        )
        edges = edges_of(new.at(apart)[:, slots])
        share = LEARNED / EACH * 6.0 / (math.pi * generation) ** 2
        counts = counts_of(binned(new.at(ranked)[:, slots], edges))
        return new._replace(
            edges=_with(self.edges, slots, edges), shares=_with(self.shares, slots, share)
        ), counts


def _born(generation: int) -> int:
    """The row after which a generation is learned; 0 of none."""
    row = 0
    for _ in range(generation):
        row += max(SPACING, int(SHARE * row))
    return row


def _with(array: np.ndarray, at: int | slice, values: np.ndarray | float) -> np.ndarray:
    changed = array.copy()
    changed[at] = values
    return changed


def _kernel(positions: np.ndarray, landmarks: np.ndarray, scale: float) -> np.ndarray:
    return np.asarray(np.exp(-0.5 * cdist(positions, landmarks, "sqeuclidean") / scale**2))


def _fitted(
    recent: np.ndarray, apart: np.ndarray, scale: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Landmarks (LANDMARKS, d) and weights (LANDMARKS,): labels of rows by a Gaussian process.

    The posterior mean of the tilt (``bke.inference.comparison``) with rows of both at landmarks
    alone, and a kernel and a noise that are not learned.
    """
    some = [rows[rng.permutation(len(rows))[: LANDMARKS // 2]] for rows in (recent, apart)]
    landmarks = np.concatenate(some)
    rows = np.concatenate([recent, apart])
    labels = np.repeat([1.0, -1.0], [len(recent), len(apart)])
    kernel = _kernel(rows, landmarks, scale)
    kernel -= kernel.mean(axis=0)
    normal = kernel.T @ kernel + NOISE * _kernel(landmarks, landmarks, scale)
    normal += 1e-8 * np.trace(normal) / len(normal) * np.eye(len(normal))
    weights = cho_solve(cho_factor(normal), kernel.T @ (labels - labels.mean()))
    padding = LANDMARKS - len(landmarks)
    return np.pad(landmarks, ((0, padding), (0, 0))), np.pad(weights, (0, padding))
