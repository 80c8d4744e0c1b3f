"""HTML representation of results in notebooks: the decision, a plot, and folded details.

It has the output of ``print``, ``.plot()`` and ``.to_dataframe()`` of the result. Colors are those
of the notebook, light or dark; the plot has a white background.
"""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Most lines of the printed report that are not folded, and most rows of the folded table.
LINES, ROWS = 10, 30
DOTS_PER_INCH = 110
#: Pixels of the screen per inch of the plot.
PIXELS = 72


class ReprMixin:
    """Mixin of results with an HTML representation from their report, plot and data frame."""

    def _repr_html_(self) -> str | None:
        """Return HTML for a notebook, or ``None`` on an error, so that ``repr`` is used."""
        try:
            return _html(self)
        except Exception:  # a cell of a notebook must not fail because of a representation
            return None

    def _answer(self) -> str:
        """Return the first line of the representation."""
        return str(self).partition("\n")[0]


class _Picture(NamedTuple):
    """An image as a data URL, and its width on the screen."""

    address: str = ""
    width: int = 0


class _Table(NamedTuple):
    """Formatted rows of a data frame, and the number of further rows."""

    header: list[str]
    rows: list[list[str]]
    more: int


def _html(result: ReprMixin) -> str:
    from .render import render

    report, answer = str(result), result._answer()
    lines = report.replace(answer, "", 1).strip("\n").splitlines()
    count = len(lines) if len(lines) <= LINES else LINES - 1
    picture, table = _picture(result), _table(result)
    return render(
        "notebook.html",
        answer=answer,
        report="\n".join(lines[:count]),
        folded="\n".join(lines[count:]),
        picture=picture.address,
        width=picture.width,
        **table._asdict(),
    )


def _picture(result: Any) -> _Picture:
    """Return the plot of a result; an empty picture if it has none."""
    from .render import as_data

    if not hasattr(result, "plot"):
        return _Picture()
    try:
        figure: Figure = result.plot()
        try:
            buffer = io.BytesIO()
            figure.savefig(buffer, format="png", dpi=DOTS_PER_INCH)
            return _Picture(
                as_data(buffer.getvalue(), "image/png"), round(PIXELS * figure.get_figwidth())
            )
        finally:
            if "matplotlib.pyplot" in sys.modules:  # otherwise pyplot does not manage the figure
                sys.modules["matplotlib.pyplot"].close(figure)
    except Exception:  # such as data that cannot be plotted
        return _Picture()


def _table(result: Any) -> _Table:
    """Return the data frame of a result; an empty table if it has none."""
    if not hasattr(result, "to_dataframe"):
        return _Table([], [], 0)
    try:
        frame = result.to_dataframe()
    except Exception:
        return _Table([], [], 0)
    rows = [[_cell(cell) for cell in row] for row in frame.head(ROWS).itertuples(index=False)]
    return _Table(
        [str(name) for name in frame.columns] if rows else [], rows, len(frame) - len(rows)
    )


def _cell(cell: Any) -> str:
    if cell != cell:  # missing value
        return ""
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)
