"""What thinning leaves: which draws, and how well they stand for all."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.notebook import Shown

if TYPE_CHECKING:
    import pandas as pd


@dataclasses.dataclass(frozen=True, repr=False)
class Thinned(Shown):
    """Draws that stand for all.

    Attributes:
        indices: (m,), of the draws in the order in which they were given, chain after chain; a draw
            may come twice where Stein's method takes it twice.
        weights: (m,), that add up to one: the best on the simplex where they were asked for, else
            equal.
        discrepancy: MMD to all draws, or the Stein discrepancy where a score was given.
        at_random: the same of as many draws taken at random, the mean of several.
        every: of every so-many-th draw.
        kernel: in the units of the draws.
        how: which way was taken, in words.
        columns: names of the parameters.
        points: the draws themselves, (m, D).
        notes: what could mislead a reader.
    """

    indices: np.ndarray
    weights: np.ndarray
    discrepancy: float
    at_random: float
    every: float
    kernel: Any
    how: str
    columns: tuple[str, ...]
    points: np.ndarray
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [
            f"{len(self.indices)} draws by {self.how}: discrepancy {self.discrepancy:.3g}; "
            f"{self.at_random:.3g} at random, {self.every:.3g} by every so-many-th."
        ]
        return "\n  ".join([*lines, *(f"Note: {note}" for note in self.notes)])

    def __repr__(self) -> str:
        return f"<{len(self.indices)} draws by {self.how}>"

    def to_dataframe(self) -> pd.DataFrame:
        """One row for each draw that was chosen: ``index``, ``weight``, and every parameter."""
        import pandas as pd

        chosen = pd.DataFrame({"index": self.indices, "weight": self.weights})
        return pd.concat([chosen, pd.DataFrame(self.points, columns=list(self.columns))], axis=1)

    def to_dict(self) -> dict[str, Any]:
        """What was found, as JSON has it; without the draws."""
        return {
            "indices": self.indices.tolist(),
            "weights": self.weights.tolist(),
            "discrepancy": self.discrepancy,
            "at_random": self.at_random,
            "every": self.every,
            "how": self.how,
            "columns": list(self.columns),
            "notes": list(self.notes),
        }
