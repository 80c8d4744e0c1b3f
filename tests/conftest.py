"""How the suite's programs are compiled; what JAX has compiled is forgotten before it grows."""

import importlib.metadata
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

#: Most of the suite's time is compilation. Without optimisation, with the older emitter of loops,
#: it takes a third; what is computed is the same. Read when JAX starts, here and in processes that
#: tests start. Later releases of JAX do not know the second flag; `.ci/run` tests one of them as
#: users have it.
QUICK_TO_COMPILE = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
if importlib.metadata.version("jax").startswith("0.10."):
    os.environ.setdefault("XLA_FLAGS", QUICK_TO_COMPILE)

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
