"""Where a test's power reaches a level, by probit regression on tests that rejected or did not."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import log_ndtr, ndtri

#: How far the intercept may be from the level's quantile, and of the log slope from its start.
NEAR, WIDE = 0.5, 3.0


def reached(tried: np.ndarray, seen: np.ndarray, power: float, alpha: float) -> tuple[float, float]:
    """Fit ``P(reject) = Phi(a + b size)``, and return the size for ``power`` and its error.

    ``a`` is near the level's quantile: where the size is 0 there is nothing to find.

    Args:
        tried: (k,), positive sizes.
        seen: (k,), whether the test rejected.
        power: between ``alpha`` and 1.
        alpha: level of the test.

    Returns:
        The size, and its relative standard error.
    """
    from scipy.optimize import minimize  # slow to import, and a difference that is found needs none

    unit, level = tried.mean(), ndtri(alpha)

    def loss(parameters: np.ndarray) -> float:
        a, log_b = parameters
        z = a + np.exp(log_b) * tried / unit
        fit = np.where(seen, log_ndtr(z), log_ndtr(-z)).sum()
        return float(-fit + 0.5 * ((a - level) / NEAR) ** 2 + 0.5 * (log_b / WIDE) ** 2)

    best = minimize(loss, np.array([level, 0.5]), method="BFGS")
    a, log_b = best.x
    needed = (ndtri(power) - a) / math.exp(log_b)
    slope = np.array([-1.0 / (ndtri(power) - a), -1.0])  # of the logarithm
    error = math.sqrt(max(float(slope @ best.hess_inv @ slope), 0.0))
    return float(needed * unit), error
