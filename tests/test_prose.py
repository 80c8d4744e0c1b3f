"""Prose of the pages and docstrings: words, spelling and length of sentences."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GENERATED = {"gallery", "generated", "benchmarks", "command_line.md"}
LONGEST_SENTENCE = 40
AMERICAN = "American spelling, as in names"

#: Words of prose that have a plainer or a usual form, with that form.
RULES = {
    r"simply|obviously|of course|basically|actually|needless to say": "nothing",
    r"e\.g\.|i\.e\.|etc\.": "'for example', 'that is', 'and others'",
    r"relabell?\w*|labellings?|dealt": "permuted labels, permutation",
    r"loudest|hears": "the largest component; has power against",
    r"rungs?|nearness": "bandwidth; kernel value",
    r"hangs? on|likewise|by chance it is": "depends on; also; under the null",
    r"shares? of": "proportion of",
    r"cent(?:re\w*|ring)|(?:col|behavi|fav|neighb)our\w*|grey|(?:label|model)l(?:ed|ing)": AMERICAN,
    r"\w*(?:mal|lar|tor|mar|tim|ter|tial|dom|dard)is(?:e[sd]?|ing|ations?)": AMERICAN,
}


def prose(text):
    """Return a text without code, links and tables' rules."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"`+[^`]*`+", "0", text)
    return re.sub(r"\]\([^)]*\)", "]", text)


def pages():
    yield from (ROOT / name for name in ("README.md", "CONTRIBUTING.md", "benchmarks/README.md"))
    for page in sorted((ROOT / "docs").rglob("*.md")):
        if not GENERATED & set(page.relative_to(ROOT / "docs").parts):
            yield page


def docstrings():
    """Return the place and the text of each docstring of the packages."""
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for package in ("models", "inference"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                text = ast.get_docstring(node) if isinstance(node, documented) else None
                if text:
                    yield f"{path.relative_to(ROOT)}: {getattr(node, 'name', 'module')}", text


@pytest.fixture(scope="module")
def texts():
    texts = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in pages()}
    return {place: prose(text) for place, text in {**texts, **dict(docstrings())}.items()}


def words_with_a_better_form(text):
    """Return words of a text with the advice of their rules."""
    return [
        f"{match[0]!r}: write {advice}"
        for rule, advice in RULES.items()
        for match in re.finditer(rf"(?<![\w-])(?:{rule})(?![\w-])", text, flags=re.IGNORECASE)
    ]


def long_sentences(text):
    """Return sentences of more than 40 words of at least two letters.

    A semicolon, a colon, a cell of a table, an item of a list and a section end a sentence.
    """
    sentences = []
    for part in re.split(r"\n\s*\n|\n\s*(?:[-*]|\d+\.) |\n#+ |\n *\w+: |\|", text):
        for sentence in re.split(r"(?<=[.!?:;])\s+", " ".join(part.split())):
            if len(re.findall(r"[^\W\d_][\w'-]+", sentence)) > LONGEST_SENTENCE:
                sentences.append(sentence)
    return sentences


def test_words_are_those_of_the_field_in_american_spelling(texts):
    found = {place: words_with_a_better_form(text) for place, text in texts.items()}
    assert not {place: words for place, words in found.items() if words}


def test_sentences_have_at_most_forty_words(texts):
    found = {place: long_sentences(text) for place, text in texts.items()}
    assert not {place: sentences for place, sentences in found.items() if sentences}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("The rows are dealt out; this is simply a normalised colour, e.g. red.", 5),
        ("A kernel is centered. Color, otherwise a raised etcetera, surprises.", 0),
        (prose("Pass `labels='dealt'` or [this](grey.md).\n```\ncolour = 1\n```\n"), 0),
    ],
)
def test_rules_apply_to_words_outside_of_code(text, count):
    assert len(words_with_a_better_form(text)) == count


def test_a_sentence_ends_at_a_semicolon_or_a_new_item():
    half = "word " * 30
    assert long_sentences(f"{half}{half}.") != []
    for separator in (". ", "; ", "\n- ", "\n\n", " | "):
        assert long_sentences(half.strip() + separator + half) == []
