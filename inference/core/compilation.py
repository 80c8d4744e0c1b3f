"""Compiled programs: XLA's options, an optional cache on disk, and a limit of their number.

A file on disk is found by a digest of the whole program, of jaxlib and of the options it is
compiled with, so that code of another version finds its own programs or none. JAX leaves programs
with callbacks out. What it does not tell in every release is the processor that a program is for:
each kind has a folder of its own here, as machines that share a home may differ.

Processes that took some of their programs from there have run one kernel's in place of another's.
That was no file's fault: as many did without any, and the cause is mended, see
:mod:`bke.models.linalg.pytrees`; kernels of users that JAX registers still meet it, on disk or not.
On disk is only what is asked for nevertheless: on some processors JAX 0.10 refuses its own files
with a line on standard error for each (jax-ml/jax issue 38445), and a folder of programs must be
one that nobody else can write.
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
    """Compile what is not called inside another compiled function.

    Not for modules: it starts JAX, before which processes must have joined.
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


#: A folder; nothing is kept without one.
VARIABLE = "BKE_COMPILATION_CACHE"
#: Bytes beyond which the oldest programs are removed.
MOST_BYTES = 2**30
#: Regions of memory that a process may map, of the 65 530 that Linux allows, before programs are
#: forgotten; and of how many calls one looks.
MOST_REGIONS, EVERY = 45_000, 50
REGIONS = Path("/proc/self/maps")
#: What Linux tells of processors, and the lines of it that say what they can do.
PROCESSORS, ABLE = Path("/proc/cpuinfo"), ("model name", "flags", "Features", "CPU part")
_calls = itertools.count(1)


@functools.cache
def keep_compiled() -> None:
    """Use the folder that :data:`VARIABLE` names, unless JAX has been given one."""
    wanted = os.environ.get(VARIABLE, "")
    if wanted.lower() in ("", "off", "0", "no", "false") or _chosen():
        return
    whole = Path(wanted)
    folder = whole / compiled_for()
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
    threading.Thread(target=remove_oldest, args=(whole, MOST_BYTES), daemon=True).start()


@functools.cache
def compiled_for() -> str:
    """A name for the versions of JAX and the kind of processor that programs are compiled for."""
    told = {jax.__version__, jaxlib.__version__, platform.machine(), platform.processor()}
    with contextlib.suppress(OSError):  # not Linux
        lines = PROCESSORS.read_text().splitlines()
        told |= {line for line in lines if line.startswith(ABLE)}
    return hashlib.sha256("\n".join(sorted(told)).encode()).hexdigest()[:16]


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
    """Remove the oldest files below ``folder`` until the others have ``most`` bytes."""
    files = []
    for inside, _, names in os.walk(folder):
        for path in (os.path.join(inside, name) for name in names):
            with contextlib.suppress(OSError):  # of another process, which may be removing too
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
    """Whether the user has given JAX a folder."""
    return bool(jax.config.values["jax_compilation_cache_dir"])
