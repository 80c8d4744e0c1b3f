"""Adjusted p-values by relabellings: many statistics at one level, strong control of any error."""

from __future__ import annotations

import numpy as np

from .permutation import TIE


def step_down(statistics: np.ndarray) -> np.ndarray:
    """Adjust p-values (k,) of statistics for all of them (Westfall and Young 1993, algorithm 2.8).

    Each competes with those alone that are no more significant than it.

    Args:
        statistics: (k, 1 + B), of one scale, large where something differs; the observed first.
    """
    if not len(statistics):
        return np.empty(0)
    order = np.argsort(-statistics[:, 0], kind="stable")
    # The largest of each and of those less significant than it.
    rivals = np.maximum.accumulate(statistics[order[::-1]], axis=0)[::-1]
    observed = statistics[order, 0]
    least = observed - TIE * np.abs(observed)
    raw = np.mean(rivals >= least[:, None], axis=1)
    adjusted = np.empty(len(order))
    adjusted[order] = np.maximum.accumulate(raw)
    return adjusted
