"""How surprising tables are as wholes: by one column, or by all, pairs and rows together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..relabelling.calibration import agreed, surprise

#: How much a loud statistic counts among those of a column, and a loud column among all that is
#: said of the tables; and how much more one column counts than all together.
LOUDEST, ONE_COLUMN = 2.0, 2.0


class Statistics(NamedTuple):
    """Everything that is evaluated of tables, for every relabelling.

    Attributes:
        columns: surprises of every column's aspects, (k, 1 + B) each; of one that is constant k is
            0.
        together: (p, 1 + B), how every two columns go together.
        wholes: (1 + B,) each, of rows as wholes.
    """

    columns: list[np.ndarray]
    together: np.ndarray
    wholes: list[np.ndarray]

    def at(self, chosen: np.ndarray) -> Statistics:
        """Those of some relabellings, whose surprises are among these alone."""
        columns = [surprise(each[:, chosen], without=1) for each in self.columns]
        return Statistics(columns, self.together[:, chosen], [one[chosen] for one in self.wholes])

    def evidence(self) -> np.ndarray:
        """How surprising all aspects of each column together are, (c, 1 + B)."""
        none = np.zeros(self.together.shape[1])
        return np.array(
            [
                surprise(agreed(each, LOUDEST), without=1) if len(each) else none
                for each in self.columns
            ]
        )

    def overall(self) -> np.ndarray:
        """How surprising the tables are, (1 + B,).

        A change of one column is the more frequent one, and counts :data:`ONE_COLUMN` times.
        """
        evidence = self.evidence()
        wholes = [evidence.sum(axis=0), *self.wholes]
        if len(self.together):
            wholes.append(surprise(self.together, without=1).max(axis=0))
        together = agreed(surprise(np.array(wholes), without=1))
        one = surprise(evidence.max(axis=0), without=1) + np.log(ONE_COLUMN)
        return agreed(np.array([one, surprise(together, without=1)]), LOUDEST)
