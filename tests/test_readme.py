"""The README's Python, as a reader would paste it; the list of formulas."""

import re
from pathlib import Path

import jax
import matplotlib
import pytest
from matplotlib import pyplot as plt

TEXT = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", TEXT, flags=re.MULTILINE | re.DOTALL)


@pytest.fixture
def _settings_are_put_back():
    before = jax.config.jax_enable_x64
    yield
    jax.config.update("jax_enable_x64", before)
    plt.close("all")


@pytest.mark.slow
@pytest.mark.usefixtures("_settings_are_put_back")
@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_every_block_runs_as_written(block, tmp_path, monkeypatch):
    if "causal" in block:
        pytest.importorskip("causallearn")
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "README.md", "exec"), {})
    for picture in re.findall(r'savefig\("(.*?)"\)', block):
        assert (tmp_path / picture).stat().st_size > 5000


def test_there_are_blocks():
    assert len(BLOCKS) >= 7
    assert sum("run = fit(" in block for block in BLOCKS) == 1  # the main example


def test_every_id_in_a_docstring_is_explained():
    root = Path(__file__).parents[1]
    explained = (root / "docs" / "formulas.md").read_text(encoding="utf-8")
    pattern = re.compile(
        r"\b(?:KME|DST|KER|SHR|PRE|APX|CME|OPS|GM|MMD|TST|DEP|CI|CAU)-\d+\b|\bE1[67]\b|\bE22\b"
    )
    sources = [path for part in ("models", "inference") for path in (root / part).rglob("*.py")]
    found = {name for path in sources for name in pattern.findall(path.read_text(encoding="utf-8"))}
    assert len(found) > 25
    assert found == set(pattern.findall(explained))
