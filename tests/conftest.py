"""What JAX has compiled is forgotten before it takes too much room."""

from collections.abc import Iterator
from pathlib import Path

import pytest

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
