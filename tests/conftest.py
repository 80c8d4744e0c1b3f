"""Select slow cases, set the compiler's options, and free memory of compiled programs."""

import collections
import ctypes
import gc
import importlib.metadata
import os
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

# Threads of OpenBLAS spin while they wait: those of two workers on two cores make a Cholesky factor
# take 10 to 300 times longer. Read when NumPy is first imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

#: Most of the suite's time is compilation. Without optimization, with the older emitter of loops,
#: it takes a third, with the same results. Read when JAX starts, here and in processes that
#: tests start. Later releases of JAX do not know the second flag; `.ci/run` tests one of them as
#: users have it.
QUICK_TO_COMPILE = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
if importlib.metadata.version("jax").startswith("0.10."):
    os.environ.setdefault("XLA_FLAGS", QUICK_TO_COMPILE)

#: Bytes that a worker may hold before it forgets compiled programs, of which a whole suite would
#: take 5 GB, and more regions of memory than the 65 530 that Linux allows.
MOST_RESIDENT = 1.7 * 2**30
RESIDENT = Path("/proc/self/statm")


@pytest.fixture(autouse=True)
def _free_memory_of_compiled_programs() -> Iterator[None]:
    yield
    if RESIDENT.exists() and _resident() > MOST_RESIDENT:
        import jax  # reads the settings above when it is first imported

        jax.clear_caches()
        gc.collect()
        getattr(ctypes.CDLL(None), "malloc_trim", int)(0)  # glibc keeps freed memory otherwise


def _resident() -> int:
    return int(RESIDENT.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def _settings_are_put_back() -> Iterator[None]:
    """Code as a reader writes it may turn 64 bits on, and leave figures open."""
    import jax  # reads the settings above when it is first imported
    from matplotlib import pyplot as plt

    before = jax.config.jax_enable_x64
    yield
    jax.config.update("jax_enable_x64", before)
    plt.close("all")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--turn K/N``, which runs one of N parts of the selected tests."""
    parser.addoption("--turn", metavar="K/N", help="run the K-th of N parts of the tests, K from 0")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark all cases but every n-th of a test marked ``one_in(n)`` as slow.

    This runs before pytest deselects tests by ``-m``.
    """
    case_counts: collections.Counter[str] = collections.Counter()
    for item in items:
        marker = item.get_closest_marker("one_in")
        if marker is None:
            continue
        test = item.nodeid.partition("[")[0]
        if case_counts[test] % marker.args[0]:
            item.add_marker(pytest.mark.slow)
        case_counts[test] += 1
    _in_turn(config, items)


def _in_turn(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests outside of the part that ``--turn`` asks for.

    The part depends on the names of test and case, not on the file: a moved test keeps its turn.
    """
    turn = config.getoption("--turn")
    if not turn:
        return
    part, parts = (int(number) for number in turn.split("/"))
    names = [item.nodeid.partition("::")[2] for item in items]
    selected = [zlib.crc32(name.encode()) % parts == part for name in names]
    config.hook.pytest_deselected(
        items=[item for item, is_selected in zip(items, selected, strict=True) if not is_selected]
    )
    items[:] = [item for item, is_selected in zip(items, selected, strict=True) if is_selected]
