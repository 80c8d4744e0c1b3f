"""Permutations in stages: no more than the verdict needs, and a p-value all the same."""

import numpy as np
import pytest
from bke.inference import compare, compare_tables, independence_test, two_sample_test
from bke.inference.permutation import stages as module
from bke.inference.permutation.null_distribution import CLEAR, describe_count, in_stages, stages

QUIET = {"progress": False}


@pytest.mark.parametrize(
    ("permutations", "alpha", "expected"),
    [
        (999, 0.05, [999]),
        (9998, 0.05, [9998]),
        (9999, 0.05, [999, 9999]),
        (100_000, 0.05, [999, 9999, 100_000]),
        (100_000, 0.001, [9999, 100_000]),  # 999 would show one exceedance
    ],
)
def test_each_stage_has_ten_times_as_many(permutations, alpha, expected):
    assert stages(permutations, alpha) == expected


def test_a_stage_ends_the_draw_where_its_verdict_is_clear():
    drawn = []

    def evaluate(pvalue):
        def one(count):
            drawn.append(count)
            return pvalue

        return one

    assert in_stages(evaluate(0.21), 9999, 0.05, pvalue=float) == 0.21
    assert drawn == [999]
    assert in_stages(evaluate(0.2), 9999, 0.05, pvalue=float) == 0.2
    assert drawn == [999, 999, 9999]
    in_stages(evaluate(0.9), 9999, 0.05, pvalue=float, sequential=False)
    assert drawn[3:] == [9999]


def test_what_stages_end_with_is_a_pvalue(monkeypatch):
    """200 000 null tests of 19 and then 199 permutations, seed 0, which a second stage knows anew.

    The chance of p <= u is at most u at u = 0.05, 0.1, ..., 0.95, and is u nearly up to what ends
    the draw: bands are of 4.5 standard errors, beyond which one of them is once in 10 000.
    """
    monkeypatch.setattr(module, "FIRST", 19)
    monkeypatch.setattr(module, "LEAST_EXCEEDING", 1)
    rng = np.random.default_rng(0)
    count, ends = 200_000, CLEAR * 0.05
    # Of a statistic with the tail probability t so many of B permutations are as large.
    tails = rng.uniform(size=count)
    first, second = ((1 + rng.binomial(B, tails)) / (1 + B) for B in (19, 199))
    found = np.array(
        [
            in_stages(lambda B, i=i: (first if B == 19 else second)[i], 199, 0.05, pvalue=float)
            for i in range(count)
        ]
    )
    assert 0.7 < np.mean(found == first) < 0.9  # of how many the first stage ends the draw
    for u in np.arange(0.05, 1.0, 0.05):
        band = 4.5 * np.sqrt(u * (1.0 - u) / count)
        share = np.mean(found <= u + 1e-9)
        assert share <= u + band
        if u < ends - 0.1:
            assert share > 0.8 * u


@pytest.fixture
def early(monkeypatch):
    """The first stage has 99 permutations."""
    monkeypatch.setattr(module, "FIRST", 99)
    monkeypatch.setattr(module, "LEAST_EXCEEDING", 5)


@pytest.mark.slow
def test_every_test_stops_where_nothing_differs_and_not_where_something_does(early):
    rng = np.random.default_rng(1)
    same, apart = rng.normal(size=(2, 40, 2)), rng.normal(size=(40, 2)) + 2.0
    how = {"permutations": 999, **QUIET}
    result = two_sample_test(*same, **how)
    assert "99 permutations of at most 999" in str(result)
    assert result.pvalue == two_sample_test(*same, permutations=99, **QUIET).pvalue > 0.2
    assert two_sample_test(*same, **how, sequential=False).pvalue != result.pvalue
    assert len(two_sample_test(same[0], apart, **how).null) == 999
    found = compare(*same, n_resamples=999, **QUIET)
    assert found.n_resamples == 99
    assert found.pvalue == result.pvalue  # the test and the comparison never disagree
    assert compare(same[0], apart, n_resamples=999, **QUIET).n_resamples == 999
    assert len(independence_test(same[0][:, :1], same[1][:, 1:], **how).null) == 99
    assert len(independence_test(apart, apart[:, :1], **how).null) == 999
    tables = [{"a": list(one[:, 0]), "b": list(one[:, 1])} for one in (*same, apart)]
    assert compare_tables(tables[0], tables[1], **how).permutations == 99
    assert compare_tables(tables[0], tables[2], **how).permutations == 999


def test_words_tell_that_not_all_were_needed():
    assert describe_count(999, 9999) == "999 permutations of at most 9999"
    assert describe_count(999, 999) == "999 permutations"
