"""The course of the evidence, thinned so that it stays as long."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

#: Rows that are kept, at most.
MOST = 2048


class History(NamedTuple):
    """Evidence at every ``stride``-th row.

    Attributes:
        evidence: (h,), after rows stride, 2 stride, ...: the largest of all scores there.
        stride: of the rows.
    """

    evidence: np.ndarray
    stride: int

    @classmethod
    def empty(cls) -> History:
        """Begin before the first row."""
        return cls(np.empty(0), 1)

    @property
    def rows(self) -> np.ndarray:
        """The rows (h,), counted from 1."""
        return self.stride * np.arange(1, len(self.evidence) + 1)

    def after(self, rows: int, evidence: np.ndarray) -> History:
        """Add the evidence (n,) after each of the rows that follow the first ``rows``."""
        added = np.arange(rows + 1, rows + len(evidence) + 1) % self.stride == 0
        kept, stride = np.concatenate([self.evidence, evidence[added]]), self.stride
        while len(kept) > MOST:
            kept, stride = kept[1::2], 2 * stride
        return History(kept, stride)
