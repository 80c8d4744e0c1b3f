"""Text that can be printed: names on one line, and columns of a table."""

from collections.abc import Sequence


def printable(text: str) -> str:
    """Escape what cannot be printed on one line: line breaks, and bytes that are no text."""
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text
    )


def printable_lines(text: str) -> str:
    """Escape what cannot be printed, such as what a terminal takes for orders, but line breaks."""
    return "\n".join(map(printable, text.split("\n")))


def align_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Align the columns of a table, the first to the left, two blanks between columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  "
        + "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
