"""The README's Python, as a reader would paste it; the list of formulas."""

import re
from pathlib import Path

import matplotlib
import numpy as np
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


#: Numbers that the README writes as words.
WORDS = {4: "four", 9: "nine", 10: "ten", 11: "eleven", 12: "twelve"}
RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"


def split_row(line):
    return [cell.strip() for cell in line.strip("| ").split("|")]


def recorded_tables(name):
    """Return the tables of a recorded result, each a list of rows as dictionaries of strings."""
    text = (RESULTS / f"{name}.md").read_text(encoding="utf-8")
    tables = []
    for lines in re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE):
        head, _, *body = map(split_row, lines.splitlines())
        tables.append([dict(zip(head, row, strict=True)) for row in body])
    return tables


def test_numbers_on_other_packages_agree_with_the_recorded_results():
    """Compute every cell of the table, and the sentence below it, from the recorded tables."""
    held_out, open_settings, ahead, _ = recorded_tables("referee")
    text = (RESULTS / "referee.md").read_text(encoding="utf-8")
    number = {tool: key for key, tool in re.findall(r"\((\d+)\) ([^;\n]+?)(?=;|\.\n)", text)}
    *held_out, mean = held_out
    *open_settings, _ = open_settings
    tools = ("bke", "HSIC (hyppo)", "MMDAgg", "MMD-FUSE")
    (sizes,) = recorded_tables("sizes")
    (seconds,) = (
        row
        for row in sizes
        if (row["rows"], row["columns"], row["factor"]) == ("500 + 500", "2", "1.03")
    )
    (level,), (power,) = recorded_tables("drift-level"), recorded_tables("drift-power")
    (cost,) = recorded_tables("drift-cost")
    flagged, correct = {}, {}
    for tool in ("bke", "evidently", "alibi-detect"):
        percent = [round(100 * float(row[tool])) for row in level]
        flagged[tool] = f"{min(percent)} to {max(percent)}"
        correct[tool] = np.mean([float(row[f"{tool}, rightly"]) for row in power])
    expected = {
        f"power, mean of {len(held_out)} settings held out ¹": (
            *(f"{float(mean[number[tool]]):.2f}" for tool in tools),
            *("", ""),
        ),
        "seconds of a test of 500 + 500 rows, two columns ⁵": (
            *(f"{float(seconds[tool]):.2f}" for tool in ("second s", *tools[1:])),
            *("", ""),
        ),
        f"halves of one table flagged, of 100, {WORDS[len(level)]} tables ²": (
            *(flagged["bke"], "", "", ""),
            *(flagged["evidently"], flagged["alibi-detect"]),
        ),
        f"changes of a table flagged in the right column, mean of {len(power)} kinds ³": (
            *(f"{correct['bke']:.2f}", "", "", ""),
            *(f"{correct['evidently']:.2f}", f"{correct['alibi-detect']:.2f}"),
        ),
        f"kB of a report on {cost[-1]['columns']} columns ⁴": (
            *(f"{float(cost[-2]['kB']):.0f}", "", "", "", f"{float(cost[-1]['kB']):.0f}", ""),
        ),
    }
    assert [cost[-2]["by"], cost[-1]["by"]] == ["bke", "evidently"]
    rows = [split_row(line) for line in TEXT.splitlines() if re.match(r"\| .*[¹²³⁴⁵] \|", line)]
    padded = {row[0]: (*row[1:], *[""] * (7 - len(row))) for row in rows}
    assert padded == expected
    powers = [[float(row[key]) for key in number.values()] for row in held_out + open_settings]
    behind = sum(max(others) > ours for ours, *others in powers)
    clearly = len({row["setting"] for row in ahead})
    best = sorted((float(mean[key]), tool) for tool, key in number.items() if tool != "bke")[-1]
    assert best[1] == "spectral MMD"
    repeats = re.search(r"^(\d+) data sets each", text, flags=re.MULTILINE)
    sentence = (
        f"{repeats[1]} data sets each. The file also has the settings where others are ahead "
        f"({behind} of {len(powers)}, {WORDS[clearly]} by more than two standard errors), and all "
        f"{len(number) - 1} tests. The next best is a spectral MMD that no package has, with "
        f"{best[0]:.2f}."
    )
    assert sentence in " ".join(TEXT.split())
    repeats = re.search(
        r"^(\d+) pairs each", (RESULTS / "drift-level.md").read_text(), re.MULTILINE
    )
    assert repeats[1] == "100"


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
