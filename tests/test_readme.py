"""The README's Python, as a reader would paste it; the list of formulas."""

import re
from pathlib import Path

import matplotlib
import pytest

TEXT = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", TEXT, flags=re.MULTILINE | re.DOTALL)


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


def test_it_is_short_and_has_code():
    assert len(TEXT.splitlines()) <= 150
    assert len(BLOCKS) >= 3
    assert sum("run = fit(" in block for block in BLOCKS) == 1  # the main example


def recorded(name):
    path = Path(__file__).parents[1] / "benchmarks" / "results" / f"{name}.md"
    return path.read_text(encoding="utf-8")


def cells(line):
    return [cell.strip() for cell in line.strip("| ").split("|")]


def shares(name):
    """The rows of a recorded table, by their first cell, as dictionaries of strings."""
    lines = [line for line in recorded(name).splitlines() if line.startswith("|")]
    head = cells(lines[0])
    return {cells(line)[0]: dict(zip(head, cells(line), strict=True)) for line in lines[2:]}


def test_table_of_others_is_what_was_measured():
    """Every cell by another way than it was written: from the recorded tables."""
    rows = {cells(line)[0]: cells(line)[1:] for line in TEXT.splitlines() if line.startswith("| ")}
    power = next(row for name, row in rows.items() if name.startswith("power, mean"))
    text = recorded("referee")
    mean = next(line for line in text.splitlines() if line.startswith("| mean "))
    by_tool = dict(enumerate(cells(mean)[3:]))
    numbers = dict(re.findall(r"\((\d+)\) ([^;\n]+?)(?:;|\.\n|\n)", text))
    tools = {name: int(number) for number, name in numbers.items()}
    order = ["bke", "HSIC (hyppo)", "MMDAgg", "MMD-FUSE"]
    assert power[:4] == [f"{float(by_tool[tools[tool]]):.2f}" for tool in order]
    seconds = dict(re.findall(r"^\| (\S.*?) +\| +([\d.]+) \|$", text, flags=re.MULTILINE))
    row = next(row for name, row in rows.items() if name.startswith("seconds"))
    assert row[:4] == [f"{float(seconds[tool]):.2f}" for tool in order]
    level, power_of = shares("drift-level"), shares("drift-power")
    row = next(row for name, row in rows.items() if name.startswith("halves"))
    for said, tool in zip(
        (row[0], row[4], row[5]), ("bke", "evidently", "alibi-detect"), strict=True
    ):
        found = [round(100 * float(one[tool])) for one in level.values()]
        assert said == f"{min(found)} to {max(found)}"
    row = next(row for name, row in rows.items() if name.startswith("changes"))
    for said, tool in zip(
        (row[0], row[4], row[5]), ("bke", "evidently", "alibi-detect"), strict=True
    ):
        found = [float(one[f"{tool}, rightly"]) for one in power_of.values()]
        assert abs(float(said) - sum(found) / 12) <= 0.0051
    row = next(row for name, row in rows.items() if name.startswith("kB"))
    last = recorded("drift-cost").rstrip().splitlines()[-2:]
    assert [row[0], row[4]] == [f"{float(cells(line)[-1]):.0f}" for line in last]


def test_every_id_in_a_docstring_is_explained():
    root = Path(__file__).parents[1]
    explained = (root / "docs" / "formulas.md").read_text(encoding="utf-8")
    pattern = re.compile(
        r"\b(?:KME|DST|KER|SHR|PRE|APX|CME|OPS|GM|MMD|TST|DEP|CI|CAU)-\d+\b|\bE1[67]\b|\bE22\b"
    )
    sources = [path for part in ("models", "inference") for path in (root / part).rglob("*.py")]
    found = {name for path in sources for name in pattern.findall(path.read_text(encoding="utf-8"))}
    assert found
    assert found <= set(pattern.findall(explained))
