"""Ctrl-C that is heard whatever Python is doing, SIGTERM too, and an exit that does not crash."""

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
#: Seconds until a Ctrl-C that came at a bad moment is raised again.
AGAIN = 0.05
#: Functions that C calls with no ear for exceptions. What is raised in JAX's garbage-collection
#: callback is printed and forgotten; in what hashes, compares, or makes a member of an enumeration
#: for a container or a binding of C++, it ends the process.
DEAF = {"_xla_gc_callback", "__hash__", "__eq__"}
DEAF_FILE = enum.__file__
#: Whether an interruption has been told of.
_TOLD = threading.Event()


class Terminated(KeyboardInterrupt):
    """SIGTERM, by which batch systems announce that they will kill."""


def run_interruptible(command: Callable[[], object]) -> None:
    """Call ``command``, which ends the program by ``SystemExit``, with status 130 after Ctrl-C."""
    # A job that was started to ignore Ctrl-C, as shells do in the background, goes on ignoring it.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
    sys.unraisablehook = _unheard
    try:
        command()
    except KeyboardInterrupt as how:  # before the program has begun
        _leave(told_as(how))
    except SystemExit as end:
        if end.code in (INTERRUPTED, TERMINATED):
            if not _TOLD.is_set():  # before the command has begun
                told_as(KeyboardInterrupt())
            _leave(end.code)
        # What the command has done stands: nothing is left to be interrupted.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise


def told_as(how: KeyboardInterrupt) -> int:
    """Tell of an interruption, with what has been noted on it, and return the exit status."""
    print("\nbke:", "; ".join(["interrupted", *getattr(how, "__notes__", ())]), file=sys.stderr)
    _TOLD.set()
    return TERMINATED if isinstance(how, Terminated) else INTERRUPTED


def _leave(code: int) -> None:
    """End at once: XLA may be computing, and the interpreter's own exit would crash beneath it.

    Temporary files are gone by now.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _unheard(what: sys.UnraisableHookArgs) -> None:
    """Raise a Ctrl-C again that came in the middle of what Python calls by itself, and was lost."""
    if issubclass(what.exc_type, KeyboardInterrupt):
        _again(signal.SIGTERM if issubclass(what.exc_type, Terminated) else signal.SIGINT)
    else:
        sys.__unraisablehook__(what)


def _again(number: int) -> None:
    again = threading.Timer(AGAIN, os.kill, (os.getpid(), number))
    again.daemon = True
    again.start()


@contextlib.contextmanager
def terminable(wanted: bool) -> Iterator[None]:
    """SIGTERM interrupts the block as Ctrl-C does, if ``wanted``: there is something to be saved.

    Otherwise it kills at once, also amid a long computation.
    """
    if not (wanted and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL):
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
        if frame.f_code.co_name in DEAF or frame.f_code.co_filename == DEAF_FILE:
            _again(number)
            return None
        frame = frame.f_back
    if number == signal.SIGTERM:
        # Sent to the process and to its group, it comes twice, and would stop the saving.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise Terminated
    raise KeyboardInterrupt
