"""Modules of the folder ``benchmarks``, which is no package."""

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = str(Path(__file__).parents[2] / "benchmarks")


@pytest.fixture(scope="session")
def load() -> Iterator[Callable[[str], ModuleType]]:
    """Import a module of the folder by its name."""
    sys.path.insert(0, FOLDER)
    yield importlib.import_module
    sys.path.remove(FOLDER)
