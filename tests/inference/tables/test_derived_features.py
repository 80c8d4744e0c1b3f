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


def test_counts_of_words_in_texts_are_those_of_a_loop():
    rng = np.random.default_rng(0)
    column = Column("note", "text", np.arange(40.0) % 30, tuple(texts(rng, 30)["note"]))
    permuted = permute_labels([column], 18, 9, 0)
    feature = next(
        candidate
        for candidate in derive_features(column, permuted.row_weights)
        if candidate.name == "words"
    )
    statistics = marginal_statistics(feature, permuted)
    labels = permuted.labels[permuted.unit]
    for index, word in enumerate(feature.levels):
        word = word.removeprefix("with the word '").removesuffix("'")
        holds = np.array([word in column.levels[int(at)].split() for at in column.values])
        assert statistics.counts[index] == holds.sum()
        np.testing.assert_array_equal(statistics.labels[index], holds @ labels)
    assert statistics.sizes == (18.0, 22.0)


def test_a_new_word_is_reported():
    rng = np.random.default_rng(1)
    after = texts(rng, 200)
    after["note"] = [
        text.replace("late", "gone", 1) if rng.uniform() < 0.5 else text for text in after["note"]
    ]
    result = compare_tables(texts(rng, 200), after, **QUIET)
    assert result["note"].reject
    assert "with the word 'gone': 0.0%" in str(result)


@pytest.mark.slow
def test_texts_of_the_same_words_are_rejected_at_the_level():
    """60 pairs; above 9 rejected with probability 0.003."""
    rejected = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        rejected += compare_tables(
            texts(rng, 30), texts(rng, 40), n_resamples=59, progress=False
        ).reject
    assert rejected <= 9


def test_large_samples_of_texts_are_subsampled(monkeypatch):
    monkeypatch.setattr(module, "MAX_TEXTS", 25)
    notes = [f"text {index}" for index in range(60)]
    selected = module.subsample_texts(notes)
    assert selected.sum() == 25
    assert (module.subsample_texts(notes[::-1])[::-1] == selected).all()
