"""How surprising tables are as wholes: by one column, or by all, pairs and rows together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..permutation.calibration import agreed, surprise
from .fitted import Told

#: How much a loud statistic counts among those of a column, and a loud column among all that is
#: said of the tables; and how much more one column counts than all together.
LOUDEST, ONE_COLUMN = 2.0, 2.0


class Statistics(NamedTuple):
    """Everything that is evaluated of tables, for every relabelling.

    Attributes:
        columns: every column's aspects; of one that is constant none.
        together: (p, 1 + B), how every two columns go together.
        wholes: of rows as wholes; ``None`` where fewer than two columns vary.
        roughly: whether surprises are told roughly.
    """

    columns: list[list[Told]]
    together: np.ndarray
    wholes: Told | None
    roughly: bool = False

    def of(self, labellings: np.ndarray) -> Statistics:
        """Those of some relabellings, told among these alone, and roughly: enough for an error."""
        columns = [[one.of(labellings) for one in aspects] for aspects in self.columns]
        wholes = None if self.wholes is None else self.wholes.of(labellings)
        return Statistics(columns, self.together[:, labellings], wholes, roughly=True)

    def _surprise(self, rows: np.ndarray) -> np.ndarray:
        return surprise(rows, without=1, roughly=self.roughly)

    def evidence(self) -> np.ndarray:
        """How surprising all aspects of each column together are, (c, 1 + B)."""
        found = np.zeros((len(self.columns), self.together.shape[1]))
        for row, aspects in zip(found, self.columns, strict=True):
            if aspects:
                each = [self._surprise(np.array(one.each())) for one in aspects]
                row[:] = self._surprise(agreed(np.concatenate(each), LOUDEST))
        return found

    def overall(self, evidence: np.ndarray | None = None) -> np.ndarray:
        """How surprising the tables are, (1 + B,).

        A change of one column is the more frequent one, and counts :data:`ONE_COLUMN` times.

        Args:
            evidence: what :meth:`evidence` says, where it is known.
        """
        evidence = self.evidence() if evidence is None else evidence
        wholes = [evidence.sum(axis=0), *([] if self.wholes is None else self.wholes.each())]
        if len(self.together):
            wholes.append(self._surprise(self.together).max(axis=0))
        together = agreed(self._surprise(np.array(wholes)))
        one = self._surprise(evidence.max(axis=0)) + np.log(ONE_COLUMN)
        return agreed(np.array([one, self._surprise(together)]), LOUDEST)
