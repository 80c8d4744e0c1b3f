"""Weights of simulations by their distances, by logarithms: none of them underflows."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import logsumexp

from ..core.errors import InputError

ACCEPTANCES = ("exponential", "indicator")
#: Default bandwidths: effective sample sizes over the number of simulations, of up to so many.
SHARES, SIMULATIONS = (0.2, 0.05, 0.01), 10_000
#: Distances that differ by less, relative to them, are equal.
EQUAL = 1e-12
#: Minus the logarithm of a weight that is none.
NOTHING = 100.0


def check_epsilon(epsilon: Any) -> np.ndarray | None:
    """Check bandwidths (E,) and sort them, largest first; ``None`` stays.

    Raises:
        InputError: there are none, one is not positive and finite, or two are equal.
    """
    if epsilon is None:
        return None
    try:
        values = np.atleast_1d(np.asarray(epsilon, dtype=float))
    except (TypeError, ValueError):
        values = np.array([np.nan])
    if values.ndim != 1 or not len(values):
        raise InputError(f"epsilon must be a number or several, got {epsilon!r}")
    if not np.all((values > 0.0) & np.isfinite(values)):
        raise InputError(f"epsilon must be positive and finite, got {epsilon!r}")
    if len(np.unique(values)) < len(values):
        raise InputError(f"epsilon has a number twice: {epsilon!r}")
    return np.sort(values)[::-1]


def default_shares(simulations: int, parameters: int) -> np.ndarray:
    """Choose effective sample sizes over the number M of simulations: 20, 5 and 1 % of 10 000.

    A share that stays leaves the posterior as wide as it is however many simulations there are. Of
    q parameters, which take at least as many statistics to tell, M^(-q / (q + 4)) makes the error
    of a mean least: its bias is of order delta^2 and the share delta^q (Barber, Voss and Webster
    2015).
    """
    more = max(simulations / SIMULATIONS, 1.0)
    return np.asarray(np.array(SHARES) * more ** (-parameters / (parameters + 4.0)))


def default_epsilon(squared: np.ndarray, acceptance: str, parameters: int) -> np.ndarray:
    """Choose bandwidths from the squared distances (M,) of all simulations, largest first.

    For ``"exponential"`` those at which the effective sample size is a share of the simulations,
    see :func:`default_shares`. A constant that is added to all squared distances, such as the part
    of MMD-4 that is there between samples of one distribution, then changes no bandwidth, as it
    changes no weight. For ``"indicator"`` the same quantiles of the distances: that share is
    accepted.

    Raises:
        InputError: all distances are equal.
    """
    shares = default_shares(len(squared), parameters)
    if acceptance == "indicator":
        found = np.quantile(distances(squared), shares)
        found = np.unique(found[found > 0.0])[::-1]
    elif not tell_apart(squared):
        found = np.zeros(0)
    else:
        inverses = [inverse_for(squared, share * len(squared)) for share in shares]
        found = np.unique(1.0 / np.array(inverses))[::-1]
    if not len(found):
        raise InputError(
            "the distances of nearly all simulations are equal, so that there is no bandwidth to "
            "choose: give epsilon, or a distance that tells parameters apart"
        )
    return found


def tell_apart(squared: np.ndarray) -> bool:
    """Whether squared distances (M,) differ by more than rounding."""
    return bool(np.ptp(squared) > EQUAL * np.max(np.abs(squared)))


def inverse_for(squared: np.ndarray, size: float) -> float:
    """Find 1 / epsilon at which the effective sample size of exp(-d^2 / epsilon) is ``size``.

    By bisection, for it falls with 1 / epsilon. Where so many have the smallest of all distances
    that it never does, 1 / epsilon is so large that only these are left.

    Args:
        squared: (M,), finite numbers that differ.
        size: at most M.
    """

    def enough(inverse: float) -> bool:
        return effective_sample_size(-squared * inverse) >= size

    farther = squared - squared.min()
    nearest = float(np.min(farther[farther > 0.0]))
    high = 1.0 / float(np.max(farther))
    while enough(high):
        high *= 2.0
        if high * nearest > NOTHING:
            return high
    low = 0.0
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if enough(middle) else (low, middle)
    return high


def distances(squared: np.ndarray) -> np.ndarray:
    """Take the root of squared distances; an unbiased estimate below zero is none."""
    return np.sqrt(np.maximum(squared, 0.0))


def log_weights(squared: np.ndarray, epsilon: float, acceptance: str) -> np.ndarray:
    """Log weights (M,) that are not normalised: -d^2 / epsilon (MMD-31), or 0 if d <= epsilon."""
    if acceptance == "exponential":
        return -squared / epsilon
    return np.where(distances(squared) <= epsilon, 0.0, -np.inf)


def normalised(log_weight: np.ndarray) -> np.ndarray:
    """Normalise weights (M,) to sum to one; zeros where all of them are zero."""
    total = logsumexp(log_weight)
    return np.zeros(len(log_weight)) if total == -np.inf else np.exp(log_weight - total)


def effective_sample_size(log_weight: np.ndarray) -> float:
    """The effective sample size (sum w)^2 / sum w^2; 0 where all weights are zero."""
    total = logsumexp(log_weight)
    return 0.0 if total == -np.inf else float(np.exp(2.0 * total - logsumexp(2.0 * log_weight)))
