"""Texts are compared by the words and the groups of characters that they hold."""

import numpy as np
import pandas as pd
import pytest
from bke.inference import compare_tables
from bke.inference.io.types import Column
from bke.inference.tables import derived_features as module
from bke.inference.tables.derived_features import derive_features
from bke.inference.tables.permuted_labels import permute_labels
from bke.inference.tables.statistics import marginal_statistics

WORDS = ["order", "came", "late", "and", "was", "broken", "but", "service", "helped", "quickly"]
QUIET = {"n_resamples": 99, "progress": False}


def texts(rng, n, words=WORDS):
    return pd.DataFrame({"note": [" ".join(rng.choice(words, 8)) for _ in range(n)]})


def test_parts_of_a_text():
    assert module.split_words("To be, or not to be") == {"to", "be", "or", "not"}
    assert module.character_trigrams("AbC  d") == {"abc", "bc ", "c d"}


def test_what_texts_hold_is_that_of_a_loop():
    rng = np.random.default_rng(0)
    column = Column("note", "text", np.arange(40.0) % 30, tuple(texts(rng, 30)["note"]))
    permuted = permute_labels([column], 18, 9, 0)
    aspect = next(
        one for one in derive_features(column, permuted.row_weights) if one.name == "words"
    )
    found = marginal_statistics(aspect, permuted)
    labels = permuted.labels[permuted.unit]
    for index, word in enumerate(aspect.levels):
        word = word.removeprefix("with the word '").removesuffix("'")
        holds = np.array([word in column.levels[int(at)].split() for at in column.values])
        assert found.counts[index] == holds.sum()
        np.testing.assert_array_equal(found.labels[index], holds @ labels)
    assert found.sizes == (18.0, 22.0)


def test_a_word_that_is_new_is_told():
    rng = np.random.default_rng(1)
    after = texts(rng, 200)
    after["note"] = [
        text.replace("late", "gone", 1) if rng.uniform() < 0.5 else text for text in after["note"]
    ]
    found = compare_tables(texts(rng, 200), after, **QUIET)
    assert found["note"].reject
    assert "with the word 'gone': 0.0%" in str(found)


@pytest.mark.slow
def test_texts_of_the_same_words_are_of_one_distribution():
    """60 pairs; above 9 rejected with probability 0.003."""
    rejected = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        rejected += compare_tables(
            texts(rng, 30), texts(rng, 40), n_resamples=59, progress=False
        ).reject
    assert rejected <= 9


def test_of_very_many_texts_some_are_looked_into(monkeypatch):
    monkeypatch.setattr(module, "MAX_TEXTS", 25)
    some = [f"text {index}" for index in range(60)]
    seen = module.subsample_texts(some)
    assert seen.sum() == 25
    assert (module.subsample_texts(some[::-1])[::-1] == seen).all()
