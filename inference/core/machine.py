"""Processors and memory: one BLAS thread per chain, as many chains at once as cores.

OpenBLAS's own threads spin while they wait. When other processes hold the cores a Cholesky factor
then takes 10 to 300 times longer, and two chains that both use the pool slow each other down. One
thread per chain loses nothing up to n = 1000 and keeps every core busy with a chain of its own.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path
from threading import Event, Lock
from typing import Any, TypeVar

from threadpoolctl import OpenBLASController, ThreadpoolController

T = TypeVar("T")
#: From threadpoolctl 3.8 on no thread but that which has set a number may set another, until this.
FREED = getattr(OpenBLASController, "clear_controlling_thread", lambda force: None)


def cores() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _OneThread:
    """One BLAS thread for the process, from when the first thread enters until the last leaves."""

    def __init__(self) -> None:
        self._lock, self._inside = Lock(), 0
        self._limit: Any = None

    @functools.cached_property
    def _blas(self) -> ThreadpoolController:
        """NumPy's library and SciPy's: to find what is loaded takes milliseconds."""
        import scipy.linalg  # noqa: F401, JAX computes with its library, perhaps not loaded yet

        return ThreadpoolController().select(user_api="blas")

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._limit = self._blas.limit(limits=1)
            self._inside += 1

    def __exit__(self, *raised: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                FREED(force=True)
                self._limit.restore_original_limits()
                FREED(force=True)


_ONE_THREAD = _OneThread()


def one_thread() -> contextlib.AbstractContextManager[None]:
    """Compute with one BLAS thread, as long as the context lasts: for what does without JAX."""
    return _ONE_THREAD


@contextlib.contextmanager
def computing() -> Iterator[None]:
    """Compute with JAX, in 64 bits, and one BLAS thread, as long as the context lasts."""
    import jax  # slow to import, and what needs NumPy alone does without

    from .compilation import forget_if_many, keep_compiled

    keep_compiled()
    forget_if_many()
    with jax.enable_x64(True), one_thread():
        yield


def side_by_side(
    work: Callable[[int], T], count: int, stop: Event, *, alone: bool = False
) -> list[T]:
    """Do ``work`` of 0 to ``count - 1``, as many at once as cores.

    An error or an interruption sets ``stop``, which ``work`` looks at to end the others too.

    Args:
        work: of an index.
        count: how many indices there are.
        stop: see above.
        alone: do one after the other, for what is done sooner than threads start.
    """
    if count == 1 or alone:
        return [work(index) for index in range(count)]
    with ThreadPoolExecutor(max(1, min(count, cores()))) as pool:
        futures = [pool.submit(work, index) for index in range(count)]
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            if not all(future.done() for future in futures):
                stop.set()
        return [future.result() for future in futures]


def available_memory(root: Path = Path("/")) -> int | None:
    """How many bytes this process can still allocate, or None if unknown.

    The smallest of what the system has free and what its control groups (containers, batch
    queues) leave it. ``root`` is where /proc and /sys are looked for.
    """
    found = [_system_memory(root), *_control_groups(root)]
    return min((size for size in found if size is not None), default=None)


def _system_memory(root: Path) -> int | None:
    try:
        for line in (root / "proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:  # macOS and the BSDs have no /proc, and tell only the total
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _control_groups(root: Path) -> list[int]:
    """How many bytes each control group around this process leaves, versions 1 and 2."""
    try:
        groups = [line.split(":", 2) for line in _lines(root / "proc/self/cgroup")]
    except OSError:
        return []
    left = []
    for _, controllers, group in groups:
        if controllers == "":
            top, limit, used, cache = "", "memory.max", "memory.current", "inactive_file"
        elif "memory" in controllers.split(","):
            top, limit, used = "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
            cache = "total_inactive_file"
        else:
            continue
        # A limit may sit on any group above; inside a container the path may not be visible.
        parts = Path(group.lstrip("/")).parts
        for depth in range(len(parts) + 1):
            folder = root.joinpath("sys/fs/cgroup", top, *parts[:depth])
            try:
                size = int((folder / limit).read_text()) - int((folder / used).read_text())
                stat = dict(line.split() for line in _lines(folder / "memory.stat"))
            except (OSError, ValueError):  # absent, or the limit is the word max
                continue
            left.append(max(0, size + int(stat.get(cache, 0))))  # file cache gives way
    return left


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines()
