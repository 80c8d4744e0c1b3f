"""Composed and decomposed forms of one text are one category and one name of a column."""

import io
import json
import unicodedata

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from bke.inference import (
    Monitor,
    Monitors,
    compare,
    compare_groups,
    compare_tables,
    two_sample_test,
)
from bke.inference.io.samples import read_sample
from bke.inference.io.stream import RowStream

QUIET = {"n_resamples": 199, "progress": False}
COMPOSED, DECOMPOSED = (unicodedata.normalize(form, "café") for form in ("NFC", "NFD"))
RNG = np.random.default_rng(0)
WORDS = np.array([COMPOSED, "thé", "eau"])[RNG.integers(3, size=300)]
NUMBERS = RNG.normal(size=300)


def frame(form):
    words = [unicodedata.normalize(form, word) for word in WORDS]
    names = [unicodedata.normalize(form, name) for name in ("boîte", "température")]
    return pd.DataFrame(dict(zip(names, (words, NUMBERS), strict=True)))


def convert(frame, how, path):
    if how == "pandas":
        return frame
    if how == "category":
        return frame.astype({frame.columns[0]: "category"})
    if how == "arrow":
        return pa.Table.from_pandas(frame)
    if how == "dictionary":
        return {name: frame[name].tolist() for name in frame}
    path = path / f"table.{how}"
    if how == "csv":
        frame.to_csv(path, index=False)
    elif how == "parquet":
        frame.to_parquet(path)
    elif how == "feather":
        frame.to_feather(path)
    else:
        frame.to_json(path, orient="records", lines=True)
    return path


@pytest.mark.parametrize(
    "how",
    ["pandas", "category", "arrow", "dictionary", "csv", "parquet", "feather", "jsonl"],
)
def test_both_forms_are_the_same_value_in_tables(how, tmp_path):
    result = compare_tables(frame("NFC"), convert(frame("NFD"), how, tmp_path), **QUIET)
    assert result.pvalue == 1.0
    assert [column.name for column in result.columns] == ["boîte", "température"]
    assert {level.level for level in result["boîte"].effect.shares} == {COMPOSED, "thé", "eau"}


def test_compatibility_forms_stay_different():
    """The ligature is another text than its letters: form C is canonical, not compatible."""
    first = pd.DataFrame({"word": np.repeat(["ﬁn", "non"], 100)})
    second = pd.DataFrame({"word": np.repeat(["fin", "non"], 100)})
    assert compare_tables(first, second, **QUIET).pvalue <= 0.01


def test_arguments_name_columns_in_either_form():
    names = [unicodedata.normalize("NFD", name) for name in ("boîte", "durée", "unité")]
    table = frame("NFC").assign(durée=np.arange(300.0), unité=np.repeat(np.arange(60), 5))
    by, excluded, units = names
    two = table[table["boîte"] != "eau"]
    result = compare_tables(two, by=by, exclude=[excluded], clusters=units, **QUIET)
    twin = compare_tables(two, by="boîte", exclude=["durée"], clusters="unité", **QUIET)
    assert result.pvalue == twin.pvalue
    options = {"na_values": [DECOMPOSED], "column_types": {by: "category"}, "exclude": names[1:]}
    without_composed = compare_tables(table[:150], table[150:], **options, **QUIET)
    levels = {level.level for level in without_composed["boîte"].effect.shares}
    assert levels == {"thé", "eau"}
    groups = compare_groups(table, by, against=DECOMPOSED, exclude=names[1:], **QUIET)
    assert all(comparison.names[0] == f"boîte {COMPOSED}" for comparison in groups.comparisons)


def test_both_forms_are_the_same_level_in_monitors(tmp_path):
    reference = frame("NFC")
    monitor = Monitor(reference)
    twin = Monitor(reference)
    rows = reference.sample(400, replace=True, random_state=1)
    decomposed = rows.rename(columns=lambda name: unicodedata.normalize("NFD", name))
    decomposed = decomposed.map(
        lambda cell: unicodedata.normalize("NFD", cell) if isinstance(cell, str) else cell
    )
    assert monitor.update(decomposed).max_wealth == twin.update(rows).max_wealth
    keyed = Monitor(frame("NFD"), key=unicodedata.normalize("NFD", "boîte"))
    keyed.update(rows)
    keyed.update(decomposed)
    assert keyed.state.rows == 3  # one of each key, in whichever form it came
    monitors = Monitors(reference, unicodedata.normalize("NFD", "boîte"))
    assert set(monitors.update(decomposed)) == {COMPOSED, "thé", "eau"}


@pytest.mark.parametrize("as_json", [False, True])
def test_both_forms_name_the_same_column_in_streams(as_json):
    name = unicodedata.normalize("NFD", "boîte")
    text = json.dumps({name: 1, "b": 2}, ensure_ascii=False) if as_json else f"{name},b\n1,2\n"
    incoming = RowStream(io.BytesIO(text.encode()), ("boîte", "b"), ("boîte", "b"))
    assert [batch.data.column_names for batch in incoming.batches(5)] == [["boîte", "b"]]


def test_both_forms_name_the_same_column_of_samples(tmp_path):
    first, second = (
        pd.DataFrame({unicodedata.normalize(form, "durée"): NUMBERS, "x": NUMBERS**2})
        for form in ("NFC", "NFD")
    )
    assert two_sample_test(first, second, **QUIET).pvalue == 1.0
    assert compare(first, second, **QUIET).columns == ("durée", "x")
    second.to_csv(tmp_path / "x.csv", index=False)
    for name in second.columns[0], "durée":
        assert read_sample(tmp_path / "x.csv", columns=[name]).columns == ("durée",)
