"""Processors and memory: single-threaded BLAS, chains in parallel on all cores.

OpenBLAS's own threads spin while they wait. When other processes hold the cores a Cholesky factor
then takes 10 to 300 times longer, and two chains that both use the pool slow each other down. A
single thread per chain is as fast up to n = 1000, and chains run in parallel on the cores.
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
#: From threadpoolctl 3.8 on only the thread that set a limit may change it, until this is called.
FREED = getattr(OpenBLASController, "clear_controlling_thread", lambda force: None)


def cores() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _SingleThreadedBlas:
    """A limit of one BLAS thread, from the first entry to the last exit of any thread."""

    def __init__(self) -> None:
        self._lock, self._inside = Lock(), 0
        self._limit: Any = None

    @functools.cached_property
    def _blas(self) -> ThreadpoolController:
        """Libraries of NumPy and SciPy, found once since the search takes milliseconds."""
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


_SINGLE_THREADED = _SingleThreadedBlas()


def single_threaded_blas() -> contextlib.AbstractContextManager[None]:
    """Limit BLAS to one thread within the context, for computations without JAX."""
    return _SINGLE_THREADED


@contextlib.contextmanager
def computing() -> Iterator[None]:
    """Use JAX in 64 bits and limit BLAS to one thread within the context."""
    import jax  # slow to import, and not needed for NumPy

    from .compilation import keep_compiled, limit_memory_regions

    keep_compiled()
    limit_memory_regions()
    with jax.enable_x64(True), single_threaded_blas():
        yield


def side_by_side(
    work: Callable[[int], T], count: int, stop: Event, *, serial: bool = False
) -> list[T]:
    """Call ``work`` with 0 to ``count - 1`` in threads, as many at once as cores.

    Args:
        work: function of an index, which should end early once ``stop`` is set.
        count: number of indices.
        stop: event that is set on an error or an interruption.
        serial: do not use threads, for work that takes less time than starting them.
    """
    if count == 1 or serial:
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
    """Return the number of bytes that this process can still allocate, or None if unknown.

    This is the minimum over the system's free memory and the limits of control groups (containers,
    batch queues). ``root`` is the folder of /proc and /sys.
    """
    sizes = [_system_memory(root), *_control_groups(root)]
    return min((size for size in sizes if size is not None), default=None)


def _system_memory(root: Path) -> int | None:
    try:
        for line in (root / "proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:  # macOS and the BSDs have no /proc, and report only the total
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _control_groups(root: Path) -> list[int]:
    """Return the bytes left in each control group of this process, versions 1 and 2."""
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
