"""Results of a comparison of two tables: numbers, without their formatting."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from ..comparison.regions import Region
from ..core.errors import InputError, nearest
from ..io.types import ColumnType
from .associations import Measure
from .effects import Effect, Histogram
from .statistics import Marginal

if TYPE_CHECKING:
    import pandas as pd


@dataclasses.dataclass(frozen=True, repr=False)
class ColumnFindings:
    """Change of one column.

    Attributes:
        name: name of the column.
        kind: type of the column.
        pvalue: p-value, adjusted for all columns by step-down.
        reject: the column has changed: its p-value and that of the tables are at most alpha.
        effect: effect sizes.
        regions: regions of numbers in which the densities differ, as in
            :func:`~bke.inference.compare`, adjusted for the regions of all columns; empty unless
            ``reject``.
        marginals: statistics of the derived features.
        histogram: histogram of numbers, dates or lengths of texts.
        names: names of the tables.
        strongest_feature: name of the derived feature whose change is most significant, such as
            ``"missing"`` or ``"weekday"``; empty for the values themselves.
    """

    name: str
    kind: ColumnType
    pvalue: float
    reject: bool
    effect: Effect
    regions: tuple[Region, ...]
    marginals: tuple[Marginal, ...]
    histogram: Histogram | None
    names: tuple[str, str]
    strongest_feature: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data, with the names of the attributes as keys."""
        return {
            "name": self.name,
            "kind": self.kind,
            "pvalue": self.pvalue,
            "reject": self.reject,
            "strongest_feature": self.strongest_feature,
            "effect": self.effect.to_dict(),
            "regions": [region.to_dict() for region in self.regions],
        }


