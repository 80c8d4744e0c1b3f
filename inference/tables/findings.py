"""What a comparison of two tables found, in numbers."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from ..comparison.named import Place
from ..io.types import ColumnType
from .association import Measure
from .changes import Change
from .histograms import Histogram
from .marginal import Marginal


@dataclasses.dataclass(frozen=True, repr=False)
class ColumnFindings:
    """Whether and how one column has changed.

    Attributes:
        name: of the column.
        kind: how it was compared.
        pvalue: adjusted for all columns, by stepping down.
        differ: whether the column is named: its p-value and that of the tables are at most alpha.
        effect: by how much it has changed.
        places: where on the line of a number, as of :func:`~bke.inference.compare`; all columns'
            places compete with each other. None unless ``differ``.
        marginals: what was evaluated of it.
        histogram: of numbers and dates, and of the lengths of texts.
        names: what the tables are called.
    """

    name: str
    kind: ColumnType
    pvalue: float
    differ: bool
    effect: Change
    places: tuple[Place, ...]
    marginals: tuple[Marginal, ...]
    histogram: Histogram | None
    names: tuple[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data, keys named as the attributes."""
        return {
            "name": self.name,
            "kind": self.kind,
            "pvalue": self.pvalue,
            "differ": self.differ,
            "effect": self.effect.to_dict(),
            "places": [place.to_dict() for place in self.places],
        }


@dataclasses.dataclass(frozen=True)
class PairComparison:
    """Whether two columns go together differently.

    Attributes:
        columns: their names.
        pvalue: adjusted for all pairs, by stepping down.
        differ: whether the pair is named.
        features: what of the two has changed most in how it goes together, such as their ranks or
            one level of a category.
        measure: of how strongly the features go together, by normal scores of ranks in each table:
            the correlation of two scores; the difference that a level, the first of ``features``,
            makes to a score's mean, in standard deviations within; the odds ratio of two levels.
            A level is held against the column's most frequent one, that one against the second.
        strengths: that measure in the first table and in the second; NaN where a feature is
            constant in one.
    """

    columns: tuple[str, str]
    pvalue: float
    differ: bool
    features: tuple[str, str]
    measure: Measure
    strengths: tuple[float, float]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data, keys named as the attributes."""
        return {
            **dataclasses.asdict(self),
            "columns": list(self.columns),
            "features": list(self.features),
            "strengths": [None if math.isnan(one) else one for one in self.strengths],
        }


@dataclasses.dataclass(frozen=True, repr=False)
class TableFindings:
    """Whether two tables differ, and in which columns and pairs of columns.

    Attributes:
        pvalue: of "both tables have one distribution", by permutations, at an exact level.
        pvalue_error: the standard error that the draw of the permutations leaves in it.
        alpha: level of the test, of the columns together and of the pairs together.
        permutations: how many there were.
        columns: in the order of the first table.
        pairs: of columns.
        sizes: rows of both tables.
        names: what the tables are called.
        left_out: columns that were not compared, and why.
        notes: how columns were read, and what looks odd.
        seed: of the permutations.
        design: how rows go together and count, in words.
    """

    pvalue: float
    pvalue_error: float
    alpha: float
    permutations: int
    columns: tuple[ColumnFindings, ...]
    pairs: tuple[PairComparison, ...]
    sizes: tuple[int, int]
    names: tuple[str, str]
    left_out: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    seed: int
    design: tuple[str, ...]

    @property
    def differ(self) -> bool:
        """Whether the test rejects at level ``alpha``."""
        return self.pvalue <= self.alpha

    @property
    def ordered(self) -> list[ColumnFindings]:
        """The columns, the most significant first."""
        return sorted(self.columns, key=lambda one: (one.pvalue, not one.differ))
