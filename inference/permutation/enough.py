"""Whether there are permutations enough, for a level and of so few rows."""

from __future__ import annotations

import numpy as np

from ..core.errors import InputError
from ..data.checks import check_alpha, check_count

#: Nulls that are samples, as many as are asked for.
DRAWN = ("permutation", "spectrum", "wild bootstrap")


def check_permutations(
    permutations: int,
    alpha: float,
    what: str = "permutations",
    null: str = "permutation",
    tests: int = 1,
) -> float:
    """Refuse what is no number of permutations, and fewer than can reach the level ``alpha``.

    Where ``null`` is none that is drawn their number does not matter. Of several ``tests`` that
    share the level the smallest p-value is so many times that of one. Returns the level.
    """
    check_count(permutations, what, 1)
    alpha = check_alpha(alpha)
    if null not in DRAWN:
        return alpha
    needed = int(np.ceil(tests / alpha - 1e-9)) - 1
    if permutations < needed:
        raise InputError(
            f"{permutations} {what} cannot reject at level {alpha:g}: the smallest p-value is "
            f"{tests}/{permutations + 1}; take at least {needed}"
        )
    return alpha


def few_rows_note(ways: int, alpha: float) -> tuple[str, ...]:
    """Warn where rows can be permuted in so few ``ways`` that nothing can be rejected."""
    if ways >= 1.0 / alpha:
        return ()
    return (
        f"so few rows can be permuted in {ways} ways only: no p-value is below about 1/{ways}, "
        "whatever they are",
    )
