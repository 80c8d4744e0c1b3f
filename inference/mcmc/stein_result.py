"""What a Stein test found: the test, the parameters that do not fit, and where."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..permutation.permutation import p_in_words
from ..testing.result import TestResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NOT_SEEN = (
    "not seen by a Stein test: modes without draws, and the weights of modes far apart, for which "
    "see check_chains(score=)"
)
#: Columns that are told.
MOST_TOLD = 6


class Misfit(NamedTuple):
    """How one column does not fit the density.

    Attributes:
        name: of the column.
        part: of the squared discrepancy at the kernel of the test: all columns' parts add up to it.
        pvalue: adjusted for all columns.
        differs: whether that is at most the level of the test.
    """

    name: str
    part: float
    pvalue: float
    differs: bool


@dataclasses.dataclass(frozen=True, repr=False)
class SteinResult(TestResult):
    """A Stein test of draws, a :class:`~bke.inference.TestResult` that also tells where.

    Attributes:
        columns: one :class:`Misfit` for each, where the test rejects; else none.
        names: of all columns.
        points: the rows that were compared with each other, (N, D).
        witness: at each of them the mean of Stein's kernel with all others, (N,): positive where
            there are too many draws, negative where there are too few; its mean over the density
            is zero, over the draws the squared discrepancy.
        batches: so many had their signs flipped together.
        autocorrelation_time: the longest, in draws; 1 of independent rows.
    """

    columns: tuple[Misfit, ...] = ()
    names: tuple[str, ...] = ()
    points: np.ndarray = dataclasses.field(default_factory=lambda: np.empty((0, 0)))
    witness: np.ndarray = dataclasses.field(default_factory=lambda: np.empty(0))
    batches: int = 0
    autocorrelation_time: float = 1.0

    @property
    def least_fitting(self) -> tuple[int, ...]:
        """Places of the columns by their p-values, and where these are one by their parts."""
        order = sorted(
            range(len(self.columns)),
            key=lambda one: (self.columns[one].pvalue, -self.columns[one].part),
        )
        return tuple(order)

    def __str__(self) -> str:
        told, *notes = super().__str__().split("\n  Note: ")
        found = [self.columns[one] for one in self.least_fitting if self.columns[one].differs]
        lines = [told]
        if found and len(self.names) > 1:
            draws = len(self.null)
            shown = ", ".join(
                f"{one.name} ({p_in_words(one.pvalue, draws)})" for one in found[:MOST_TOLD]
            )
            more = f" and {len(found) - MOST_TOLD} more" if len(found) > MOST_TOLD else ""
            lines.append(f"  does not fit, adjusted for all columns: {shown}{more}")
        elif self.rejected and len(self.names) > 1:
            lines.append("  no column by itself can be named for it")
        if not self.rejected:
            lines.append(f"  {NOT_SEEN}")
        return "\n".join([*lines, *(f"  Note: {note}" for note in notes)])

    def to_dataframe(self) -> pd.DataFrame:
        """One row for each column, where the test rejects.

        Columns: ``name``, ``part``, ``pvalue`` and ``differs``, see :class:`Misfit`.
        """
        import pandas as pd

        return pd.DataFrame(self.columns, columns=Misfit._fields)

    def plot(self, *, axes: Axes | Sequence[Axes] | None = None) -> Figure:
        """Draw the witness along the columns that fit least.

        Args:
            axes: one for each panel; by default a new figure.
        """
        from ..plots.chains import plot_stein

        return plot_stein(self, axes=axes)
