"""How far samples are apart in location, beside loops over rows, and what is heard by it."""

import numpy as np
import pytest
from bke.inference import two_sample_test
from bke.inference.evidence import location as module
from bke.inference.evidence.location import Scores, location, normal_scores
from bke.inference.evidence.places import cells
from bke.inference.evidence.statistic import STATISTICS, evidences
from bke.inference.permutation.combination import neg_log_pvalues
from bke.inference.permutation.pair import Pair
from bke.inference.permutation.pooling import relabelled, swapped
from bke.inference.permutation.weighted import weighted
from scipy.stats import norm, rankdata

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("dimension", [1, 3])
@pytest.mark.parametrize("relabel", [relabelled, swapped])
def test_it_is_the_distance_of_mean_scores(dimension, relabel):
    """Of single rows, whose middle ranks are SciPy's less one half."""
    P = RNG.normal(size=(30, dimension)).round(1)
    Q = RNG.normal(1e6, 1.0, size=(30 if relabel is swapped else 45, dimension)).round(1)
    rows = relabel(Pair(P, Q), 9, np.random.default_rng(1))
    every = np.repeat(rows.points, rows.counts, axis=0)
    scores = norm.ppf((rankdata(every, axis=0) - 0.5) / len(every))
    expected = []
    for labels in rows.labels.T:
        # Equal rows have equal scores, whichever of them are in the first sample.
        first = np.concatenate([np.arange(n) < z for n, z in zip(rows.counts, labels, strict=True)])
        assert first.sum() == 30
        apart = scores[first].mean(axis=0) - scores[~first].mean(axis=0)
        expected.append(apart @ apart)
    np.testing.assert_allclose(location(rows), expected, rtol=1e-9)


def test_units_and_monotone_functions_of_columns_do_not_matter():
    P, Q = RNG.normal(size=(20, 2)), RNG.normal(0.5, 1.0, size=(30, 2))
    one, other = (
        location(relabelled(Pair(*both), 9, np.random.default_rng(1)))[0]
        for both in ((P, Q), (np.exp(P), np.exp(Q)))
    )
    assert one == pytest.approx(other, rel=1e-9)


def test_weighted_rows_count_by_their_weights():
    """The labels as they are; scores go by the weights of both samples."""
    P, Q = RNG.normal(size=(30, 2)), RNG.normal(size=(45, 2))
    v, w = RNG.exponential(size=30), RNG.exponential(size=45)
    rows = weighted(Pair(P, Q), (v, w), 9, np.random.default_rng(1))
    known = Scores.of(rows.points, rows.counts)
    means = [np.average(known(z / rows.unit), axis=0, weights=of) for z, of in ((P, v), (Q, w))]
    apart = np.subtract(*means)
    np.testing.assert_allclose(location(rows)[0], apart @ apart, rtol=1e-9)


def test_of_very_many_values_scores_are_interpolated_and_frequent_ones_exact(monkeypatch):
    monkeypatch.setattr(module, "MOST_VALUES", 100)
    x = np.concatenate([np.zeros(300), RNG.normal(2.0, 1.0, size=2000)])
    values, scores = normal_scores(x, np.ones(len(x), dtype=int))
    assert len(values) <= 102
    assert values[0] == x.min()
    assert values[-1] == x.max()
    assert 0.0 in values
    exact = norm.ppf((rankdata(x) - 0.5) / len(x))
    found = np.interp(x, values, scores)
    assert found[x == 0.0] == pytest.approx(exact[x == 0.0], abs=1e-12)
    inside = np.abs(exact) < 1.5
    np.testing.assert_allclose(found[inside], exact[inside], atol=0.02)


def test_one_value_says_nothing():
    rows = relabelled(Pair(np.full((5, 1), 0.1), np.full((7, 1), 0.1)), 9, np.random.default_rng(1))
    assert not location(rows).any()


def test_a_shift_of_heavy_tails_is_told_by_location():
    """2 x 100 rows of t with 2 degrees of freedom, moved by 0.5, seeds 0 to 4: some find it so."""
    told = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        P, Q = rng.standard_t(2, size=(100, 1)), 0.5 + rng.standard_t(2, size=(100, 1))
        told.append(two_sample_test(P, Q, permutations=199, progress=False).parts[0].name)
    assert "in location" in told


def test_each_kind_of_evidence_counts_as_much_as_the_formula_says():
    """CMP-9 by its definition: half for location and for what is of covariances."""
    rng = np.random.default_rng(2)
    rows = relabelled(Pair(rng.normal(size=(30, 2)), rng.normal(0.3, 1.2, size=(45, 2))), 29, rng)
    found = evidences(rows, cells(rows), lambda count: None)
    half = {"in location", "in the distance of covariances", "in the dimensions of covariances"}
    expected = np.zeros(30)
    for where, row in zip(STATISTICS, found.each(), strict=True):
        expected += (0.5 if where in half else 1.0) * np.exp(0.5 * neg_log_pvalues(row))
    np.testing.assert_allclose(found.statistic(), 2.0 * np.log(expected), rtol=1e-12)
    at = STATISTICS.index("in location")
    np.testing.assert_array_equal(found.each()[at], location(rows))


def test_equal_values_of_different_rows_are_equal_in_any_unit():
    """Sums of equal values over their number are rounded: of three binary columns some had 3."""
    rng = np.random.default_rng(0)
    P, Q = rng.integers(0, 2, (40, 3)).astype(float), rng.integers(0, 2, (50, 3)).astype(float)
    found = []
    for unit in (1.0, 1.8, 0.1, 1e12):
        rows = relabelled(Pair.checked(unit * P, unit * Q), 9, np.random.default_rng(1))
        assert [len(np.unique(column)) for column in rows.points.T] == [2, 2, 2]
        found.append(location(rows))
    np.testing.assert_allclose(found, np.tile(found[0], (4, 1)), rtol=1e-9)
