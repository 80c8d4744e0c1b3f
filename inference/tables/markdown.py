"""A comparison of two tables as a table of GitHub-flavoured Markdown."""

from __future__ import annotations

from ..permutation.permutation import p_alone
from .findings import ColumnFindings, TableFindings
from .words import effects_told, made, pair_told, verdict

#: Characters that would end a cell or begin something else.
SPECIAL = "\\|`*_[]<>"


def as_markdown(found: TableFindings) -> str:
    """Write the answer, then a table of all columns, the most significant first, then pairs."""
    lines = [f"**{escaped(verdict(found))}**", ""]
    lines += ["| column | kind | changed | p, adjusted | how |", "| --- | --- | --- | ---: | --- |"]
    for column in sorted(found.columns, key=lambda one: one.pvalue):
        lines.append(_row(column, found.permutations))
    pairs = [pair for pair in found.pairs if pair.differ]
    if pairs:
        lines += ["", *(f"- {escaped(pair_told(pair, found))}" for pair in pairs)]
    if found.notes:
        lines += ["", *(f"- {escaped(note)}" for note in found.notes)]
    lines += ["", escaped(made(found))]
    return "\n".join(lines) + "\n"


def _row(column: ColumnFindings, permutations: int) -> str:
    cells = (
        column.name,
        column.kind,
        "yes" if column.differ else "not found",
        p_alone(column.pvalue, permutations),
        "; ".join(effects_told(column)),
    )
    return f"| {' | '.join(map(escaped, cells))} |"


def escaped(text: str) -> str:
    """Text that Markdown shows as it is, in one line."""
    return "".join(f"\\{one}" if one in SPECIAL else one for one in " ".join(text.split()))
