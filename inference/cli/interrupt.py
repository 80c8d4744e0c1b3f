"""Ctrl-C that is heard whatever JAX is doing, and an exit that does not crash."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType

#: Exit status after Ctrl-C.
INTERRUPTED = 130
#: Seconds until a Ctrl-C that came at a bad moment is raised again.
AGAIN = 0.05
#: JAX's garbage-collection callback: Python prints an exception raised in there and goes on.
DEAF = "_xla_gc_callback"


def run_interruptible(command: Callable[[], object]) -> None:
    """Call ``command``, which ends the program by ``SystemExit``, with status 130 after Ctrl-C."""
    # A job that was started to ignore Ctrl-C, as shells do in the background, goes on ignoring it.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
    try:
        command()
    except SystemExit as end:
        if end.code == INTERRUPTED:
            # XLA may still be computing, and the interpreter's own exit would crash beneath it.
            # Temporary files are gone by now.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(INTERRUPTED)
        raise


def interrupt(_signal: int, frame: FrameType | None) -> None:
    """Raise ``KeyboardInterrupt``, a moment later where it would be lost."""
    while frame is not None:
        if frame.f_code.co_name == DEAF:
            again = threading.Timer(AGAIN, os.kill, (os.getpid(), signal.SIGINT))
            again.daemon = True
            again.start()
            return None
        frame = frame.f_back
    raise KeyboardInterrupt
