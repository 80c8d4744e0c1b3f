"""What a comparison of tables found, as data frames."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .findings import ColumnFindings, PairComparison

if TYPE_CHECKING:
    import pandas as pd

#: Names of the numbers that are told of a column.
NUMBERS = (
    "effect_size",
    *("missing_before", "missing_after", "median_before", "median_after"),
    *("shift", "shift_low", "shift_high", "spread_before", "spread_after"),
    *("auc", "auc_low", "auc_high"),
)
NOT_TOLD = (None, None)


def frame_of_columns(columns: Iterable[ColumnFindings]) -> pd.DataFrame:
    """One row for each column."""
    import pandas as pd

    rows = [[one.name, one.kind, one.pvalue, one.differ, *_numbers(one)] for one in columns]
    frame = pd.DataFrame(rows, columns=["name", "kind", "pvalue", "differ", *NUMBERS])
    return frame.astype(dict.fromkeys(NUMBERS, float))


def frame_of_pairs(pairs: Iterable[PairComparison]) -> pd.DataFrame:
    """One row for each pair of columns."""
    import pandas as pd

    header = ["first", "second", "pvalue", "differ", "first_feature", "second_feature"]
    rows = [
        [*one.columns, one.pvalue, one.differ, *one.features, one.measure, *one.strengths]
        for one in pairs
    ]
    return pd.DataFrame(rows, columns=[*header, "measure", "before", "after"])


def _numbers(of: ColumnFindings) -> list[Any]:
    """As many as :data:`NUMBERS`; ``None`` where one is not told."""
    found = of.effect
    return [
        found.size,
        *found.missing,
        *(found.medians or NOT_TOLD),
        found.shift,
        *(found.shift_interval or NOT_TOLD),
        *(found.deviations or NOT_TOLD),
        found.auc,
        *(found.auc_interval or NOT_TOLD),
    ]
