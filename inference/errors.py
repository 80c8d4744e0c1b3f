"""What the package raises when the user's input, not the program, is wrong."""

from __future__ import annotations


class InputError(ValueError):
    """Bad input, said in one sentence that names the file or argument, the row and the column.

    The command line prints the sentence and exits with status 1; nobody sees a traceback.
    """


class SamplingError(RuntimeError):
    """The sampler cannot start or continue on valid input; the message says what to try next."""
