"""The page of a comparison of tables is complete and self-contained, and text is escaped."""

import re
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from bke.inference import compare_tables
from bke.inference.tables.page import _ticks

VOID = {"meta", "link", "input", "line", "rect", "path", "img", "br"}
#: Largest size of the page, and its increase per column.
BYTES, BYTES_A_COLUMN = 300_000, 10_000


class Structure(HTMLParser):
    """Collect open tags, ids, headings, addresses and the number of rows."""

    def __init__(self, page):
        super().__init__()
        self.open, self.ids, self.headings, self.addresses, self.rows = [], [], [], [], 0
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.rows += "data-text" in attributes
        self.ids += [attributes["id"]] if "id" in attributes else []
        self.addresses += [attributes[name] for name in ("src", "href") if name in attributes]
        self.headings += [int(tag[1])] if re.fullmatch("h[1-6]", tag) else []
        if tag not in VOID:
            self.open.append(tag)
        if tag == "svg":
            assert attributes["role"] == "img"
            assert attributes["aria-label"]

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag


@pytest.fixture(scope="module")
def result():
    rng = np.random.default_rng(5)

    def table(n, shift):
        return pd.DataFrame(
            {
                "size <m>": rng.normal(size=n) + shift,
                "kind": rng.choice(["a & b", "</td><script>x()</script>"], size=n),
                "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 999, n), "h"),
                "note": [" ".join(rng.choice(list("abcdefgh"), 6)) for _ in range(n)],
                **{f"x{index}": rng.poisson(2.0, n) for index in range(8)},
                "constant": 1,
            }
        )

    return compare_tables(
        table(200, 0.0), table(220, 1.0), n_resamples=99, names=("<old>", "new"), progress=False
    )


def test_the_page_is_complete_and_self_contained(result):
    page = result.to_html()
    structure = Structure(page)
    assert not structure.open
    assert len(structure.ids) == len(set(structure.ids))
    assert structure.rows == len(result.columns) == 12
    assert structure.headings[0] == 1
    assert structure.headings.count(1) == 1
    assert all(
        after <= before + 1
        for before, after in zip(structure.headings, structure.headings[1:], strict=False)
    )
    assert all(address.startswith(("#", "data:")) for address in structure.addresses)
    assert "http" not in page.replace("http-equiv", "")
    assert len(page.encode()) <= BYTES + BYTES_A_COLUMN * len(result.columns)


def test_words_of_the_data_are_no_tags(result):
    page = result.to_html()
    assert "<script>x()" not in page
    assert "&lt;script&gt;x()" in page
    assert "&lt;old&gt; and new differ" in page


def test_the_page_contains_the_report(result):
    page = re.sub(r"<[^>]*>", " ", result.to_html())
    text = " ".join(page.replace("&lt;", "<").replace("&gt;", ">").replace("&#39;", "'").split())
    lines = [line for line in str(result).splitlines() if "Note: " not in line]
    for line in lines[1:-1]:
        for part in line.strip().rstrip(".").split(": ", 1)[1].split("; "):
            assert part in text
    assert "constant: it has one value in all rows" in text


@pytest.mark.parametrize(
    ("kind", "low", "high", "expected"),
    [
        ("number", 0.0, 1.0, [0.0, 0.25, 0.5, 0.75, 1.0]),
        ("number", -3.2, 4.7, [-2.0, 0.0, 2.0, 4.0]),
        ("number", 1234.0, 1634.0, [1300.0, 1400.0, 1500.0, 1600.0]),
        ("integer", -0.5, 3.5, [0.0, 1.0, 2.0, 3.0]),
        ("integer", -0.5, 9.5, [0.0, 5.0]),
        ("integer", 0.5, 1.5, [1.0]),
    ],
)
def test_ticks_are_multiples_of_a_round_number(kind, low, high, expected):
    ticks = _ticks(SimpleNamespace(kind=kind), SimpleNamespace(edges=np.array([low, high])))
    np.testing.assert_allclose([position for position, _ in ticks], expected)
    assert "-0" not in [label for _, label in ticks]
