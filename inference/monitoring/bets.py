"""Bets on a conformal p-value: densities on the unit interval, each of mean 1 exactly.

Under the null hypothesis the p-values of rows are independent and uniform, so that the product of
any bet over rows is a martingale that starts at 1 (Vovk, Nouretdinov and Gammerman 2003).
"""

from __future__ import annotations

import functools
import math

import numpy as np
from scipy.special import ndtri

#: Steps of a bet: densities are constant on each, which makes their mean exact.
CELLS = 1024
#: Shifts of a standard normal variable that are bet on, to either side.
SHIFTS = (0.25, 0.6, 1.2, 2.5)
#: Factors by which its deviation may have changed.
FACTORS = (0.5, 0.75, 1.35, 2.0)
#: Waves of the p-value, two in all, by which p-values gather in the middle and at the ends, or
#: between, and on one side of the middle and the other end.
HEIGHT = 0.8
#: The least that a bet leaves of its capital, so that one row cannot ruin it.
KEPT = 0.05
#: Rows over which the chance of a change is spread about evenly; it falls like 1 / (t log^2 t)
#: beyond, so that a change at any time has some.
EARLY = 100.0


@functools.cache
def bets() -> np.ndarray:
    """Make the bets (CELLS, K): by how much each multiplies its capital at a p-value's cell.

    Likelihood ratios of N(shift, 1) and N(0, factor^2) to N(0, 1) at the normal score of 1 - p, and
    waves, for what neither shifts nor spreads.
    """
    pvalue = (np.arange(CELLS) + 0.5) / CELLS
    score = -ndtri(pvalue)
    shifts = [sign * shift for shift in SHIFTS for sign in (1.0, -1.0)]
    logs = [shift * score - 0.5 * shift**2 for shift in shifts]
    logs += [-0.5 * (1.0 / factor**2 - 1.0) * score**2 - math.log(factor) for factor in FACTORS]
    waves = [wave(4.0 * np.pi * pvalue) for wave in (np.cos, np.sin)]
    logs += [np.log1p(sign * HEIGHT * wave) for wave in waves for sign in (1.0, -1.0)]
    found = np.exp(np.stack(logs, axis=1))
    found /= found.mean(axis=0)
    return np.asarray(KEPT + (1.0 - KEPT) * found)


def reserve(ages: np.ndarray) -> np.ndarray:
    """How much of a capital of 1 is not yet staked after so many rows."""
    return np.asarray(math.log(EARLY) / np.log(EARLY + ages))
