"""Several groups of one table, each compared with one of them or with all others together."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ..core.errors import InputError
from ..core.notebook import Shown
from ..data.checks import normalize_text, pluralize
from ..io.columns import as_values, unused_na_values, unused_notes
from ..io.tables import Table, as_table
from .compare_tables import compare_tables
from .markdown import escaped
from .page import groups_page
from .pooled import divided, group_names, in_brackets, read_notes
from .result import SCHEMA, TableComparison
from .words import told, verdict

if TYPE_CHECKING:
    import pandas as pd

#: Groups of a column beyond which it is no column of groups.
MOST = 50
#: Rows of the group that others are compared with which are few, or that share of the median one.
FEW, MANY_TIMES = 10, 20


@dataclasses.dataclass(frozen=True, repr=False)
class GroupsComparison(Shown):
    """Which groups of a table differ, and how; printed it is the report.

    Attributes:
        by: the column that tells the groups.
        comparisons: each at level ``alpha`` over their number, so that the chance of naming
            anything that does not differ is at most ``alpha`` in all of them together.
        alpha: of all comparisons together.
        read: what is odd about how the table was read.
    """

    by: str
    comparisons: tuple[TableComparison, ...]
    alpha: float
    read: tuple[str, ...] = ()

    @property
    def differ(self) -> bool:
        """Whether any two differ."""
        return any(one.differ for one in self.comparisons)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is odd about columns: once, or with the groups in which it is."""
        each = [one.notes for one in self.comparisons]
        shared = [note for note in each[0] if all(note in others for others in each)]
        own = [
            f"{' and '.join(one.names)}: {note}"
            for one in self.comparisons
            for note in one.notes
            if note not in shared
        ]
        return (*self.read, *shared, *own)

    @property
    def sentence(self) -> str:
        """The answer."""
        many = sum(one.differ for one in self.comparisons)
        total = len(self.comparisons)
        return (
            f"{many} of {total} comparisons of groups of {self.by} find a difference, at level "
            f"{self.alpha:.3g} for all together."
        )

    def to_dataframe(self) -> pd.DataFrame:
        """One row for each column of each comparison.

        Columns: ``reference`` and ``group``, what was compared, and those of
        :meth:`~bke.inference.TableComparison.to_dataframe`.
        """
        import pandas as pd

        each = []
        for one in self.comparisons:
            frame = one.to_dataframe()
            frame.insert(0, "reference", one.names[0])
            frame.insert(1, "group", one.names[1])
            each.append(frame)
        return pd.concat(each, ignore_index=True)

    def to_dict(self) -> dict[str, Any]:
        """Tell everything as plain data, keys named as the attributes."""
        return {
            "schema": SCHEMA,
            "by": self.by,
            "differ": self.differ,
            "alpha": self.alpha,
            "comparisons": [one.to_dict() for one in self.comparisons],
            "notes": list(self.notes),
            "sentence": self.sentence,
        }

    def to_markdown(self) -> str:
        """Tell all comparisons as GitHub-flavoured Markdown."""
        parts = [one.to_markdown() for one in self.comparisons]
        notes = [f"{escaped(note)}\n" for note in self.read]
        return "\n".join([f"**{self.sentence}**\n", *notes, *parts])

    def to_html(self) -> str:
        """Tell all comparisons as one page that needs no network."""
        return groups_page(self.sentence, self.comparisons, self.read)

    def __str__(self) -> str:
        shown = [
            told(one) if one.differ else f"{verdict(one)} Level {one.alpha:.3g}."
            for one in self.comparisons
        ]
        return "\n".join([self.sentence, *shown, *(f"Note: {note}" for note in self.notes)])

    def __repr__(self) -> str:
        many = sum(one.differ for one in self.comparisons)
        return f"<GroupsComparison by {self.by!r}: {many} of {len(self.comparisons)} differ>"


def compare_groups(
    table: Any,
    by: str,
    *,
    against: Any = None,
    rest: bool = False,
    alpha: float = 0.05,
    encoding: str | None = None,
    na_values: Sequence[str | float] = (),
    **options: Any,
) -> GroupsComparison:
    """Compare the groups of a table, which a column tells: each with one of them, or with the rest.

    Args:
        table: a data frame or the path of a file, as of :func:`~bke.inference.compare_tables`.
        by: the column.
        against: the value of the group that every other is compared with; by default the first,
            numbers and dates ascending, else words.
        rest: compare each group with all others together instead.
        alpha: level of all that is said together; each comparison has its share of it (Bonferroni).
        encoding: of a text file.
        na_values: cells that stand for a missing value.
        **options: of :func:`~bke.inference.compare_tables`.

    Raises:
        InputError: there are fewer than two groups or too many, or no such group; or as of
            :func:`~bke.inference.compare_tables`.
    """
    by, against = normalize_text(by), normalize_text(against)
    if against is not None and not isinstance(against, str):
        against = group_names(pa.array([against]), by)[0].as_py()
    whole = as_table(table, "the table", encoding)
    na_values = as_values(na_values)
    groups, without = divided(whole, by, na_values)
    unused = unused_notes([whole], na_values)
    if not 2 <= len(groups) <= MOST:
        raise InputError(
            f"column {by!r} has {pluralize(len(groups), 'value')}{in_brackets(without)}, and 2 to "
            f"{MOST} are needed to compare groups"
        )
    if rest and against is not None:
        raise InputError("groups are compared against one of them, or each with the rest")
    pairs = _with_rest(groups, by) if rest else _with_one(groups, by, against)
    found = tuple(
        compare_tables(
            first.data,
            second.data,
            names=(first.source, second.source),
            na_values=_used(first, second, na_values),
            alpha=alpha / len(pairs),
            **options,
        )
        for first, second in pairs
    )
    few = () if rest else _few_rows(groups, pairs[0][0])
    return GroupsComparison(by, found, alpha, (*few, *read_notes([whole]), *without, *unused))


def _few_rows(groups: dict[str, Table], chosen: Table) -> tuple[str, ...]:
    """That the group which all others are compared with has hardly any rows."""
    rows, usual = chosen.data.num_rows, np.median([one.data.num_rows for one in groups.values()])
    if rows >= max(FEW, usual / MANY_TIMES):
        return ()
    return (
        f"All are compared with {chosen.source}, which has {pluralize(rows, 'row')}: choose "
        "another group (--against, against=)",
    )


def _used(first: Table, second: Table, na_values: Sequence[str | float]) -> list[str | float]:
    """Return the cells that two groups have: others need no note."""
    unused = unused_na_values([first, second], na_values)
    return [value for value in na_values if value not in unused]


def _with_one(groups: dict[str, Table], by: str, against: str | None) -> list[tuple[Table, Table]]:
    chosen = next(iter(groups)) if against is None else against
    if chosen not in groups:
        have = ", ".join(map(repr, list(groups)[:12]))
        raise InputError(f"column {by!r} has no value {chosen!r}: it has {have}")
    return [(groups[chosen], group) for value, group in groups.items() if value != chosen]


def _with_rest(groups: dict[str, Table], by: str) -> list[tuple[Table, Table]]:
    if len(groups) == 2:
        return [(*groups.values(),)]  # type: ignore[list-item]
    pairs = []
    for value, group in groups.items():
        others = pa.concat_tables([one.data for name, one in groups.items() if name != value])
        pairs.append((Table(others, f"all other {by}"), group))
    return pairs
