"""Unicode normal form C: a text is equal to itself, however its accents are encoded."""

from __future__ import annotations

import unicodedata
from typing import TypeVar

Value = TypeVar("Value")


def normalize_text(value: Value) -> Value:
    """Return a text in Unicode normal form C, and anything that is no text as it is."""
    return unicodedata.normalize("NFC", value) if isinstance(value, str) else value  # type: ignore[return-value]
