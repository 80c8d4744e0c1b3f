"""Errors and warnings of the package, and checks of arguments."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np


class InputError(ValueError):
    """Error for invalid input, with a sentence that names the argument or file, row and column.

    The command line prints the sentence without a traceback and exits with status 1.
    """


class SamplingError(RuntimeError):
    """Error of a sampler that cannot start or continue on valid input, with advice."""


class PosteriorWarning(UserWarning):
    """Warning that a posterior or its draws are less reliable than they may seem."""


#: Smallest similarity of two names by :mod:`difflib`, such as of ``Temprature`` and ``Temp``.
SIMILARITY = 0.6


def nearest(name: object, known: Iterable[object]) -> str:
    """Return the end of a message about an unknown name: ``; did you mean 'Temp'?``.

    Args:
        name: the unknown name.
        known: valid names.

    Returns:
        An empty string if ``name`` is not a string or no valid name is similar to it in any case.
    """
    if not isinstance(name, str) or not name:
        return ""
    folded = {valid.casefold(): valid for valid in known if isinstance(valid, str)}
    plain = name.casefold()
    matches = difflib.get_close_matches(plain, folded, n=1, cutoff=SIMILARITY)
    if not matches:  # a name may be the beginning of the other
        matches = [
            valid
            for valid in folded
            if valid and (plain.startswith(valid) or valid.startswith(plain))
        ]
    return f"; did you mean {folded[matches[0]]!r}?" if matches else ""


def check_choice(value: object, name: str, choices: Sequence[object]) -> None:
    """Raise ``InputError`` if the argument ``name`` is not one of ``choices``."""
    # An array has no truth value when it is compared.
    if not isinstance(value, (str, float, type(None))) or value not in choices:
        raise InputError(f"{name} must be one of {choices}, got {value!r}{nearest(value, choices)}")


def check_flag(value: object, name: str) -> bool:
    """Check that ``value`` is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise InputError(f"{name} must be True or False, got {value!r}")
    return bool(value)


@contextlib.contextmanager
def input_errors() -> Iterator[None]:
    """Raise a ``ValueError`` or ``ArithmeticError`` of :mod:`bke.models` as ``InputError``."""
    try:
        yield
    except (ValueError, ArithmeticError) as error:
        raise InputError(str(error)) from None
