"""The gallery's entries: their form, and that each draws one picture."""

import ast
import io
import re
import runpy
import tokenize
from pathlib import Path

import matplotlib
import pytest
from matplotlib import pyplot as plt

FOLDER = Path(__file__).parents[1] / "examples" / "gallery"
ENTRIES = sorted(FOLDER.glob("*/plot_*.py"))
NAMES = [f"{path.parent.name}/{path.stem}" for path in ENTRIES]
PURPOSES = {
    "posterior_of_the_lengthscale",
    "see_a_difference",
    "compare_tables",
    "check_a_model",
    "learn_a_kernel",
    "find_causes",
    "filter",
    "simulate",
    "reproduce_the_papers",
}
for_all_entries = pytest.mark.parametrize("path", ENTRIES, ids=NAMES)


def lines_of_code(source: str) -> int:
    """Count the lines with code after the docstring."""
    module = ast.parse(source)
    first = module.body[0].end_lineno or 0
    ignored = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in ignored and token.string and token.start[0] > first:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines)


def sentences(text: str) -> int:
    """Count ends of sentences, which a capital letter, or the end of the text, follows."""
    return len(re.findall(r"[.?!](?=\s+[A-Z]|$)", text))


def test_every_purpose_has_several_entries():
    assert len(ENTRIES) >= 24
    assert {path.parent.name for path in ENTRIES} == PURPOSES
    for purpose in PURPOSES:
        assert sum(path.parent.name == purpose for path in ENTRIES) >= 2
    assert len({path.stem for path in ENTRIES}) == len(ENTRIES)


@pytest.mark.parametrize("folder", ["", *sorted(PURPOSES)])
def test_every_folder_has_a_header(folder):
    title, line, *_ = (FOLDER / folder / "GALLERY_HEADER.rst").read_text().splitlines()
    assert title
    assert line in ("=" * len(title), "-" * len(title))


@for_all_entries
def test_the_docstring_has_a_title_and_names_the_source(path):
    _, title, line, blank, *text = ast.get_docstring(
        ast.parse(path.read_text(encoding="utf-8")), clean=False
    ).splitlines()
    assert 10 < len(title) < 80
    assert line == "=" * len(title)
    assert not blank
    description = " ".join(text)
    assert "?" in description
    assert re.search(r"The data are|the data are", description)
    assert re.search(r"\b(1[6-9]|20)\d\d\b|that comes? with", description)


@for_all_entries
def test_the_code_is_short_and_ends_with_two_sentences(path):
    source = path.read_text(encoding="utf-8")
    assert 15 <= lines_of_code(source) <= 60
    code, *closing = re.split(r"^# %%.*\n", source, flags=re.MULTILINE)
    for none in ("import argparse", "__main__", "\nclass "):
        assert none not in code
    assert len(closing) == 1
    (text,) = closing
    assert all(line.startswith("# ") for line in text.splitlines())
    closing_text = " ".join(line[2:] for line in text.splitlines())
    assert sentences(closing_text) == 2
    assert code.endswith("\n\n")


@pytest.mark.slow
@pytest.mark.usefixtures("_settings_are_put_back")
@for_all_entries
def test_it_draws_a_single_picture(path, monkeypatch):
    if "causal_graph" in path.read_text(encoding="utf-8"):
        pytest.importorskip("causallearn")
    pytest.importorskip("sklearn")
    matplotlib.use("Agg")
    monkeypatch.chdir(path.parent)
    plt.close("all")
    runpy.run_path(str(path))
    assert len(plt.get_fignums()) == 1
    assert plt.gcf().axes