@dataclasses.dataclass(frozen=True)
class PairComparison:
    """Change of the association of two columns.

    Attributes:
        columns: names of the columns.
        pvalue: p-value, adjusted for all pairs by step-down.
        reject: the association has changed: the p-value and that of the tables are at most alpha.
        features: the features of both columns with the largest change, such as their ranks or a
            level of a category.
        measure: measure of association, with normal scores of the ranks in each table: the
            correlation of two scores, the mean difference of a score between a level (the first of
            ``features``) and the reference level in standard deviations within levels, or the odds
            ratio of two levels. The reference is the most frequent level of a column.
        strengths: the measure in the first and in the second table; NaN if a feature is constant.
    """

    columns: tuple[str, str]
    pvalue: float
    reject: bool
    features: tuple[str, str]
    measure: Measure
    strengths: tuple[float, float]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data, with the names of the attributes as keys."""
        return {
            **dataclasses.asdict(self),
            "columns": list(self.columns),
            "features": list(self.features),
            "strengths": [None if math.isnan(value) else value for value in self.strengths],
        }


@dataclasses.dataclass(frozen=True, repr=False)
class TableFindings:
    """Differences of two tables, in columns and pairs of columns.

    Attributes:
        pvalue: p-value of the hypothesis that both tables have one distribution, by permutations,
            with an exact level.
        pvalue_error: Monte Carlo standard error of the p-value.
        alpha: level of the test, of all columns together and of all pairs together.
        n_resamples: number of permutations.
        columns: columns, in the order of the first table.
        pairs: pairs of columns.
        sizes: numbers of rows of both tables.
        names: names of the tables.
        left_out: columns that were not compared, and reasons.
        notes: notes on how columns were read, and warnings.
        seed: seed of the permutations.
        design: descriptions of clusters, strata and weights.
    """

    pvalue: float
    pvalue_error: float
    alpha: float
    n_resamples: int
    columns: tuple[ColumnFindings, ...]
    pairs: tuple[PairComparison, ...]
    sizes: tuple[int, int]
    names: tuple[str, str]
    left_out: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    seed: int
    design: tuple[str, ...]

    @property
    def reject(self) -> bool:
        """True if the test rejects at level ``alpha``."""
        return self.pvalue <= self.alpha

    @property
    def ordered(self) -> list[ColumnFindings]:
        """The columns, the most significant first."""
        return sorted(self.columns, key=lambda column: (column.pvalue, not column.reject))

    @property
    def changed_pairs(self) -> list[PairComparison]:
        """The pairs whose association has changed, the most significant first."""
        return sorted((pair for pair in self.pairs if pair.reject), key=lambda pair: pair.pvalue)

    def __getitem__(self, name: str) -> ColumnFindings:
        for column in self.columns:
            if column.name == name:
                return column
        names = [column.name for column in self.columns]
        raise KeyError(f"no column {name!r}{nearest(name, names)}")

    def changed_columns(self, min_effect: float = 0.0) -> tuple[ColumnFindings, ...]:
        """Select the columns that have changed.

        Args:
            min_effect: smallest effect size, from 0 to 1: the largest change in a proportion of
                rows, ``comparison["name"].effect.size``.

        Raises:
            InputError: ``min_effect`` is not between 0 and 1.
        """
        if not 0.0 <= min_effect <= 1.0:
            raise InputError(f"min_effect must be between 0 and 1, and is {min_effect}")
        return tuple(
            column for column in self.columns if column.reject and column.effect.size >= min_effect
        )

    def to_dataframe(self) -> pd.DataFrame:
        """Return a data frame with a row for each column, in the order of the first table.

        Columns: ``name``; ``kind``; ``pvalue``, adjusted for all columns; ``reject``;
        ``effect_size``, the largest change in a proportion of rows; the proportions of missing
        values ``missing_before`` and ``missing_after``; for numbers ``median_before`` and
        ``median_after``; for dates ``date_median_before`` and ``date_median_after``; for both the
        difference of medians ``shift`` (of dates in seconds); for numbers, with the ends of
        confidence intervals, ``mean_difference`` (``mean_difference_low`` to
        ``mean_difference_high``), the Hodges-Lehmann ``median_difference``
        (``median_difference_low`` to ``median_difference_high``), ``spread_before``,
        ``spread_after``, and ``auc``, the probability that a value of the second table is larger
        (``auc_low`` to ``auc_high``). Values that a column does not have are NaN, or NaT for dates.
        ``attrs`` has ``pvalue``, ``pvalue_error``, ``alpha``, ``n_resamples``, ``names`` and
        ``sizes`` of the comparison.

        Proportions of levels are in :meth:`levels_to_dataframe`.
        """
        import pandas as pd

        rows = []
        for column in self.columns:
            effect, undefined = column.effect, (None, None)
            medians = dict(zip(("before", "after"), effect.medians or undefined, strict=True))
            is_date = column.kind == "datetime"
            numbers = {f"median_{when}": None if is_date else medians[when] for when in medians}
            numbers["shift"] = effect.shift
            dates = {f"date_median_{when}": medians[when] if is_date else None for when in medians}
            estimates = {
                "mean_difference": (effect.mean_difference, effect.mean_difference_interval),
                "median_difference": (effect.median_difference, effect.median_difference_interval),
                "auc": (effect.auc, effect.auc_interval),
            }
            for name, (estimate, interval) in estimates.items():
                low, high = interval or undefined
                numbers |= {name: estimate, f"{name}_low": low, f"{name}_high": high}
            pairs = {"missing": effect.missing, "spread": effect.deviations or undefined}
            for name, (before, after) in pairs.items():
                numbers |= {f"{name}_before": before, f"{name}_after": after}
            rows.append(
                {"name": column.name, "kind": column.kind, "pvalue": column.pvalue}
                | {"reject": column.reject, "effect_size": effect.size}
                | {name: math.nan if value is None else value for name, value in numbers.items()}
                | {
                    name: pd.NaT if value is None else pd.Timestamp(value, unit="s")
                    for name, value in dates.items()
                }
            )
        frame = pd.DataFrame(rows)
        return self._with_attributes(frame)

    def levels_to_dataframe(self) -> pd.DataFrame:
        """Return a data frame with a row for each level of the columns.

        Columns: ``column``; ``level``, a category, a weekday, an hour, a word, a trigram or a
        tail; its proportions of rows ``before`` and ``after``. The most significant levels of a
        column are first.
        """
        import pandas as pd

        rows = [
            (column.name, level.level, level.before, level.after)
            for column in self.columns
            for level in column.effect.shares
        ]
        frame = pd.DataFrame(rows, columns=["column", "level", "before", "after"])
        return self._with_attributes(frame)

    def _with_attributes(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Add what belongs to the whole comparison to a data frame."""
        names = ("pvalue", "pvalue_error", "alpha", "n_resamples", "names", "sizes")
        frame.attrs = {name: getattr(self, name) for name in names}
        return frame

    def pairs_to_dataframe(self) -> pd.DataFrame:
        """Return a data frame with a row for each pair of columns.

        Columns: ``first`` and ``second``, the names of the columns; ``pvalue``, adjusted for all
        pairs; ``reject``; ``first_feature`` and ``second_feature``, the features with the largest
        change of association; the ``measure`` of association, and its value ``before`` and
        ``after``.
        """
        import pandas as pd

        names = ["first", "second", "pvalue", "reject", "first_feature", "second_feature"]
        rows = [
            [*pair.columns, pair.pvalue, pair.reject, *pair.features, pair.measure, *pair.strengths]
            for pair in self.pairs
        ]
        frame = pd.DataFrame(rows, columns=[*names, "measure", "before", "after"])
        return self._with_attributes(frame)
