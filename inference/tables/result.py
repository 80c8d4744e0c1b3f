"""A comparison of two tables: one object, from which every word and page comes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..core.errors import InputError, nearest
from ..core.notebook import Shown
from ..permutation.permutation import p_in_words
from .findings import ColumnFindings, TableFindings
from .markdown import as_markdown
from .page import tables_page
from .rows import frame_of_columns, frame_of_pairs
from .words import column_p, column_told, told

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: The version of ``TableComparison.to_dict``, raised where a key goes or changes its meaning.
SCHEMA = 1


class ColumnComparison(ColumnFindings, Shown):
    """Whether and how one column has changed; printed it is a sentence.

    Its attributes are those of :class:`~bke.inference.tables.findings.ColumnFindings`.
    """

    def __str__(self) -> str:
        return column_told(self)

    def __repr__(self) -> str:
        return f"<ColumnComparison {self.name!r}: {column_p(self)}>"


class TableComparison(TableFindings, Shown):
    """Whether two tables differ, and in which columns and pairs of columns.

    Printed it is the report, and ``comparison["name"]`` is one column's. Its attributes are those
    of :class:`~bke.inference.tables.findings.TableFindings`.
    """

    def __getitem__(self, name: str) -> ColumnFindings:
        for column in self.columns:
            if column.name == name:
                return column
        known = [column.name for column in self.columns]
        raise KeyError(f"no column {name!r}{nearest(name, known)}")

    def changed_columns(self, min_effect: float = 0.0) -> tuple[ColumnFindings, ...]:
        """Select the columns that have changed, by at least so much.

        Args:
            min_effect: the least effect size, from 0 to 1: the largest change in a proportion of
                rows, ``comparison["name"].effect.size``.

        Raises:
            InputError: ``min_effect`` is not between 0 and 1.
        """
        if not 0.0 <= min_effect <= 1.0:
            raise InputError(f"min_effect must be between 0 and 1, and is {min_effect}")
        return tuple(
            column for column in self.columns if column.differ and column.effect.size >= min_effect
        )

    def to_dataframe(self) -> pd.DataFrame:
        """One row for each column, in the order of the first table.

        Columns: ``name``, ``kind``, ``pvalue``, adjusted for all columns, and ``differ``;
        ``effect_size``, the largest change in a proportion of rows; shares of ``missing_before``
        and ``missing_after``; of numbers and dates (in seconds since 1970)
        ``median_before``, ``median_after`` and their ``shift``, ``shift_low`` to ``shift_high``; of
        numbers ``spread_before`` and ``spread_after``, and ``auc``, how often a value of the second
        table is the larger, ``auc_low`` to ``auc_high``. What is not told of a column is NaN.
        """
        return frame_of_columns(self.columns)

    def pairs_to_dataframe(self) -> pd.DataFrame:
        """One row for each pair of columns.

        Columns: ``first`` and ``second``, their names; ``pvalue``, adjusted for all pairs, and
        ``differ``; ``first_feature`` and ``second_feature``, what goes together differently; the
        ``measure`` of how strongly, and its value ``before`` and ``after``.
        """
        return frame_of_pairs(self.pairs)

    def plot(
        self,
        *,
        columns: Sequence[str] | str | None = None,
        axes: Axes | Sequence[Axes] | None = None,
    ) -> Figure:
        """Draw how columns are spread in both tables, those first that have changed.

        Args:
            columns: names, or one; by default those that have changed, at most nine.
            axes: one for each column that is drawn; by default a new figure.

        Raises:
            InputError: for a column that there is not, or a wrong number of ``axes``.
        """
        from ..plots.tables import plot_tables

        return plot_tables(self, columns=columns, axes=axes)

    def to_dict(self) -> dict[str, Any]:
        """Tell everything as plain data, keys named as the attributes."""
        return {
            "schema": SCHEMA,
            "differ": self.differ,
            "pvalue": self.pvalue,
            "pvalue_error": self.pvalue_error,
            "alpha": self.alpha,
            "permutations": self.permutations,
            "sizes": list(self.sizes),
            "names": list(self.names),
            "columns": [column.to_dict() for column in self.columns],
            "pairs": [pair.to_dict() for pair in self.pairs],
            "left_out": [{"name": name, "reason": why} for name, why in self.left_out],
            "notes": list(self.notes),
            "seed": self.seed,
            "design": list(self.design),
            "sentence": str(self).splitlines()[0],
        }

    def to_markdown(self) -> str:
        """Tell the answer and every column as GitHub-flavoured Markdown."""
        return as_markdown(self)

    def to_html(self) -> str:
        """Tell everything as one page that needs no network, with a picture of every column."""
        return tables_page(self)

    def __str__(self) -> str:
        return "\n  ".join([told(self), *(f"Note: {note}" for note in self.notes)])

    def __repr__(self) -> str:
        verdict = "differ" if self.differ else "no difference found"
        return f"<TableComparison: {verdict}, {p_in_words(self.pvalue, self.permutations)}>"
