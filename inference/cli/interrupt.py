"""Interruptions that are raised whatever Python is doing, and an exit that does not crash."""

from __future__ import annotations

import contextlib
import enum
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType

#: Exit status after Ctrl-C, and after SIGTERM.
INTERRUPTED, TERMINATED = 130, 143
#: Seconds until an interruption at an unsafe moment is raised again.
RETRY_SECONDS = 0.05
#: Functions called from C in which exceptions are unsafe. What is raised in JAX's callback of the
#: garbage collection is printed and ignored; in functions that hash, compare, or make a member of
#: an enumeration for a container or a binding of C++, it ends the process.
UNSAFE_FUNCTIONS = {"_xla_gc_callback", "__hash__", "__eq__"}
UNSAFE_FILE = enum.__file__
#: Set once an interruption has been reported.
_REPORTED = threading.Event()


class Terminated(KeyboardInterrupt):
    """SIGTERM, which batch systems send before they kill a process."""


def run_interruptible(command: Callable[[], object]) -> None:
    """Call ``command``, which ends the program by ``SystemExit``, with status 130 after Ctrl-C."""
    # A job that was started to ignore Ctrl-C, as shells do in the background, continues to.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
    sys.unraisablehook = _raise_again
    try:
        command()
    except KeyboardInterrupt as error:  # before the program has begun
        _exit_now(report_interruption(error))
    except SystemExit as end:
        if end.code in (INTERRUPTED, TERMINATED):
            if not _REPORTED.is_set():  # before the command has begun
                report_interruption(KeyboardInterrupt())
            _exit_now(end.code)
        # The command is done: nothing is left to be interrupted.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise


def report_interruption(error: KeyboardInterrupt) -> int:
    """Print that the command was interrupted, with notes on the error; return the exit status."""
    notes = getattr(error, "__notes__", ())
    print("\nbke:", "; ".join(["interrupted", *notes]), file=sys.stderr)
    _REPORTED.set()
    return TERMINATED if isinstance(error, Terminated) else INTERRUPTED


def _exit_now(code: int) -> None:
    """Exit without the interpreter's cleanup, which would crash while XLA is computing.

    Temporary files are removed by now.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _raise_again(error: sys.UnraisableHookArgs) -> None:
    """Raise an interruption again that was lost in a function that Python calls by itself."""
    if issubclass(error.exc_type, KeyboardInterrupt):
        _send_again(signal.SIGTERM if issubclass(error.exc_type, Terminated) else signal.SIGINT)
    else:
        sys.__unraisablehook__(error)


def _send_again(number: int) -> None:
    timer = threading.Timer(RETRY_SECONDS, os.kill, (os.getpid(), number))
    timer.daemon = True
    timer.start()


@contextlib.contextmanager
def terminable(enabled: bool) -> Iterator[None]:
    """Let SIGTERM interrupt the block as Ctrl-C does, if ``enabled``: something can be saved.

    Otherwise it kills at once, also during a long computation.
    """
    if not (enabled and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL):
        yield
        return
    signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def interrupt(number: int, frame: FrameType | None) -> None:
    """Raise ``KeyboardInterrupt``, a moment later where it would be lost or would crash."""
    while frame is not None:
        if frame.f_code.co_name in UNSAFE_FUNCTIONS or frame.f_code.co_filename == UNSAFE_FILE:
            _send_again(number)
            return None
        frame = frame.f_back
    if number == signal.SIGTERM:
        # Sent to the process and to its group, it arrives twice, and would stop the saving.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise Terminated
    raise KeyboardInterrupt
