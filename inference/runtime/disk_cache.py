"""Compiled programs: kept on disk where that is asked for, forgotten before they are too many.

On disk only where it is asked for: processes that took some of their programs from there have,
rarely, run one kernel's in place of another's. The same was seen without it, and its cause mended,
see :mod:`bke.models.arrays.pytrees`; kernels of users that JAX registers can still meet it.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import threading
from pathlib import Path

import jax
from jax.experimental.compilation_cache import compilation_cache

#: A folder; nothing is kept without one.
VARIABLE = "BKE_COMPILATION_CACHE"
#: Bytes beyond which the oldest programs are removed.
MOST_BYTES = 2**30
#: Regions of memory that a process may map, of the 65 530 that Linux allows, before programs are
#: forgotten; and of how many calls one looks.
MOST_REGIONS, EVERY = 45_000, 50
REGIONS = Path("/proc/self/maps")
_calls = itertools.count(1)


@functools.cache
def keep_compiled() -> None:
    """Use the folder that :data:`VARIABLE` names, unless JAX has been given one."""
    wanted = os.environ.get(VARIABLE, "")
    if wanted.lower() in ("", "off", "0", "no", "false") or _chosen():
        return
    folder = Path(wanted)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # a home that cannot be written
        return
    if not os.access(folder, os.W_OK):
        return
    jax.config.update("jax_compilation_cache_dir", str(folder))
    # Most of what there is to compile are many small programs.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    compilation_cache.reset_cache()  # JAX decides at its first compilation whether there is one
    threading.Thread(target=remove_oldest, args=(folder, MOST_BYTES), daemon=True).start()


def forget_if_many() -> None:
    """Have JAX forget what it has compiled, where there would soon be no room for more.

    Every program takes some regions of memory and data of every size have programs of their own: a
    study of some hundred sizes would otherwise end without a message.
    """
    if next(_calls) % EVERY or not REGIONS.exists():
        return
    if REGIONS.read_bytes().count(b"\n") > MOST_REGIONS:
        jax.clear_caches()


def remove_oldest(folder: Path, most: int) -> None:
    """Remove the oldest files of ``folder`` until the others have ``most`` bytes."""
    files = []
    for entry in os.scandir(folder):
        with contextlib.suppress(OSError):  # of another process, which may be removing too
            status = entry.stat()
            files.append((status.st_mtime, status.st_size, entry.path))
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total <= most:
            return
        with contextlib.suppress(OSError):
            os.unlink(path)
        total -= size


def _chosen() -> bool:
    """Whether the user has given JAX a folder."""
    return bool(jax.config.values["jax_compilation_cache_dir"])
