"""How results show themselves in notebooks: the answer, a picture, and the rest folded away.

What is shown is what ``print``, ``.plot()`` and ``.to_dataframe()`` of the result give. Colours are
those of the notebook, light or dark; a picture has a ground of its own.
"""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Lines of the printed report that are shown at once, and rows of a table when it is unfolded.
LINES, ROWS = 10, 30
DOTS_PER_INCH = 110
#: Pixels of the screen for an inch of the picture.
PIXELS = 72


class Shown:
    """A result that shows itself in a notebook, by what it prints and draws."""

    def _repr_html_(self) -> str | None:
        """HTML for a notebook; ``None``, where it cannot be made, leaves it to ``repr``."""
        try:
            return _html(self)
        except Exception:  # a cell of a notebook must not fail for how its result is shown
            return None

    def _answer(self) -> str:
        """The line of the printed report that is told before all others."""
        return str(self).partition("\n")[0]


class _Picture(NamedTuple):
    """An image as an address that holds it, and how wide it is on the screen."""

    address: str = ""
    width: int = 0


class _Table(NamedTuple):
    """Rows of a data frame in words, and how many there are beyond them."""

    header: list[str]
    rows: list[list[str]]
    more: int


def _html(result: Shown) -> str:
    from .render import render

    report, answer = str(result), result._answer()
    lines = report.replace(answer, "", 1).strip("\n").splitlines()
    few = len(lines) <= LINES
    picture, table = _picture(result), _table(result)
    return render(
        "notebook.html",
        answer=answer,
        told="\n".join(lines if few else lines[: LINES - 1]),
        folded="" if few else "\n".join(lines[LINES - 1 :]),
        picture=picture.address,
        width=picture.width,
        **table._asdict(),
    )


def _picture(result: Any) -> _Picture:
    """What its ``plot`` draws; nothing where it has none, or has nothing to draw."""
    from .render import as_data

    if not hasattr(result, "plot"):
        return _Picture()
    try:
        figure: Figure = result.plot()
        try:
            held = io.BytesIO()
            figure.savefig(held, format="png", dpi=DOTS_PER_INCH)
            return _Picture(
                as_data(held.getvalue(), "image/png"), round(PIXELS * figure.get_figwidth())
            )
        finally:
            if "matplotlib.pyplot" in sys.modules:  # else it manages no figure
                sys.modules["matplotlib.pyplot"].close(figure)
    except Exception:  # such as data of which there is no picture
        return _Picture()


def _table(result: Any) -> _Table:
    """What its ``to_dataframe`` holds; nothing where it has none."""
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
    if cell != cell:  # not known
        return ""
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)
