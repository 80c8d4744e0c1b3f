"""What the package raises when the user's input, not the program, is wrong."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np


class InputError(ValueError):
    """Bad input, said in one sentence that names the file or argument, the row and the column.

    The command line prints the sentence and exits with status 1; nobody sees a traceback.
    """


class SamplingError(RuntimeError):
    """The sampler cannot start or continue on valid input; the message says what to try next."""


class PosteriorWarning(UserWarning):
    """Warning that a posterior or its draws are less reliable than they may seem."""


#: How much of two names must be alike, as :mod:`difflib` measures it: ``Temprature`` is ``Temp``.
ALIKE = 0.6


def nearest(name: object, known: Iterable[object]) -> str:
    """End a message about a name that there is not with the one most like it.

    Such as ``; did you mean 'Temp'?``.

    Args:
        name: that was given; what is no text is like none.
        known: the names that there are.

    Returns:
        nothing where no name is like it, whatever the case of its letters.
    """
    if not isinstance(name, str) or not name:
        return ""
    folded = {one.casefold(): one for one in known if isinstance(one, str)}
    plain = name.casefold()
    found = difflib.get_close_matches(plain, folded, n=1, cutoff=ALIKE)
    # One is the beginning of the other.
    found = found or [
        one for one in folded if one and (plain.startswith(one) or one.startswith(plain))
    ]
    return f"; did you mean {folded[found[0]]!r}?" if found else ""


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
