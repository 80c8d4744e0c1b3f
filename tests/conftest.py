"""What JAX has compiled is kept: most of the time of these tests is compilation.

The folder is shared by the workers, by the processes that tests start, and by later runs.
"""

import getpass
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

CACHE = Path(tempfile.gettempdir()) / f"bke-tests-{getpass.getuser()}"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(CACHE))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

#: Regions of memory that a process may map: Linux allows 65 530, and every compiled program takes
#: some. A worker that compiles what a whole suite needs would be killed in the middle of a test.
MOST_REGIONS = 25_000
REGIONS = Path("/proc/self/maps")


@pytest.fixture(autouse=True)
def _room_for_compiled_programs() -> Iterator[None]:
    yield
    if REGIONS.exists() and REGIONS.read_bytes().count(b"\n") > MOST_REGIONS:
        import jax  # reads the settings above when it is first imported

        jax.clear_caches()
