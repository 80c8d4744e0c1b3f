"""The minimum detectable shift, compared with tests of data that are shifted by it."""

import dataclasses

import numpy as np
import pytest
from bke.inference import compare
from bke.inference.comparison import power
from bke.inference.comparison.power import minimum_detectable_shift
from bke.inference.permutation.null_distribution import p_value
from bke.inference.permutation.pool import pool_pairs, pool_rows
from bke.inference.permutation.samples import TwoSamples
from bke.inference.statistics.combined import CombinedStatistic, combined_pvalue


def rows_of(P, Q, n_resamples=199, *, pooled=pool_rows):
    return pooled(TwoSamples.checked(P, Q), n_resamples, np.random.default_rng(1))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pooled", "n", "columns", "sets", "least", "most"),
    [
        (pool_rows, 60, 1, 40, 30, 39),
        (pool_pairs, 60, 1, 40, 30, 40),  # scores of pairs move more than their means
        (pool_rows, 20, 2, 60, 45, 60),
    ],
)
def test_rows_that_are_shifted_by_it_differ_nine_times_of_ten(
    pooled, n, columns, sets, least, most
):
    """Seeds from 0 on; below 30 or above 39 of 40 with probability 0.02, below 45 of 60 with 5e-4.

    The shift of a t test is 3.24 standard errors.
    """
    samples = np.random.default_rng(0).normal(size=(2, n, columns))
    shift = minimum_detectable_shift(rows_of(*samples, pooled=pooled), 0.05)
    assert 3.0 < shift / (2.0 / n) ** 0.5 < 6.0
    rejected = 0
    for seed in range(sets):
        P, Q = np.random.default_rng(seed).normal(size=(2, n, columns))
        P[:, seed % columns] += shift
        rejected += combined_pvalue(rows_of(P, Q, 99, pooled=pooled)) <= 0.05
    assert least <= rejected <= most


@pytest.mark.parametrize(("sizes", "columns"), [((30, 45), 1), ((60, 40), 3)])
def test_joint_evaluation_of_labels_rejects_as_often_as_separate_evaluation(sizes, columns):
    """Seed 4, 60 sets of labels that depend on the first column; at most two decisions differ.

    Joint evaluation ignores the contribution of each to the moments of the others.
    """
    rng = np.random.default_rng(4)
    rows = rows_of(*(rng.normal(size=(n, columns)) for n in sizes))
    order = np.argsort(rows.points[:, 0])
    observed = []
    for step in np.repeat([0.0, 0.5, 1.0], 20):
        noise = np.argsort(np.arange(len(order)) * step + rng.normal(size=len(order)) * 40)
        labels = np.zeros(len(order), dtype=bool)
        labels[order[noise[: sizes[0]]]] = True
        observed.append(labels)
    nulls = rows.point_labels(slice(1, 200))
    labels = np.concatenate([np.stack(observed, axis=1).astype(nulls.dtype), nulls], axis=1)
    every = rows.with_labels(labels)
    statistic = CombinedStatistic.evaluate(every)
    joint = statistic.values(n_observed=60)
    among = np.arange(60, labels.shape[1])
    approximate, exact = [], []
    for index in range(60):
        approximate.append(p_value(np.append(joint[index], joint[60:])) <= 0.05)
        single = statistic.select(np.concatenate([[index], among]))
        exact.append(p_value(dataclasses.replace(single, approximate=False).values()) <= 0.05)
    assert 10 < np.sum(exact) < 50
    assert np.sum(np.not_equal(approximate, exact)) <= 2


def test_it_does_not_depend_on_labels_order_or_unit():
    rng = np.random.default_rng(2)
    P, Q = rng.normal(size=(50, 2)), rng.normal(size=(70, 2))
    original, changed = (rows_of(*pair) for pair in ((P, Q), (7.0 * P[::-1], 7.0 * Q[::-1])))
    assert minimum_detectable_shift(original, 0.05) == pytest.approx(
        minimum_detectable_shift(changed, 0.05)
    )


@pytest.mark.parametrize("often", [0.5, 0.05])
def test_scores_of_tied_rows_are_in_deviations(often):
    """A column of two values: no test needs less than the 3.24 standard errors of a t test."""
    rng, n = np.random.default_rng(0), 60
    P, Q = (rng.uniform(size=(2, n)) < often).astype(float)
    assert 3.0 < minimum_detectable_shift(rows_of(P, Q), 0.05) / (2.0 / n) ** 0.5 < 7.0


def test_small_samples_have_no_detectable_shift():
    P, Q = np.random.default_rng(0).normal(size=(2, 4))
    assert minimum_detectable_shift(rows_of(P, Q), 0.01) is None
    result = compare(P, Q, n_resamples=199, alpha=0.01, progress=False)
    assert result.minimum_detectable_shift is None
    assert "At this sample size no single-column shift reaches a power of 0.9." in str(result)


def test_different_samples_have_no_minimum_detectable_shift():
    rng = np.random.default_rng(0)
    result = compare(rng.normal(size=60), rng.normal(2.0, size=60), n_resamples=99, progress=False)
    assert result.reject
    assert result.minimum_detectable_shift is None
    assert "power" not in str(result)


def test_correlated_pairs_have_a_smaller_detectable_shift():
    """Between persons a deviation of 15, within one 6: by the paired t test 0.4 times as large."""
    rng = np.random.default_rng(4)
    P = rng.normal(140.0, 15.0, 60)
    Q = P + rng.normal(0.0, 6.0, 60)
    shift = minimum_detectable_shift(rows_of(P, Q, pooled=pool_pairs), 0.05)
    of_t_test = 3.24 * 6.0 / 60**0.5 / 15.0
    assert of_t_test / 1.5 < shift < 2.0 * of_t_test


@pytest.mark.parametrize("pooled", [pool_rows, pool_pairs])
def test_the_order_of_samples_does_not_matter(pooled):
    rng = np.random.default_rng(6)
    P, Q = rng.normal(size=(2, 40))
    Q = Q if pooled is pool_pairs else Q[:25]
    both = [compare_shift(*pair, pooled) for pair in ((P, Q), (Q, P))]
    assert both[0] == pytest.approx(both[1], rel=1e-6)


def compare_shift(P, Q, pooled):
    pair = TwoSamples.checked(P, Q)
    return minimum_detectable_shift(pooled(pair, 199, pair.generator(0)), 0.05)


def test_a_part_of_the_rows_gives_the_shift_of_all(monkeypatch):
    """200 of 1500 + 500 rows; seed 5. The error of each shift is 8 %, the bounds are four errors.

    Without the factor for the sizes the ratio would be 3.2. Exchanged samples give the same.
    """
    rng = np.random.default_rng(5)
    P, Q = rng.normal(size=(1500, 1)), rng.normal(size=(500, 1))
    of_all = minimum_detectable_shift(rows_of(P, Q), 0.05)
    monkeypatch.setattr(power, "MAX_SHIFT_ROWS", 200)
    of_part = minimum_detectable_shift(rows_of(P, Q), 0.05)
    assert 0.6 < of_part / of_all < 1.6
    assert of_part != of_all
    assert minimum_detectable_shift(rows_of(Q, P), 0.05) == pytest.approx(of_part)
