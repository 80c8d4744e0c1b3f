"""Rows of a stream that are rows of its reference: not new, which the promise is about."""

from __future__ import annotations

import numpy as np

from ..data.checks import counted

#: Rows of a stream that are looked at, from its first on.
LOOKED_AT = 5000
#: Rows that are told, at least, and as a share of a batch; of the reference's so many must differ.
LEAST, SHARE, DIFFERENT = 5, 0.2, 0.9


def copied(values: np.ndarray, reference: np.ndarray) -> list[str]:
    """A note of ``values`` (n, C) that are rows of the ``reference`` (m, C), whose rows differ."""
    if len(values) < LEAST:
        return []
    known = {row.tobytes() for row in reference}
    if len(known) < DIFFERENT * len(reference):
        return []
    count = sum(row.tobytes() in known for row in values)
    if count < max(LEAST, SHARE * len(values)):
        return []
    return [
        f"Of the stream's rows {counted(count, 'row')} or more are rows of the reference: a stream "
        "that is too much like it is no new one either, and raises an alarm by that."
    ]
