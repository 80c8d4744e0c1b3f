"""Greedy choices of draws: kernel herding, Stein thinning, and weights on the simplex."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

#: Steps of the conditional gradient, and the gap at which it stops, over the first one.
STEPS, GAP = 2000, 1e-6


def herded(column: Callable[[int], np.ndarray], means: np.ndarray, count: int) -> np.ndarray:
    """Choose draws one by one, each where the mean embedding of all is highest over that chosen.

    Kernel herding (Chen, Welling and Smola 2010), each draw once.

    Args:
        column: the kernel (n,) of all draws with one of them.
        means: (n,), the mean embedding of all at each of them.
        count: how many.
    """
    chosen, sums = np.empty(count, dtype=int), np.zeros(len(means))
    free = np.ones(len(means), dtype=bool)
    for index in range(count):
        height = np.where(free, means - sums / (index + 1.0), -np.inf)
        chosen[index] = best = int(np.argmax(height))
        free[best] = False
        sums += column(best)
    return chosen


def stein_thinned(
    column: Callable[[int], np.ndarray], diagonal: np.ndarray, count: int
) -> np.ndarray:
    """Choose draws one by one, each so that the Stein discrepancy is least (Riabiz et al. 2022).

    Args:
        column: Stein's kernel (n,) of all draws with one of them.
        diagonal: (n,), of each with itself.
        count: how many; a draw may come again.
    """
    chosen, height = np.empty(count, dtype=int), 0.5 * diagonal
    for index in range(count):
        chosen[index] = best = int(np.argmin(height))
        height = height + column(best)
    return chosen


def on_simplex(gram: np.ndarray, means: np.ndarray) -> np.ndarray:
    """The weights w >= 0 of sum one for which w'Kw - 2 w'means is least, by pairwise steps.

    The conditional gradient with pairwise steps moves mass from the worst draw that has some to the
    best one, and stops at a gap that bounds what is left to gain (Lacoste-Julien and Jaggi 2015).

    Args:
        gram: K (m, m).
        means: (m,), of the target at each draw.
    """
    w = np.full(len(means), 1.0 / len(means))
    moved, first = gram @ w, 0.0
    for _ in range(STEPS):
        slope = moved - means
        best = int(np.argmin(slope))
        worst = int(np.argmax(np.where(w > 0.0, slope, -np.inf)))
        gap = slope[worst] - slope[best]
        first = first or gap
        if gap <= GAP * first:
            break
        curvature = gram[best, best] + gram[worst, worst] - 2.0 * gram[best, worst]
        step = w[worst] if curvature <= 0.0 else min(w[worst], gap / curvature)
        w[best] += step
        w[worst] = max(w[worst] - step, 0.0)
        moved += step * (gram[:, best] - gram[:, worst])
    return w / w.sum()
