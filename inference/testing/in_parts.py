"""The default two-sample test of rows in parts: of a collection of Dask or a dataset of Ray.

A test by permutations needs of its rows sums of features over bins of rows, and these add: it goes
through the parts three times to see how many rows there are, by what they are known and some of
them, and once for all sums. Everything that it chooses goes by what a test in memory would choose
by, so that both have one p-value.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from ..core.errors import InputError
from ..evidence.passes import Passed
from ..evidence.places import cells
from ..evidence.statistic import evidences
from ..permutation.surveyed import Surveyed
from ..streams.partitions import as_partitioned, is_collection
from .discrepancy import Statistic
from .fused import told
from .kernel_choice import KernelChoice
from .null_choice import NullChoice


def survey(P: Any, Q: Any) -> Surveyed:
    """Go through the rows of collections once, of which one may be in memory.

    Raises:
        InputError: for rows that make no sample, or samples of different columns.
    """
    if is_collection(P):
        first = as_partitioned(P, "P")
        return Surveyed.of(first, as_partitioned(Q, "Q", first.engine))
    second = as_partitioned(Q, "Q")
    return Surveyed.of(as_partitioned(P, "P", second.engine), second)


@dataclasses.dataclass
class InParts:
    """The default test of rows in parts, which are gone through once for any number of stages.

    Attributes:
        survey: of both samples.
        choice: how columns are scaled.
        seed: of the permutations.
    """

    survey: Surveyed
    choice: KernelChoice
    seed: int
    _passed: Passed | None = None

    def check(self, asked: NullChoice) -> None:
        """Refuse tests other than the default one."""
        if self.choice.named != "fused" or asked.name != "permutation":
            raise InputError(
                f"{self.survey.total} rows in parts are tested with kernel='fused' and "
                "null='permutation' alone: for another test take a random part of them"
            )
        if asked.estimator == "paired":
            raise InputError("pairs of rows in parts are not supported: put both in one machine")

    def statistic(self, permutations: int, alpha: float) -> Statistic:
        """Evaluate the statistic for so many labellings; see :func:`~.fused.told`."""
        rng = self.survey.generator(self.seed)
        unit = self.survey.unit(self.choice.scale)
        rows = self.survey.cells(permutations, rng, unit)
        if rows is not None:
            found = evidences(rows, cells(rows), lambda count: None)
        else:
            if self._passed is None:
                self._passed = Passed.over(self.survey, self.survey.generator(self.seed), unit)
            self.survey.deal(rng)  # that the labels are drawn after
            _, found, _ = self._passed.told(permutations, rng)
        return told(found, unit, self.survey.varying, alpha)
