"""Normal scores of columns, in which neither units nor heavy tails matter."""

from __future__ import annotations

import numpy as np
from scipy.stats import norm, rankdata


def normal_scores(rows: np.ndarray) -> np.ndarray:
    """The normal score of every value of (N, D) among its column, ties by their mean rank."""
    ranks = rankdata(rows, axis=0)
    scores = norm.ppf((ranks - 0.375) / (len(rows) + 0.25))
    deviation = scores.std(axis=0)
    return np.asarray(scores / np.where(deviation > 0.0, deviation, 1.0))
