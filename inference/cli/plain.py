"""What is printed where not every character can be, as where Windows pipes it to a file."""

from __future__ import annotations

import codecs
import io
import sys

#: What stands for characters that reports have and an old encoding may lack.
PLAIN = {"≤": "<=", "≥": ">=", "±": "+-", "→": "->"}


def in_plain_characters() -> None:
    """Let standard output and error print what their encoding lacks in other characters."""
    codecs.register_error("bke", _replaced)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="bke")


def _replaced(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(PLAIN.get(one, "?") for one in lacking), error.end
