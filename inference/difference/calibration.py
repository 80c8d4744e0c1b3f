"""Statistics of several kinds as one, at an exact level: each told by how surprising it is.

A statistic's values for all relabellings, the observed among them, are brought to one scale: minus
the logarithm of the tail probability of the Pearson III distribution that has their mean, variance
and skewness. It treats all columns alike, so that a permutation test of the combination is exact
however well that distribution fits; and a heavy-tailed statistic does not drown the others, as it
does where each is divided by its deviation alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import logsumexp
from scipy.stats import gamma

from ..testing.permutation import standardised

#: Below this skewness Pearson III is the normal distribution, to what rounding lets see.
LEAST_SKEWNESS = 1e-3
#: How much the loudest statistic counts: at infinity it is alone, at zero all count alike.
AGREEMENT = 0.5


def surprise(row: np.ndarray) -> np.ndarray:
    """Minus the log tail probability of every column of a statistic (1 + B,), nats.

    A constant statistic surprises nowhere: zero.
    """
    deviations = standardised(row)
    if not deviations.any():
        return deviations
    skewness = max(float(np.mean(deviations**3)), LEAST_SKEWNESS)
    shape = 4.0 / skewness**2
    values = np.maximum(shape + deviations * np.sqrt(shape), 0.0)
    return np.asarray(-gamma.logsf(values, shape))


def combined(statistics: Sequence[np.ndarray]) -> np.ndarray:
    """Combine statistics, (1 + B,): near the loudest surprise, more if others agree.

    The mean of tail probabilities of order -:data:`AGREEMENT` (Vovk and Wang 2020), as minus its
    logarithm and up to constants; its null distribution is that over relabellings.
    """
    return agreed(np.array([surprise(row) for row in statistics]))


def agreed(surprises: np.ndarray) -> np.ndarray:
    """Combine surprises (k, 1 + B) as :func:`combined` does, (1 + B,)."""
    return np.asarray(logsumexp(AGREEMENT * surprises, axis=0) / AGREEMENT)
