"""Several statistics as one: each standardised by its permutations, then their log-sum-exp.

Standardising treats the observed column like all others, so the combination is as exact as its
parts; log-sum-exp lies between the maximum, which hears one loud part, and the sum. A statistic of
another kind joins by how surprising it is, so that many of the one do not drown it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from ..permutation.calibration import combined
from ..permutation.permutation import monte_carlo_error, p_value, share_error, standardised
from .result import Part

#: What the combination is, in words.
COMBINED = "log-sum-exp of all parts, standardised"
#: How much a statistic of another kind counts.
BESIDE = 0.5


class Combined(NamedTuple):
    """A statistic of all columns with what it was made of."""

    row: np.ndarray  # (1 + B,)
    parts: tuple[Part, ...]  # none where there was one statistic
    most_extreme: int  # index of the part
    rows: np.ndarray  # (k, 1 + B), of the statistics
    beside: int = 0  # so many of the last are of another kind

    def error(self) -> float:
        """The standard error that the draw of the permutations leaves in the p-value."""
        labellings, pvalue = self.rows.shape[1], p_value(self.row)
        if not self.parts:
            return share_error(pvalue, labellings - 1)
        return monte_carlo_error(
            lambda some: _together(self.rows[:, some], self.beside), pvalue, labellings
        )


def combine(rows: np.ndarray, parts: Sequence[tuple[str, Any]], beside: int = 0) -> Combined:
    """Combine rows of statistics to one, or return the only one as it is.

    Args:
        rows: (k, 1 + B), the observed column first.
        parts: name and kernel of each, k.
        beside: so many of the last are of another kind, and never the most extreme.
    """
    if len(rows) == 1:
        return Combined(rows[0], (), 0, rows)
    deviations = standardised(rows)
    described = tuple(
        Part(name, float(row[0]), p_value(row), kernel, float(deviation[0]))
        for (name, kernel), row, deviation in zip(parts, rows, deviations, strict=True)
    )
    most_extreme = int(np.argmax(deviations[: len(rows) - beside, 0]))
    return Combined(_together(rows, beside), described, most_extreme, rows, beside)


def _together(rows: np.ndarray, beside: int) -> np.ndarray:
    """The log-sum-exp (1 + B,) of statistics (k, 1 + B), each by its own permutations."""
    alike, others = np.split(rows, [len(rows) - beside])
    found = np.asarray(logsumexp(standardised(alike), axis=0))
    return combined([found, *others], [1.0, *[BESIDE] * beside]) if beside else found
