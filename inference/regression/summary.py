"""How well a regression predicts each group from the others, in numbers and words."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import norm

from ..core.notebook import Shown
from ..data.checks import counted

if TYPE_CHECKING:
    import pandas as pd

#: The level of intervals that are counted.
LEVEL = 0.9
#: Rows at which groups are told apart by their size.
SMALL = (10, 100)


@dataclasses.dataclass(frozen=True, repr=False)
class RegressionSummary(Shown):
    """Predictions of groups by groups of other folds.

    Slopes, variances and the prior of embeddings are those of the other folds; landmarks and the
    covariance within groups, which no y has touched, those of all groups.

    Attributes:
        y: (G,), what was to be predicted.
        predicted: (G,), by other folds.
        deviation: (G,), of the prediction's error as it is expected.
        counts: (G,), rows of each.
        labels: (G,).
        ridge: (G,), what Bayesian ridge regression on the embeddings as they are predicts.
        parts: the mean variance of y by the sampling of embeddings, by what is not known of slopes,
            and noise.
        coordinates: how many the embeddings have.
        shrinkage: whether embeddings are known up to a posterior.
    """

    y: np.ndarray
    predicted: np.ndarray
    deviation: np.ndarray
    counts: np.ndarray
    labels: tuple[Any, ...]
    ridge: np.ndarray
    parts: tuple[float, float, float]
    coordinates: int
    shrinkage: bool

    @property
    def explained(self) -> float:
        """What share of y's variance is explained by other folds, R^2."""
        return share_explained(self.y, self.predicted)

    @property
    def explained_by_ridge(self) -> float:
        """R^2 of ridge regression."""
        return share_explained(self.y, self.ridge)

    @property
    def covered(self) -> float:
        """How many of the groups their 90 % interval holds, as a share."""
        half = norm.isf(0.5 * (1.0 - LEVEL)) * self.deviation
        return float(np.mean(np.abs(self.y - self.predicted) <= half))

    def to_dataframe(self) -> pd.DataFrame:
        """One row for each group.

        Columns: ``group``, its label; ``rows`` of it; ``y``; ``predicted`` by other folds;
        ``deviation`` of the error as it is expected; and what ``ridge`` regression predicts.
        """
        import pandas as pd

        told = {"group": self.labels, "rows": self.counts, "y": self.y}
        found = {"predicted": self.predicted, "deviation": self.deviation, "ridge": self.ridge}
        return pd.DataFrame({**told, **found})

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON; without the groups."""
        return {
            "groups": len(self.y),
            "rows": int(self.counts.sum()),
            "coordinates": self.coordinates,
            "shrinkage": self.shrinkage,
            "explained": self.explained,
            "explained_by_ridge": self.explained_by_ridge,
            "covered": self.covered,
            "variance": dict(zip(("embeddings", "slopes", "noise"), self.parts, strict=True)),
        }

    def __str__(self) -> str:
        low, middle, high = np.quantile(self.counts, [0.0, 0.5, 1.0])
        total = sum(self.parts)
        shares = [100.0 * part / total for part in self.parts]
        lines = [
            f"{counted(len(self.y), 'group')} of {low:.0f} to {high:.0f} rows (median "
            f"{middle:.0f}), embeddings in {counted(self.coordinates, 'coordinate')}.",
            f"Predicted by groups of other folds: {100.0 * self.explained:.1f} % of the variance "
            f"of y is explained ({100.0 * self.explained_by_ridge:.1f} % by ridge regression on "
            f"embeddings as they are); {100.0 * self.covered:.1f} % of the 90 % intervals hold y.",
            f"What is not known of y: {shares[2]:.0f} % noise, {shares[0]:.0f} % for groups have "
            f"few rows, {shares[1]:.0f} % for there are few groups.",
        ]
        return "\n  ".join(lines)

    def __repr__(self) -> str:
        return f"<regression of {len(self.y)} groups: {self.explained:.1%} explained>"


def share_explained(y: np.ndarray, predicted: np.ndarray) -> float:
    """What share of the variance of y (G,) predictions (G,) explain, R^2."""
    return 1.0 - float(np.mean((y - predicted) ** 2) / np.var(y))
