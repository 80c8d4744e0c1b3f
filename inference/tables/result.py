"""Results of comparisons of tables and of groups, with reports and pictures."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from ..core.names import printable_lines
from ..core.notebook import ReprMixin
from ..permutation.null_distribution import describe_p
from .findings import ColumnFindings, TableFindings
from .page import groups_page, tables_page
from .summary import (
    escape_markdown,
    format_answer,
    format_column,
    format_column_p,
    format_markdown,
    format_tables,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

#: Version of ``TableComparison.to_dict``, raised if a key is removed or changes its meaning.
SCHEMA = 2


class ColumnComparison(ColumnFindings, ReprMixin):
    """Change of one column; ``print`` writes a sentence.

    The attributes are those of :class:`~bke.inference.tables.findings.ColumnFindings`.
    """

    def __str__(self) -> str:
        return printable_lines(format_column(self))

    def __repr__(self) -> str:
        return f"<ColumnComparison {self.name!r}: {format_column_p(self)}>"


class TableComparison(TableFindings, ReprMixin):
    """Differences of two tables, in columns and pairs of columns; ``print`` writes the report.

    ``comparison["name"]`` is the comparison of a column. The attributes are those of
    :class:`~bke.inference.tables.findings.TableFindings`.
    """

    def plot(self, **options: Any) -> Figure:
        """Plot the distribution of columns in both tables, changed columns first.

        Args:
            **options: ``columns``, ``ax``, ``figsize``, ``title`` and ``legend`` of
                :func:`~bke.inference.plot_tables`.
        """
        from ..plots.tables import plot_tables

        return plot_tables(self, **options)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data, with the names of the attributes as keys."""
        return {
            "schema": SCHEMA,
            "reject": self.reject,
            "pvalue": self.pvalue,
            "pvalue_error": self.pvalue_error,
            "alpha": self.alpha,
            "n_resamples": self.n_resamples,
            "sizes": list(self.sizes),
            "names": list(self.names),
            "columns": [column.to_dict() for column in self.columns],
            "pairs": [pair.to_dict() for pair in self.pairs],
            "left_out": [{"name": name, "reason": reason} for name, reason in self.left_out],
            "notes": list(self.notes),
            "seed": self.seed,
            "design": list(self.design),
            "sentence": str(self).splitlines()[0],
        }

    def to_markdown(self) -> str:
        """Format the answer and all columns as GitHub-flavored Markdown."""
        return format_markdown(self)

    def to_html(self) -> str:
        """Render an HTML page with a picture of every column, which needs no network."""
        return tables_page(self)

    def __str__(self) -> str:
        lines = [format_tables(self), *(f"Note: {note}" for note in self.notes)]
        return printable_lines("\n  ".join(lines))

    def __repr__(self) -> str:
        answer = "differ" if self.reject else "no difference found"
        return f"<TableComparison: {answer}, {describe_p(self.pvalue, self.n_resamples)}>"


@dataclasses.dataclass(frozen=True, repr=False)
class GroupsComparison(ReprMixin):
    """Differences between the groups of a table; ``print`` writes the report.

    Attributes:
        by: column of the groups.
        comparisons: comparisons, each at level ``alpha`` divided by their number, so that the
            probability of any false positive is at most ``alpha``.
        alpha: level of all comparisons together.
        read: notes on how the table was read.
    """

    by: str
    comparisons: tuple[TableComparison, ...]
    alpha: float
    read: tuple[str, ...] = ()

    @property
    def reject(self) -> bool:
        """True if any comparison finds a difference."""
        return self._n_different > 0

    @property
    def _n_different(self) -> int:
        return sum(comparison.reject for comparison in self.comparisons)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the table and its columns; notes on one comparison start with its groups."""
        first, *rest = (comparison.notes for comparison in self.comparisons)
        shared = [note for note in first if all(note in notes for notes in rest)]
        specific = [
            f"{' and '.join(comparison.names)}: {note}"
            for comparison in self.comparisons
            for note in comparison.notes
            if note not in shared
        ]
        return (*self.read, *shared, *specific)

    @property
    def sentence(self) -> str:
        """The answer."""
        return (
            f"{self._n_different} of {len(self.comparisons)} comparisons of groups of {self.by} "
            f"find a difference, at family-wise level {self.alpha:.3g}."
        )

    def to_dataframe(self) -> pd.DataFrame:
        """Return a data frame with a row for each column of each comparison.

        Columns: ``reference`` and ``group``, the names of the groups, and those of
        :meth:`~bke.inference.TableComparison.to_dataframe`.
        """
        import pandas as pd

        frames = []
        for comparison in self.comparisons:
            frame = comparison.to_dataframe()
            frame.insert(0, "reference", comparison.names[0])
            frame.insert(1, "group", comparison.names[1])
            frames.append(frame)
        return pd.concat(frames, ignore_index=True)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data, with the names of the attributes as keys."""
        return {
            "schema": SCHEMA,
            "by": self.by,
            "reject": self.reject,
            "alpha": self.alpha,
            "comparisons": [comparison.to_dict() for comparison in self.comparisons],
            "notes": list(self.notes),
            "sentence": self.sentence,
        }

    def to_markdown(self) -> str:
        """Format all comparisons as GitHub-flavored Markdown."""
        comparisons = [comparison.to_markdown() for comparison in self.comparisons]
        notes = [f"{escape_markdown(note)}\n" for note in self.read]
        return "\n".join([f"**{self.sentence}**\n", *notes, *comparisons])

    def to_html(self) -> str:
        """Render an HTML page of all comparisons, which needs no network."""
        return groups_page(self.sentence, self.comparisons, self.read)

    def __str__(self) -> str:
        reports = [
            format_tables(comparison)
            if comparison.reject
            else f"{format_answer(comparison)} Level {comparison.alpha:.3g}."
            for comparison in self.comparisons
        ]
        notes = (f"Note: {note}" for note in self.notes)
        return printable_lines("\n".join([self.sentence, *reports, *notes]))

    def __repr__(self) -> str:
        return (
            f"<GroupsComparison by {self.by!r}: {self._n_different} of {len(self.comparisons)} "
            "differ>"
        )
