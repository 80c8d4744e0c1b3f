"""Permutations in stages: more of them only as long as they could change the verdict.

A test draws some permutations, and ten times as many wherever the p-value by these is not clearly
above the level. The last stage's is a p-value, however many stages there are: let p_1, p_2, ... be
those by each stage alone and c where a stage ends the draw, p > c. What is at most u, for u <= c,
is by the last stage, and for u > c implies p_1 <= u; so its chance where the null holds is at most
u, as that of every p_i is. (Besag and Clifford 1991 stop at a number of exceedances instead, which
needs statistics one after the other; here they come in one matrix product.)
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

#: Permutations of the first stage, by how much more each stage has than the one before, and how
#: many permutations of the first one exceed the statistic, on average, at the level.
FIRST, GROWTH, LEAST_EXCEEDING = 999, 10, 10
#: A p-value is clearly above the level from so many times the level on: of a true one at the level
#: the first stage shows as much once in 10^11 tests.
CLEAR = 4.0


def stages(permutations: int, alpha: float) -> list[int]:
    """List how many permutations each stage has, at a level; the last one has all of them."""
    count = max(FIRST, math.ceil(LEAST_EXCEEDING / alpha) - 1)
    found = []
    while GROWTH * (count + 1) <= permutations + 1:
        found.append(count)
        count = GROWTH * (count + 1) - 1
    return [*found, permutations]


def in_stages(
    evaluate: Callable[[int], T],
    permutations: int,
    alpha: float,
    *,
    sequential: bool = True,
    pvalue: Callable[[T], float] = operator.attrgetter("pvalue"),
) -> T:
    """Evaluate a test with more and more permutations until its verdict is clear.

    Args:
        evaluate: the test with so many permutations.
        permutations: at most.
        alpha: level of the verdict.
        sequential: whether to stop before; else all permutations are drawn at once.
        pvalue: of what the test found, by default its attribute.
    """
    *earlier, last = stages(permutations, alpha) if sequential else [permutations]
    for count in earlier:
        found = evaluate(count)
        if pvalue(found) > CLEAR * alpha:
            return found
    return evaluate(last)


def count_in_words(drawn: int, asked: int) -> str:
    """Tell how many permutations there were, and that more were not needed."""
    return f"{drawn} permutations" + (f" of at most {asked}" if drawn < asked else "")
