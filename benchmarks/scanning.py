"""Multi-resolution scanning (Soriano and Ma, 2017): windows in which two samples split differently.

Written from the paper and the documented defaults of its R package: the sample space is halved
again and again in every direction; at every window rows of both samples fall into the halves by one
probability (null) or by two (alternative), each Beta(1/2, 1/2); the states of windows are a Markov
tree, whose third state, pruned, is null with all that is inside.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
from scipy.special import betaln, logsumexp

DEPTH, PSEUDO = 6, 0.5
START = np.log([0.8, 0.2, 1e-300])
NULL, OTHER, PRUNED = range(3)
CLUSTERING, CHANCE, PRUNING = 1.0, 0.3, 0.3


@dataclasses.dataclass(frozen=True)
class Window:
    """A window that splits differently.

    Attributes:
        low, high: (D,), its ends.
        column: in which it is halved.
        sign: 1 where more of P than of Q are in the lower half.
        probability: that it splits differently.
    """

    low: np.ndarray
    high: np.ndarray
    column: int
    sign: int
    probability: float


@dataclasses.dataclass
class Node:
    """What is computed of a window: log likelihood of its rows in each state, and its splits."""

    low: np.ndarray
    high: np.ndarray
    likelihood: np.ndarray  # (3,)
    of_column: np.ndarray  # (3, D), with each column halved
    halves: list[tuple[tuple[int, ...], tuple[int, ...]]]
    counts: list[np.ndarray]  # for each column (2 samples, 2 halves)


def transitions(level: int) -> np.ndarray:
    """Log probabilities (3, 3) of a window's state at a level, given that of its parent."""
    rows = []
    for decay in (2.0, CLUSTERING):
        other = CHANCE * decay**-level
        rows.append([(1.0 - PRUNING) * (1.0 - other), (1.0 - PRUNING) * other, PRUNING])
    return np.log([*rows, [1e-300, 1e-300, 1.0]])


def scan(P: np.ndarray, Q: np.ndarray, rate: float = 0.05) -> list[Window]:
    """The windows whose Bayesian false discovery rate is at most ``rate``."""
    rows = np.concatenate([P, Q])
    of_first = np.arange(len(rows)) < len(P)
    low, high = rows.min(axis=0), rows.max(axis=0)
    unit = np.clip((rows - low) / np.where(high > low, high - low, 1.0), 0.0, 1.0 - 1e-9)
    nodes: dict[tuple[int, ...], Node] = {}
    root = (0,) * (2 * rows.shape[1])
    _likelihood(unit, of_first, np.arange(len(rows)), root, nodes)
    found = sorted(_followed(nodes, root, START, 0), key=lambda one: -one.probability)
    wrong = np.cumsum([1.0 - one.probability for one in found]) / (np.arange(len(found)) + 1.0)
    named = found[: int(np.sum(wrong <= rate))]
    return [
        dataclasses.replace(
            one, low=low + one.low * (high - low), high=low + one.high * (high - low)
        )
        for one in named
    ]


def _likelihood(
    unit: np.ndarray,
    of_first: np.ndarray,
    mine: np.ndarray,
    key: tuple[int, ...],
    nodes: dict[tuple[int, ...], Node],
) -> np.ndarray:
    """The log likelihood (3,) of rows in a window; ``key`` has a level and an index per column."""
    if key in nodes:
        return nodes[key].likelihood
    dimension = unit.shape[1]
    levels, indices = np.array(key[:dimension]), np.array(key[dimension:])
    level = int(levels.sum())
    volume = len(mine) * level * np.log(2.0)
    if level > DEPTH or len(mine) < 2:
        return np.full(3, volume)
    forward = transitions(level + 1)
    of_column, halves, counts = np.empty((3, dimension)), [], []
    for column in range(dimension):
        upper = np.floor(unit[mine, column] * 2.0 ** (levels[column] + 1)).astype(int) % 2 == 1
        count = np.array(
            [
                [np.sum(of_first[mine[~upper]]), np.sum(of_first[mine[upper]])],
                [np.sum(~of_first[mine[~upper]]), np.sum(~of_first[mine[upper]])],
            ]
        )
        keys = []
        below = np.zeros(3)
        for side in (0, 1):
            level_of, index_of = levels.copy(), indices.copy()
            level_of[column] += 1
            index_of[column] = 2 * index_of[column] + side
            keys.append((*map(int, level_of), *map(int, index_of)))
            part = mine[upper] if side else mine[~upper]
            own = _likelihood(unit, of_first, part, keys[-1], nodes)
            below += logsumexp(forward + own, axis=1)
        together, apart = count.sum(axis=0), count + PSEUDO
        one = betaln(*(together + PSEUDO)) - betaln(PSEUDO, PSEUDO)
        two = betaln(apart[:, 0], apart[:, 1]).sum() - 2.0 * betaln(PSEUDO, PSEUDO)
        of_column[:, column] = np.array([one, two, one]) + below
        halves.append((keys[0], keys[1]))
        counts.append(count)
    likelihood = logsumexp(of_column, axis=1) - np.log(dimension)
    size = 0.5**levels
    nodes[key] = Node(indices * size, (indices + 1) * size, likelihood, of_column, halves, counts)
    return likelihood


def _followed(
    nodes: dict[tuple[int, ...], Node], key: tuple[int, ...], prior: np.ndarray, level: int
) -> Iterator[Window]:
    """Windows with their posterior probabilities, along the most probable directions."""
    node = nodes.get(key)
    if node is None:
        return
    states = prior + node.likelihood
    states = states - logsumexp(states)
    column = int(np.argmax(logsumexp(states[:, None] + node.of_column, axis=0)))
    (first_low, first_high), (second_low, second_high) = node.counts[column]
    shares = [(a + PSEUDO) / (a + b + 2.0 * PSEUDO)
              for a, b in ((first_low, first_high), (second_low, second_high))]  # fmt: skip
    sign = 1 if shares[0] > shares[1] else -1
    yield Window(node.low, node.high, column, sign, float(np.exp(states[OTHER])))
    forward = logsumexp(states[:, None] + transitions(level + 1), axis=0)
    for child in node.halves[column]:
        yield from _followed(nodes, child, forward, level + 1)
