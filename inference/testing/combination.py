"""Several statistics as one: each standardised by its permutations, then their log-sum-exp.

Standardising treats the observed column like all others, so the combination is as exact as its
parts; log-sum-exp lies between the maximum, which hears one loud part, and the sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from ..relabelling.permutation import monte_carlo_error, p_value, share_error, standardised
from .result import Part

#: What the combination is, in words.
COMBINED = "log-sum-exp of all parts, standardised"


class Combined(NamedTuple):
    """A statistic of all columns with what it was made of."""

    row: np.ndarray  # (1 + B,)
    parts: tuple[Part, ...]  # none where there was one statistic
    most_extreme: int  # index of the part
    rows: np.ndarray  # (k, 1 + B), of the statistics

    def error(self) -> float:
        """The standard error that the draw of the permutations leaves in the p-value."""
        labellings, pvalue = self.rows.shape[1], p_value(self.row)
        if not self.parts:
            return share_error(pvalue, labellings - 1)
        return monte_carlo_error(lambda some: _together(self.rows[:, some]), pvalue, labellings)


def combine(rows: np.ndarray, parts: Sequence[tuple[str, Any]]) -> Combined:
    """Combine rows of statistics to one, or return the only one as it is.

    Args:
        rows: (k, 1 + B), the observed column first.
        parts: name and kernel of each, k.
    """
    if len(rows) == 1:
        return Combined(rows[0], (), 0, rows)
    deviations = standardised(rows)
    described = tuple(
        Part(name, float(row[0]), p_value(row), kernel, float(deviation[0]))
        for (name, kernel), row, deviation in zip(parts, rows, deviations, strict=True)
    )
    return Combined(_together(rows), described, int(np.argmax(deviations[:, 0])), rows)


def _together(rows: np.ndarray) -> np.ndarray:
    """The log-sum-exp (1 + B,) of statistics (k, 1 + B), each by its own permutations."""
    return np.asarray(logsumexp(standardised(rows), axis=0))
