"""Which cases are slow; how programs are compiled, and forgotten before they are too many."""

import collections
import importlib.metadata
import itertools
import os
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

# Threads of OpenBLAS spin while they wait: those of two workers on two cores make a Cholesky factor
# take 10 to 300 times longer. Read when NumPy is first imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

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
#: To count them takes milliseconds, and no three tests in a row take all of the rest.
EVERY = 3
_tests = itertools.count(1)


@pytest.fixture(autouse=True)
def _room_for_compiled_programs() -> Iterator[None]:
    yield
    if next(_tests) % EVERY or not REGIONS.exists():
        return
    if REGIONS.read_bytes().count(b"\n") > MOST_REGIONS:
        import jax  # reads the settings above when it is first imported

        jax.clear_caches()


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
    """``--turn 2/5``: of what is chosen, the tests whose turn it is."""
    parser.addoption("--turn", metavar="K/N", help="run the K-th of N parts of the tests, K from 0")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of a test marked ``one_in(n)`` every n-th case stays; the others are slow.

    Before pytest leaves out what ``-m`` does not ask for.
    """
    seen: collections.Counter[str] = collections.Counter()
    for item in items:
        marker = item.get_closest_marker("one_in")
        if marker is None:
            continue
        test = item.nodeid.partition("[")[0]
        if seen[test] % marker.args[0]:
            item.add_marker(pytest.mark.slow)
        seen[test] += 1
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
    mine = [zlib.crc32(name.encode()) % parts == part for name in names]
    config.hook.pytest_deselected(
        items=[item for item, kept in zip(items, mine, strict=True) if not kept]
    )
    items[:] = [item for item, kept in zip(items, mine, strict=True) if kept]
