"""Words and lists on the command line."""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Iterable
from typing import Any, TypeVar

import typer

_Named = TypeVar("_Named")
SAMPLING_NOISE_NAMES = ("clt", "heteroscedastic")


def _word_or_number(text: str, option: str, words: dict[str, Any]) -> Any:
    """What one of ``words`` stands for, or a number."""
    if text.lower() in words:
        return words[text.lower()]
    try:
        return float(text)
    except ValueError:
        choices = ", ".join(map(repr, words))
        raise typer.BadParameter(
            f"{text!r} is not {choices} or a number.", param_hint=option
        ) from None


def parse_dither(text: str, option: str) -> str | float | None:
    """``auto``, ``none`` or a rounding unit."""
    value: str | float | None = _word_or_number(text, option, {"auto": "auto", "none": None})
    return value


def parse_noise(text: str, option: str) -> str | float:
    """``clt`` or a variance."""
    value: str | float = _word_or_number(text, option, {"clt": "clt"})
    return value


def parse_noise_variance(text: str, option: str) -> str | float:
    """``clt``, ``heteroscedastic`` or a variance."""
    words = {name: name for name in SAMPLING_NOISE_NAMES}
    value: str | float = _word_or_number(text, option, words)
    return value


def parse_columns(text: str | None) -> list[str] | None:
    """``a,b`` as a list; a name with a comma stands in double quotes, as in a CSV file."""
    if text is None:
        return None
    return [part.strip() for part in next(csv.reader([text], skipinitialspace=True), []) or [""]]


def find_modules_here(named: _Named) -> _Named:
    """Let a module that an option names be found in the current folder.

    At the end, so that no file there hides another module; and only for these options, so that no
    file there is run where no module is named.
    """
    if named and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    return named


def misplaced(option: str, of: str, ways: Iterable[str], chosen: str) -> str:
    """A sentence: ``--option`` belongs to other ``ways`` of ``--of`` than the one ``chosen``."""
    return f"--{option} is for --{of} {' or '.join(ways)}, and the {of} is {chosen} here"
