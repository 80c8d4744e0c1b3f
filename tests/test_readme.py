"""The README's Python, as a reader would paste it; the list of formulas."""

import re
from pathlib import Path

import matplotlib
import pytest

TEXT = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", TEXT, flags=re.MULTILINE | re.DOTALL)
OUTPUTS = re.findall(r"^```text\n(.*?)^```$", TEXT, flags=re.MULTILINE | re.DOTALL)

NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


def shape(line):
    """A line of output with its numbers, and chains by name, replaced."""
    line = re.sub(r"; chains? [\d, -]+:", "; chains #:", line)
    line = line.replace("R-hat needs two chains", "R-hat #")
    line = re.sub(r"\d+ divergences?", "# divergences", line)
    return NUMBER.sub("#", line)


@pytest.mark.usefixtures("_settings_are_put_back")
def test_blocks_run_in_order_and_print_the_documented_output(tmp_path, monkeypatch, capsys):
    """Draws depend on the compiler's flags: of `diagnose` the shapes of lines are compared."""
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    names, printed = {}, []
    for block in BLOCKS:
        exec(compile(block, "README.md", "exec"), names)
        printed.append(capsys.readouterr().out.splitlines())
        for picture in re.findall(r'savefig\("(.*?)"\)', block):
            assert (tmp_path / picture).stat().st_size > 5000
    posterior, fitted, samples, tables = printed
    diagnosis, comparison = (block.splitlines() for block in OUTPUTS)
    assert {shape(line) for line in diagnosis} <= {shape(line) for line in posterior}
    low, high = (
        mode.location["lengthscale"] for mode in names["diagnose"](names["mcmc"]).modes.modes
    )
    assert 0.3 < low < 0.55
    assert 2.5 < high < 3.6
    assert fitted[0].startswith("4 chains x 200 draws")
    assert comparison == samples[: len(comparison)]
    comments = re.findall(r"^# (.*)$", BLOCKS[3], flags=re.MULTILINE)
    assert comments
    assert comments == tables[: len(comments)]


def test_it_is_short_and_shows_code_with_its_output_early():
    lines = TEXT.splitlines()
    assert len(lines) <= 130
    assert lines.index("```python") < 30
    assert "MCMC(" in BLOCKS[0]
    assert "NUTS(bke_model" in BLOCKS[0]
    assert "fit(" in BLOCKS[1]
    for term in ("Gamma prior", "Jacobian factor", "R-hat", "multimodality"):
        assert term in " ".join(lines)


def recorded(name):
    path = Path(__file__).parents[1] / "benchmarks" / "results" / f"{name}.md"
    return path.read_text(encoding="utf-8")


def split_row(line):
    return [cell.strip() for cell in line.strip("| ").split("|")]


def recorded_table(name):
    """Return rows of a recorded table, by their first cell, as dictionaries of strings."""
    lines = [line for line in recorded(name).splitlines() if line.startswith("|")]
    head = split_row(lines[0])
    return {split_row(line)[0]: dict(zip(head, split_row(line), strict=True)) for line in lines[2:]}


def test_the_table_of_other_tools_agrees_with_the_recorded_results():
    """Recompute every cell from the recorded tables."""
    rows = {
        split_row(line)[0]: split_row(line)[1:]
        for line in TEXT.splitlines()
        if line.startswith("| ")
    }
    power = next(row for name, row in rows.items() if name.startswith("power, mean"))
    text = recorded("referee")
    mean = next(line for line in text.splitlines() if line.startswith("| mean "))
    by_tool = dict(enumerate(split_row(mean)[3:]))
    numbers = dict(re.findall(r"\((\d+)\) ([^;\n]+?)(?:;|\.\n|\n)", text))
    tools = {name: int(number) for number, name in numbers.items()}
    order = ["bke", "HSIC (hyppo)", "MMDAgg", "MMD-FUSE"]
    assert power[:4] == [f"{float(by_tool[tools[tool]]):.2f}" for tool in order]
    seconds = dict(re.findall(r"^\| (\S.*?) +\| +([\d.]+) \|$", text, flags=re.MULTILINE))
    row = next(row for name, row in rows.items() if name.startswith("seconds"))
    assert row[:4] == [f"{float(seconds[tool]):.2f}" for tool in order]
    level, power_of = recorded_table("drift-level"), recorded_table("drift-power")
    row = next(row for name, row in rows.items() if name.startswith("halves"))
    for printed, tool in zip(
        (row[0], row[4], row[5]), ("bke", "evidently", "alibi-detect"), strict=True
    ):
        measured = [round(100 * float(entry[tool])) for entry in level.values()]
        assert printed == f"{min(measured)} to {max(measured)}"
    row = next(row for name, row in rows.items() if name.startswith("changes"))
    for printed, tool in zip(
        (row[0], row[4], row[5]), ("bke", "evidently", "alibi-detect"), strict=True
    ):
        measured = [float(entry[f"{tool}, rightly"]) for entry in power_of.values()]
        assert abs(float(printed) - sum(measured) / 12) <= 0.0051
    row = next(row for name, row in rows.items() if name.startswith("kB"))
    last = recorded("drift-cost").rstrip().splitlines()[-2:]
    assert [row[0], row[4]] == [f"{float(split_row(line)[-1]):.0f}" for line in last]


def test_every_id_in_a_docstring_is_explained():
    root = Path(__file__).parents[1]
    explained = (root / "docs" / "formulas.md").read_text(encoding="utf-8")
    pattern = re.compile(
        r"\b(?:KME|DST|KER|SHR|PRE|APX|CME|OPS|GM|MMD|TST|DEP|CI|CAU)-\d+\b|\bE1[67]\b|\bE22\b"
    )
    sources = [path for part in ("models", "inference") for path in (root / part).rglob("*.py")]
    used = {name for path in sources for name in pattern.findall(path.read_text(encoding="utf-8"))}
    assert used
    assert used <= set(pattern.findall(explained))
