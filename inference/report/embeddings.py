"""Embeddings in words and as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from bke.models.embeddings.embedding import Embedding

from ..filtering import SMALLEST_WEIGHT_SUM

#: Rows that are named in a sentence.
MOST_NAMED = 10


def far_rows_notes(total: np.ndarray, what: str) -> list[str]:
    """Which sums of weights (m,) are unusual, in a sentence; ``what`` a row is."""
    low, high = 0.8, 1.2
    far = np.flatnonzero((total < low) | (total > high)) + 1
    if len(far) == 0:
        return []
    return [
        f"{rows_in_words(far, what)} far from the training pairs, for the weights sum to less than "
        f"{low:g} or more than {high:g}: do not rely on what is told there. Below "
        f"{SMALLEST_WEIGHT_SUM:g} nothing is."
    ]


def rows_in_words(rows: np.ndarray, what: str) -> str:
    """``Observations 3, 7 are``, the first ten of them."""
    shown = ", ".join(str(row) for row in rows[:MOST_NAMED])
    more = f" and {len(rows) - MOST_NAMED} more" if len(rows) > MOST_NAMED else ""
    several = len(rows) > 1
    return f"{what.capitalize()}{'s' * several} {shown}{more} {'are' if several else 'is'}"


def listed(table: np.ndarray) -> list[list[float | None]]:
    """Rows for JSON, ``None`` where a cell is empty."""
    return [[None if np.isnan(cell) else float(cell) for cell in row] for row in table]


def estimates_summary(found: Mapping[str, Embedding]) -> list[dict[str, Any]]:
    """Every estimate of a mean embedding: its weights' sum, norm, distance from the first."""
    first = next(iter(found.values()))
    return [
        {
            "estimator": name,
            "sum_of_weights": float(np.sum(one.weights)),
            "norm": float(one.norm()),
            "from_empirical": float(one.distance(first)),
        }
        for name, one in found.items()
    ]


def estimates_text(estimates: list[dict[str, Any]]) -> str:
    """Estimates of a mean embedding as a table."""
    lines = ["estimator      sum of weights     norm    from empirical"]
    lines += [
        f"{line['estimator']:14} {line['sum_of_weights']:14.4f} {line['norm']:8.4f} "
        f"{line['from_empirical']:17.4f}"
        for line in estimates
    ]
    return "\n".join(lines)
