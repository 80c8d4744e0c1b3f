"""Examples are scripts: each is run with its own command line."""

import runpy
from collections.abc import Callable
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

FOLDER = Path(__file__).parents[2] / "examples"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, object]]:
    """Run a script with arguments and return its names."""

    def run_script(name: str, *arguments: object) -> dict[str, object]:
        monkeypatch.setattr("sys.argv", [name, *map(str, arguments)])
        names = runpy.run_path(str(FOLDER / name))
        plt.close("all")
        return names

    return run_script
