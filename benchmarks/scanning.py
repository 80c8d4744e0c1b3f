"""Multi-resolution scanning (Soriano and Ma, 2017): windows in which two samples split differently.

The implementation follows the paper and the documented defaults of its R package. The sample space
is halved recursively in every direction. In every window the rows of both samples fall into the
halves with one common probability (null) or with two (alternative), each Beta(1/2, 1/2). The states
of the windows are a Markov tree; a window in the third state, pruned, is null with all its
descendants.
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
        low, high: (D,), ends of the window.
        column: column in which the window is halved.
        sign: 1 if a larger proportion of P than of Q is in the lower half, else -1.
        probability: posterior probability of the alternative.
    """

    low: np.ndarray
    high: np.ndarray
    column: int
    sign: int
    probability: float


@dataclasses.dataclass
class Node:
    """Log likelihood of the rows of a window in each state, and its splits."""

    low: np.ndarray
    high: np.ndarray
    likelihood: np.ndarray  # (3,)
    of_column: np.ndarray  # (3, D), log likelihood if each column is halved
    children: list[tuple[tuple[int, ...], tuple[int, ...]]]
    counts: list[np.ndarray]  # for each column (2 samples, 2 halves)


def transitions(level: int) -> np.ndarray:
    """Return log probabilities (3, 3) of a window's state at a level, given its parent's state."""
    rows = []
    for decay in (2.0, CLUSTERING):
        other = CHANCE * decay**-level
        rows.append([(1.0 - PRUNING) * (1.0 - other), (1.0 - PRUNING) * other, PRUNING])
    return np.log([*rows, [1e-300, 1e-300, 1.0]])


def scan(P: np.ndarray, Q: np.ndarray, rate: float = 0.05) -> list[Window]:
    """Return the windows whose Bayesian false discovery rate is at most ``rate``."""
    rows = np.concatenate([P, Q])
    from_first = np.arange(len(rows)) < len(P)
    low, high = rows.min(axis=0), rows.max(axis=0)
    scaled = np.clip((rows - low) / np.where(high > low, high - low, 1.0), 0.0, 1.0 - 1e-9)
    nodes: dict[tuple[int, ...], Node] = {}
    root = (0,) * (2 * rows.shape[1])
    _likelihood(scaled, from_first, np.arange(len(rows)), root, nodes)
    windows = sorted(
        _posterior_windows(nodes, root, START, 0), key=lambda window: -window.probability
    )
    expected_false = np.cumsum([1.0 - window.probability for window in windows]) / (
        np.arange(len(windows)) + 1.0
    )
    selected = windows[: int(np.sum(expected_false <= rate))]
    return [
        dataclasses.replace(
            window, low=low + window.low * (high - low), high=low + window.high * (high - low)
        )
        for window in selected
    ]


def _likelihood(
    scaled: np.ndarray,
    from_first: np.ndarray,
    members: np.ndarray,
    key: tuple[int, ...],
    nodes: dict[tuple[int, ...], Node],
) -> np.ndarray:
    """Return the log likelihood (3,) of rows in a window.

    ``key`` has a level and an index per column.
    """
    if key in nodes:
        return nodes[key].likelihood
    dimension = scaled.shape[1]
    levels, indices = np.array(key[:dimension]), np.array(key[dimension:])
    level = int(levels.sum())
    volume = len(members) * level * np.log(2.0)
    if level > DEPTH or len(members) < 2:
        return np.full(3, volume)
    forward = transitions(level + 1)
    of_column, children, counts = np.empty((3, dimension)), [], []
    for column in range(dimension):
        upper = np.floor(scaled[members, column] * 2.0 ** (levels[column] + 1)).astype(int) % 2 == 1
        count = np.array(
            [
                [np.sum(from_first[members[~upper]]), np.sum(from_first[members[upper]])],
                [np.sum(~from_first[members[~upper]]), np.sum(~from_first[members[upper]])],
            ]
        )
        keys = []
        below = np.zeros(3)
        for side in (0, 1):
            level_of, index_of = levels.copy(), indices.copy()
            level_of[column] += 1
            index_of[column] = 2 * index_of[column] + side
            keys.append((*map(int, level_of), *map(int, index_of)))
            part = members[upper] if side else members[~upper]
            child_likelihood = _likelihood(scaled, from_first, part, keys[-1], nodes)
            below += logsumexp(forward + child_likelihood, axis=1)
        totals, split_counts = count.sum(axis=0), count + PSEUDO
        null = betaln(*(totals + PSEUDO)) - betaln(PSEUDO, PSEUDO)
        alternative = betaln(split_counts[:, 0], split_counts[:, 1]).sum() - 2.0 * betaln(
            PSEUDO, PSEUDO
        )
        of_column[:, column] = np.array([null, alternative, null]) + below
        children.append((keys[0], keys[1]))
        counts.append(count)
    likelihood = logsumexp(of_column, axis=1) - np.log(dimension)
    size = 0.5**levels
    nodes[key] = Node(indices * size, (indices + 1) * size, likelihood, of_column, children, counts)
    return likelihood


def _posterior_windows(
    nodes: dict[tuple[int, ...], Node], key: tuple[int, ...], prior: np.ndarray, level: int
) -> Iterator[Window]:
    """Yield windows with their posterior probabilities, along the most probable directions."""
    node = nodes.get(key)
    if node is None:
        return
    states = prior + node.likelihood
    states = states - logsumexp(states)
    column = int(np.argmax(logsumexp(states[:, None] + node.of_column, axis=0)))
    (first_low, first_high), (second_low, second_high) = node.counts[column]
    proportions = [(a + PSEUDO) / (a + b + 2.0 * PSEUDO)
              for a, b in ((first_low, first_high), (second_low, second_high))]  # fmt: skip
    sign = 1 if proportions[0] > proportions[1] else -1
    yield Window(node.low, node.high, column, sign, float(np.exp(states[OTHER])))
    forward = logsumexp(states[:, None] + transitions(level + 1), axis=0)
    for child in node.children[column]:
        yield from _posterior_windows(nodes, child, forward, level + 1)
