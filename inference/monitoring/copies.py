"""Rows of a stream that are rows of its reference: not new, which the promise is about."""

from __future__ import annotations

import numpy as np

from ..data.checks import pluralize

#: Rows of a stream that are looked at, from its first on.
LOOKED_AT = 5000
#: Rows that are told, at least, and as a share of a batch; of the reference's so many must differ.
LEAST, SHARE, DIFFERENT = 5, 0.2, 0.9


def known_rows(reference: np.ndarray) -> frozenset[bytes]:
    """The rows of a ``reference`` (m, C), none where many are alike: equal ones are no copies."""
    known = frozenset(row.tobytes() for row in reference)
    return known if len(known) >= DIFFERENT * len(reference) else frozenset()


def copied(values: np.ndarray, known: frozenset[bytes]) -> list[str]:
    """A note of ``values`` (n, C) that are among the rows ``known`` of the reference."""
    if len(values) < LEAST:
        return []
    count = sum(row.tobytes() in known for row in values)
    if count < max(LEAST, SHARE * len(values)):
        return []
    return [
        f"Of the stream's rows {pluralize(count, 'row')} or more are rows of the reference: a "
        "stream that is too much like it is no new one either, and raises an alarm by that."
    ]
