"""Whether there are permutations enough, for a level and of so few rows."""

from __future__ import annotations

import numpy as np

from ..core.errors import InputError
from ..data.checks import check_count

#: Nulls that are samples, as many as are asked for.
DRAWN = ("permutation", "spectrum", "wild bootstrap")


def check_permutations(
    permutations: int,
    alpha: float,
    what: str = "permutations",
    null: str = "permutation",
    tests: int = 1,
) -> None:
    """Refuse what is no number of permutations, and fewer than can reach the level.

    Where ``null`` is none that is drawn their number does not matter. Of several ``tests`` that
    share the level the smallest p-value is so many times that of one.
    """
    check_count(permutations, what, 1)
    if not isinstance(alpha, (int, float)) or not 0.0 < alpha < 1.0:
        raise InputError(f"alpha must be between 0 and 1, got {alpha!r}")
    if null not in DRAWN:
        return
    needed = int(np.ceil(tests / alpha - 1e-9)) - 1
    if permutations < needed:
        raise InputError(
            f"{permutations} {what} cannot reject at level {alpha:g}: the smallest p-value is "
            f"{tests}/{permutations + 1}; take at least {needed}"
        )


def few_rows_note(ways: int, alpha: float) -> tuple[str, ...]:
    """Warn where rows can be permuted in so few ``ways`` that nothing can be rejected."""
    if ways >= 1.0 / alpha:
        return ()
    return (
        f"so few rows can be permuted in {ways} ways only: no p-value is below about 1/{ways}, "
        "whatever they are",
    )
