"""Samples at the edge of what can be compared: the right answer, in words that say it."""

import json

import numpy as np
import pytest
from bke.inference import InputError, compare

QUIET = {"permutations": 99, "progress": False}
X = np.random.default_rng(0).normal(size=60)


def test_a_sample_and_itself_are_more_alike_than_two_draws():
    found = compare(X, X[::-1], **QUIET)
    assert found.pvalue == 1.0
    assert found.effect_interval[1] < 0.5
    assert "more alike than draws of one distribution would be" in str(found)


def test_of_two_values_a_place_is_one_of_them_and_its_ratio_that_of_the_shares():
    P, Q = np.repeat([0.0, 1.0], [40, 20]), np.repeat([0.0, 1.0], [15, 45])
    found = compare(P, Q, **QUIET)
    assert found.differ
    shares = {0.0: 40 / 15, 1.0: 20 / 45}
    assert {round(place.at[0], 9) for place in found.places} == set(shares)
    for place in found.places:
        assert place.ratio == pytest.approx(shares[round(place.at[0], 9)], rel=1e-6)
        assert place.scale[0] < 0.1


def test_one_outlier_hides_nothing():
    plain, wild = (compare(P, X + 1.0, **QUIET) for P in (X, np.append(X, 1e9)))
    for found in (plain, wild):
        assert found.differ
        assert found.places
        assert found.log_bayes_factor > 3.0
    assert wild.lengthscale[0] < 2.0 * plain.lengthscale[0]


def test_far_from_zero_as_many_digits_are_told_as_the_scale_needs():
    found = compare(1e6 + X, 1e6 + X + 2.0, **QUIET)
    told = [line for line in str(found).splitlines() if ", most clearly around " in line]
    assert len({line.split(" (scale")[0].split(" around ")[1] for line in told}) == len(told) > 1
    assert "e+06" not in str(found)


def test_a_column_and_its_copy_tell_what_the_column_tells():
    once = compare(X, X + 1.0, **QUIET)
    both = compare(np.stack([X, X], axis=1), np.stack([X, X], axis=1) + 1.0, **QUIET)
    assert once.differ
    assert both.differ
    assert both.log_bayes_factor == pytest.approx(once.log_bayes_factor, rel=0.2)


@pytest.mark.slow
def test_overwhelming_evidence_is_told_by_its_power_of_ten():
    rng = np.random.default_rng(0)
    found = compare(rng.normal(size=3000), rng.normal(5.0, size=3000), **QUIET)
    assert found.log_bayes_factor > 750.0
    assert "odds 1e" in str(found)
    assert found.probability == 1.0


def test_two_rows_each_are_an_answer():
    found = compare([1.0, 2.0], [3.0, 4.0], **QUIET)
    assert not found.differ
    assert "no shift of a column would have been found" in str(found)
    assert found.plot() is not None


@pytest.mark.parametrize(
    ("P", "Q", "options", "said"),
    [
        ([1.0], X, {}, "P needs at least two rows, and has 1"),
        (X > 0, X > 1, {}, "real number"),
        (np.c_[X, X], np.c_[X, X], {"columns": ["a", "a"]}, "columns has the name 'a' twice"),
        (0 * X, 0 * X, {}, "all are equal"),
        (X, 1e200 * X, {}, "overflow"),
        (X, X, {"permutations": 1}, "take at least 19"),
        (X, X, {"alpha": 1.0}, "alpha must be between 0 and 1"),
    ],
)
def test_what_makes_no_sense_is_one_sentence(P, Q, options, said):
    with pytest.raises(InputError, match=said):
        compare(P, Q, **{**QUIET, **options})


@pytest.mark.slow
def test_two_rows_do_not_tell_how_often_a_row_is_told():
    Q = np.random.default_rng(0).normal(size=5000)
    found = compare([0.0, 1.0], Q, **QUIET)
    low, high = found.effect_interval
    assert not found.differ
    assert low < 0.5 < high


def test_what_is_infinite_is_none_in_json():
    found = compare(np.zeros(30), np.ones(40), **QUIET)
    told = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert [place["ratio"] for place in told["places"]] == [None, 0.0]
    assert "has next to nothing there" in str(found)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": 1.5}, "level must be between 0 and 1"),
        ({"level": -1}, "level must be a positive number"),
        ({"seed": -1}, "seed must be from 0"),
        ({"scale": 0.0}, "scale must be a positive number or 1 of them"),
        ({"scale": [1.0, 2.0]}, "scale must be a positive number or 1 of them"),
    ],
)
def test_bands_that_make_no_sense(options, message):
    found = compare(X, X + 1.0, **QUIET)
    with pytest.raises(InputError, match=message):
        found.witness([0.0], **options)
