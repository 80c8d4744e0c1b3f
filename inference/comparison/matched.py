"""What weights do: which means and discrepancy are left, and how many rows they are worth."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..core.notebook import Shown

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .comparison import Comparison

#: Columns that are told, and what is left of a difference that is rounding.
MOST_TOLD, ROUNDING = 8, 1e-9


class Moment(NamedTuple):
    """One moment of a column, in the target's standard deviations of the column.

    Attributes:
        name: of the column, or "variance of" it: that over the target's, less one, over the root
            of two, as which it varies with a normal's mean.
        before: the source's less the target's, with equal weights.
        after: with the weights.
        balanced: whether it was to be reproduced exactly.
    """

    name: str
    before: float
    after: float
    balanced: bool


@dataclasses.dataclass(frozen=True, repr=False)
class MatchedWeights(Shown):
    """Weights of the source's rows by which it looks like the target.

    Attributes:
        values: (n,), with mean 1: what each row counts for.
        effective_size: (sum w)^2 / sum w^2: so many rows with equal weights have the same error.
        moments: of every column.
        discrepancies: squared MMD of source and target at the kernel, before and after.
        expected: what it would be of rows of one distribution, so many as the effective size beside
            the target.
        kernel: in the units of the data.
        columns: their names.
        source: the rows that are weighed, (n, D).
        target: the rows that they are to look like, (m, D).
        notes: what could mislead a reader.
    """

    values: np.ndarray
    effective_size: float
    moments: tuple[Moment, ...]
    discrepancies: tuple[float, float]
    expected: float
    kernel: Any
    columns: tuple[str, ...]
    source: np.ndarray
    target: np.ndarray
    notes: tuple[str, ...] = ()

    def compare(self, **options: Any) -> Comparison:
        """Compare the weighted source with the target: what is left, and where.

        The weights were chosen to make the two alike, so that where they could be made so the test
        rejects more seldom than its level says (``benchmarks/results/matching.md``).

        Args:
            **options: to :func:`~bke.inference.compare`.
        """
        from .compare import compare

        weights = (self.values, None)
        return compare(self.source, self.target, weights=weights, columns=self.columns, **options)

    def __str__(self) -> str:
        rows, largest = len(self.values), float(self.values.max())
        before, after = (max(0.0, one) ** 0.5 for one in self.discrepancies)
        lines = [
            f"{rows} rows weighted to look like {len(self.target)}: worth "
            f"{self.effective_size:.4g} rows, none more than {largest:.3g}.",
            f"MMD {before:.3g} before, {after:.3g} after; {self.expected**0.5:.3g} is expected of "
            "equal distributions.",
        ]
        order = sorted(self.moments, key=lambda one: -abs(one.before))
        lines.append("Differences in the target's standard deviations, before and after:")
        lines += [
            f"  {one.name}: {one.before:+.3g}, {_left(one)}{'' if one.balanced else ' (free)'}"
            for one in order[:MOST_TOLD]
        ]
        if len(order) > MOST_TOLD:
            lines.append(f"  and {len(order) - MOST_TOLD} smaller ones")
        return "\n".join([*lines, *(f"Note: {note}" for note in self.notes)])

    def __repr__(self) -> str:
        return f"<weights of {len(self.values)} rows, worth {self.effective_size:.4g}>"

    def to_dataframe(self) -> pd.DataFrame:
        """One row for each moment.

        Columns: ``name``, ``before``, ``after`` and ``balanced``, see :class:`Moment`.
        """
        import pandas as pd

        return pd.DataFrame(self.moments, columns=Moment._fields)

    def to_dict(self) -> dict[str, Any]:
        """What was found, as JSON has it; without the rows."""
        return {
            "weights": self.values.tolist(),
            "effective_size": self.effective_size,
            "moments": [one._asdict() for one in self.moments],
            "squared_mmd": {"before": self.discrepancies[0], "after": self.discrepancies[1]},
            "expected_squared_mmd": self.expected,
            "columns": list(self.columns),
            "notes": list(self.notes),
        }

    def plot(self, *, ax: Axes | None = None) -> Figure:
        """Draw every difference before and after.

        Args:
            ax: where to draw; by default a new figure.
        """
        from ..plots.matching import plot_matching

        return plot_matching(self, ax=ax)


def _left(moment: Moment) -> str:
    """What is left of a difference, nothing where that is rounding."""
    return "0" if abs(moment.after) < ROUNDING else f"{moment.after:+.2g}"
