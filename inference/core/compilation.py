"""Compiled programs: XLA's options, an optional cache on disk, and a limit of their number.

The cache key is a digest of the whole program, of jaxlib and of the options of the compiler, so
another version of the code never finds a wrong program. JAX does not cache programs with callbacks.
Not every release of JAX includes the processor in the key, so each type of processor has a separate
folder here: machines that share a home folder may differ.

Processes with such a cache have run the program of one kernel in place of another's, and so have
processes without it; the cause is removed, see :mod:`bke.models.linalg.pytrees`, except for kernels
of users that are registered as JAX pytrees. The cache is still optional: on some processors JAX
0.10 refuses its own files and writes a line to standard error for each (jax-ml/jax issue 38445),
and nobody else may have write access to the folder of programs.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import os
import platform
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jaxlib
from jax.experimental.compilation_cache import compilation_cache

#: XLA's newer emitter of fused loops doubles the time that a likelihood takes to compile and makes
#: it no faster. Releases of JAX that have no other one do not know the option.
OLDER_EMITTER = {"xla_cpu_use_fusion_emitters": False}


def jit(function: Callable[..., Any]) -> Any:
    """Compile a function that is not called inside another compiled function.

    Do not call it at import: it starts JAX, and processes of a job must be connected before.
    """
    return jax.jit(function, compiler_options=_options())


@functools.cache
def _options() -> dict[str, Any] | None:
    if jax.default_backend() != "cpu":
        return None
    try:
        jax.jit(lambda x: x + 1, compiler_options=OLDER_EMITTER)(jnp.zeros(()))
    except jax.errors.JaxRuntimeError:
        return None
    return OLDER_EMITTER


#: Environment variable with the folder of the cache; without it there is no cache.
VARIABLE = "BKE_COMPILATION_CACHE"
#: Bytes beyond which the oldest programs are removed.
MOST_BYTES = 2**30
#: Memory regions from which compiled programs are removed from memory, of the 65 530 that Linux
#: allows; and the number of calls between checks.
MOST_REGIONS, EVERY = 45_000, 50
REGIONS = Path("/proc/self/maps")
#: File in which Linux describes processors, and first words of the lines on their instructions.
PROCESSORS, ABLE = Path("/proc/cpuinfo"), ("model name", "flags", "Features", "CPU part")
_calls = itertools.count(1)


@functools.cache
def keep_compiled() -> None:
    """Use the folder in :data:`VARIABLE`, unless the user has configured a folder in JAX."""
    wanted = os.environ.get(VARIABLE, "")
    if wanted.lower() in ("", "off", "0", "no", "false") or _chosen():
        return
    root = Path(wanted)
    folder = root / compiled_for()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # a home that cannot be written
        return
    if not os.access(folder, os.W_OK):
        return
    jax.config.update("jax_compilation_cache_dir", str(folder))
    # Most of the compilation time is spent on many small programs.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    compilation_cache.reset_cache()  # JAX decides at its first compilation whether there is one
    threading.Thread(target=remove_oldest, args=(root, MOST_BYTES), daemon=True).start()


@functools.cache
def compiled_for() -> str:
    """Return a digest of the versions of JAX and the type of processor of compiled programs."""
    features = {jax.__version__, jaxlib.__version__, platform.machine(), platform.processor()}
    with contextlib.suppress(OSError):  # not Linux
        lines = PROCESSORS.read_text().splitlines()
        features |= {line for line in lines if line.startswith(ABLE)}
    return hashlib.sha256("\n".join(sorted(features)).encode()).hexdigest()[:16]


def limit_memory_regions() -> None:
    """Clear the programs in the memory of JAX before the process reaches the limit of regions.

    Every program takes some memory regions, and every size of data needs new programs: a study of a
    few hundred sizes would otherwise crash without a message.
    """
    if next(_calls) % EVERY or not REGIONS.exists():
        return
    if REGIONS.read_bytes().count(b"\n") > MOST_REGIONS:
        jax.clear_caches()


def remove_oldest(folder: Path, most: int) -> None:
    """Remove the oldest files below ``folder`` until the rest have at most ``most`` bytes."""
    files = []
    for inside, _, names in os.walk(folder):
        for path in (os.path.join(inside, name) for name in names):
            with contextlib.suppress(OSError):  # another process may have removed it
                status = os.stat(path)
                files.append((status.st_mtime, status.st_size, path))
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total <= most:
            return
        with contextlib.suppress(OSError):
            os.unlink(path)
        total -= size


def _chosen() -> bool:
    """Return True if the user has configured a folder in JAX."""
    return bool(jax.config.values["jax_compilation_cache_dir"])
