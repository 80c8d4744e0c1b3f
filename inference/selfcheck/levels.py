"""How often tests reject where there is nothing to find."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.stats import binom

from ..testing.independence import independence_test
from ..testing.two_sample import two_sample_test
from .finding import Finding

ALPHA = 0.1
#: A right machine leaves the band of its counts with this probability.
OUTSIDE = 1e-3
ROWS, PERMUTATIONS = 20, 19


def level(name: str, data_sets: int, advance: Callable[[int], None] = lambda done: None) -> Finding:
    """Count rejections of a test of rows of one distribution.

    Args:
        name: ``"two samples"`` or ``"independence"``.
        data_sets: how many.
        advance: told of each.
    """
    rejected = 0
    for seed in range(data_sets):
        one, other = np.random.default_rng(seed).standard_t(2, size=(2, ROWS, 2))
        how: Any = {"permutations": PERMUTATIONS, "seed": seed, "progress": False}
        test: Any = two_sample_test if name == "two samples" else independence_test
        rejected += test(one, other, **how).pvalue <= ALPHA
        advance(1)
    low, high = (int(binom.ppf(q, data_sets, ALPHA)) for q in (OUTSIDE / 2, 1 - OUTSIDE / 2))
    return Finding(
        f"level of the test of {name}",
        f"{rejected} of {data_sets} rejected at {ALPHA:g}",
        f"{low} to {high}",
        bool(low <= rejected <= high),
    )
