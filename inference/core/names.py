"""Printable text: names on a single line, and aligned columns of a table."""

from collections.abc import Sequence


def printable(text: str) -> str:
    """Escape line breaks, control characters and undecodable bytes."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def printable_lines(text: str) -> str:
    """Escape characters that cannot be printed, such as terminal control codes, in each line."""
    return "\n".join(map(printable, text.split("\n")))


def join_names(names: Sequence[str], most: int = 12) -> str:
    """Join names by commas, at most ``most`` of them, and count the others."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def align_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Align the columns of a table, the first to the left, two blanks between columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  "
        + "  ".join(
            cell.ljust(width) if index == 0 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
