"""Rows that depend on their predecessors are noted, and independent rows rarely."""

import itertools

import numpy as np
import pandas as pd
import pytest
from bke.inference import compare, compare_tables, independence_test, two_sample_test
from bke.inference.data.row_notes import serial_note

QUIET = {"n_resamples": 39, "sequential": False, "progress": False}


def autoregressive(rng, rows, coefficient, columns=1):
    noise = rng.normal(size=(rows + 50, columns))
    for row in range(1, len(noise)):
        noise[row] += coefficient * noise[row - 1]
    return noise[50:]


def test_mean_and_variance_of_the_sum_under_exchangeability():
    """The sum of products of neighbors has mean -1; its variance is near the number of rows."""
    scores = np.array([-1.2, -0.9, 0.1, 0.3, 0.6, 1.4, 1.9])
    scores = (scores - scores.mean()) / scores.std()
    orders = np.array(list(itertools.permutations(scores)))
    sums = np.sum(orders[:, 1:] * orders[:, :-1], axis=1)
    assert sums.mean() == pytest.approx(-1.0, abs=1e-12)
    assert sums.var() == pytest.approx(len(scores), rel=0.35)


@pytest.mark.parametrize(("columns", "pairs", "most"), [(1, 1000, 24), (20, 250, 10)])
def test_rate_of_notes_on_independent_rows(columns, pairs, most):
    """Seed 0, nominal 1 %: more than the most notes that are allowed have probability 1e-4."""
    rng = np.random.default_rng(0)
    names = [str(column) for column in range(columns)]
    notes = 0
    for _ in range(pairs):
        rare = (rng.random((100, columns)) < 0.1).astype(float)
        notes += bool(serial_note([rare, rng.standard_cauchy((60, columns))], names))
    assert notes <= most


def test_rate_of_notes_on_autoregressive_rows():
    """Seed 1, 400 series of 100 rows, at least 95 %: fewer than 380 at 98.5 % has 1e-6."""
    rng = np.random.default_rng(1)
    notes = [serial_note([autoregressive(rng, 100, 0.5)], ["x"]) for _ in range(400)]
    assert sum(map(bool, notes)) >= 380


def test_the_column_that_depends_most_is_named_with_its_correlation():
    rng = np.random.default_rng(2)
    rows = np.column_stack([rng.normal(size=2000), autoregressive(rng, 2000, 0.8)[:, 0]])
    (note,) = serial_note([rows, rows[::-1]], ["a", "b"])
    assert note.startswith("rows seem to depend on their predecessors (lag-1 correlation 0.7")
    assert "of 'b')" in note


def test_sorted_constant_negative_and_very_small_samples_are_not_noted():
    rng = np.random.default_rng(3)
    ordered = np.sort(rng.normal(size=(200, 1)), axis=0)
    assert serial_note([ordered, ordered[::-1]], ["x"]) == ()
    assert serial_note([np.ones((200, 1))], ["x"]) == ()
    assert serial_note([autoregressive(rng, 200, -0.8)], ["x"]) == ()
    assert serial_note([autoregressive(rng, 19, 0.99)], ["x"]) == ()


def test_missing_values_are_left_out():
    rng = np.random.default_rng(4)
    rows = autoregressive(rng, 300, 0.9)
    spread = np.full((600, 1), np.nan)
    spread[::2] = rows
    assert serial_note([spread], ["x"]) == serial_note([rows], ["x"])


def test_tests_note_dependence():
    rng = np.random.default_rng(8)
    first, second = (autoregressive(rng, 100, 0.9) for _ in range(2))
    noise = rng.normal(size=(100, 1))
    expected = "rows seem to depend on their predecessors"
    frames = [pd.DataFrame(rows, columns=["t"]) for rows in (first, second)]
    assert any(expected in note and "'t'" in note for note in compare(*frames, **QUIET).notes)
    assert any(expected in note for note in two_sample_test(first, second, **QUIET).notes)
    assert any(expected in note for note in independence_test(first, second, **QUIET).notes)
    assert not any(expected in note for note in independence_test(first, noise, **QUIET).notes)
    (note,) = compare_tables(*frames, **QUIET).notes
    assert note.startswith("Rows seem to")
    assert "--clusters (clusters=)" in note


def test_pairs_are_checked_by_their_differences():
    rng = np.random.default_rng(6)
    first = autoregressive(rng, 100, 0.9)
    second = first + rng.normal(size=first.shape)
    assert compare(first, second, paired=True, **QUIET).notes == ()
    assert compare(first, second, **QUIET).notes != ()


def test_clusters_and_strata_describe_the_dependence_of_rows():
    rng = np.random.default_rng(7)
    frames = [
        pd.DataFrame({"v": autoregressive(rng, 120, 0.9)[:, 0], "day": np.repeat(range(24), 5)})
        for _ in range(2)
    ]
    for role in ("clusters", "strata"):
        notes = compare_tables(*frames, **{role: "day"}, **QUIET).notes
        assert not any("predecessors" in note for note in notes)
