"""Local differences, compared with loops over windows and permutations."""

import dataclasses

import numpy as np
import pytest
from bke.inference.permutation.pool import pool_pairs, pool_rows
from bke.inference.permutation.pooled_sample import PSEUDO_ROWS
from bke.inference.permutation.samples import TwoSamples
from bke.inference.statistics import local_differences
from bke.inference.statistics.local_differences import (
    LONGEST,
    MIN_ROWS,
    SHORTEST,
    LocalDifferences,
    LocalStatistics,
    _quantile_indices,
    local_statistics,
)

RNG = np.random.default_rng(3)
SIZES = (37, 26)


def pool(P, Q, n_resamples=9):
    return pool_rows(TwoSamples.checked(P, Q), n_resamples, np.random.default_rng(0))


def window_weights(points, center, scale):
    """Return exp(-|z - x|^2 / (2 l^2)) in the columns of a window."""
    used = np.isfinite(scale)
    return np.exp(-0.5 * np.sum(((points[:, used] - center[used]) / scale[used]) ** 2, axis=1))


@pytest.mark.parametrize("columns", [1, 2, 3])
@pytest.mark.parametrize("is_large", [False, True])  # scales are evaluated together
def test_t_is_the_difference_of_mean_weights_over_its_deviation_under_equality(
    columns, is_large, monkeypatch
):
    monkeypatch.setattr(local_differences, "LARGE_SAMPLE", 20 if is_large else 10_000)
    P, Q = RNG.gamma(2.0, size=(SIZES[0], columns)), RNG.normal(size=(SIZES[1], columns)) + 2.0
    sample = pool(P, Q)
    local = local_statistics(sample)
    assert len(local.t) > 100
    assert np.isfinite(local.scales).all() == (columns < 3)  # windows of one of three columns
    for center, scale, t, means, errors, covariance in zip(
        local.centers,
        local.scales,
        local.t,
        local.means,
        local.errors,
        local.covariance,
        strict=True,
    ):
        k = window_weights(sample.points, center, scale)
        assert k.sum() ** 2 >= MIN_ROWS * np.sum(k**2) * (1.0 - 1e-6)
        first = sample.labels.T.astype(bool)
        difference = np.array([k[labels].mean() - k[~labels].mean() for labels in first])
        deviation = np.sqrt(np.var(k, ddof=1) * (1 / SIZES[0] + 1 / SIZES[1]))
        np.testing.assert_allclose(t, difference / deviation, rtol=1e-6, atol=1e-9)
        samples = zip((first[0], ~first[0]), means, errors, SIZES, strict=True)
        for weights, mean, error, size in samples:
            assert mean == pytest.approx(k[weights].mean(), rel=1e-9)
            square = np.sum((k[weights] - mean) ** 2) + PSEUDO_ROWS * np.mean((k - mean) ** 2)
            floor = 1.0 if mean * size < 1.0 else 0.0
            assert error == pytest.approx(max(square, floor) ** 0.5 / size, rel=1e-6)
        assert covariance == 0.0


def test_t_of_pairs_is_that_of_their_differences():
    P = RNG.normal(size=(30, 1))
    Q = P + 0.5 * RNG.normal(size=(30, 1)) + 0.3
    sample = pool_pairs(TwoSamples.checked(P, Q), 9, np.random.default_rng(0))
    local = local_statistics(sample)
    a, b = sample.partners.T
    for center, scale, t, covariance in zip(
        local.centers, local.scales, local.t, local.covariance, strict=True
    ):
        k = window_weights(sample.points, center, scale)
        signs = 2.0 * sample.labels[a].astype(float) - 1.0
        difference = np.mean((k[a] - k[b])[:, None] * signs, axis=0)
        variance = np.mean((k[a] - k[b]) ** 2) / len(a)
        np.testing.assert_allclose(t, difference / variance**0.5, rtol=1e-6, atol=1e-9)
        assert covariance == pytest.approx(np.cov(k[a], k[b], ddof=0)[0, 1] / len(a), rel=1e-6)


def test_t_and_step_down_p_values_with_tied_rows():
    """Against single rows: means, standard errors with pseudo-observations, and p-values."""
    rng = np.random.default_rng(0)
    P, Q = rng.normal(size=30).round(0), rng.normal(0.4, 1.3, size=45).round(0)
    sample = pool_rows(TwoSamples.checked(P, Q), 99, np.random.default_rng(1))
    local = local_statistics(sample)
    assert len(local.t) > 20
    for window in (0, len(local.t) // 2, len(local.t) - 1):
        for column in (0, 5):
            labels = sample.labels[:, column].astype(int)
            points = np.concatenate(
                [
                    np.repeat(sample.points, labels, axis=0),
                    np.repeat(sample.points, sample.counts - labels, axis=0),
                ]
            )
            first = np.arange(len(points)) < 30
            k = window_weights(points, local.centers[window], local.scales[window])
            assert k.sum() ** 2 >= 20 * np.sum(k**2)
            deviation = np.sqrt(k.var(ddof=1) * (1 / 30 + 1 / 45))
            expected = (k[first].mean() - k[~first].mean()) / deviation
            assert local.t[window, column] == pytest.approx(expected)
            if column == 0:
                means = [k[first].mean(), k[~first].mean()]
                np.testing.assert_allclose(local.means[window], means)
                errors = [k[first].var() / 30, k[~first].var() / 45]
                # Two pseudo-observations, at any of the different rows.
                once = k[np.unique(points, axis=0, return_index=True)[1]]
                errors[0] += 2 * np.mean((once - k[first].mean()) ** 2) / 30**2
                errors[1] += 2 * np.mean((once - k[~first].mean()) ** 2) / 45**2
                np.testing.assert_allclose(local.errors[window], np.sqrt(errors))
    absolute, remaining, previous = np.abs(local.t), set(range(len(local.t))), 0.0
    while remaining:
        top = max(remaining, key=lambda window: absolute[window, 0])
        maxima = absolute[list(remaining)].max(axis=0)
        previous = max(previous, np.mean(maxima >= absolute[top, 0] - 1e-12))
        assert local.pvalues()[top] == pytest.approx(previous)
        remaining.remove(top)


def test_windows_with_few_rows_are_dropped():
    sample = pool(*RNG.normal(size=(2, 40)), 3)
    local, chosen = local_statistics(sample), LocalDifferences.choose(sample)
    remaining = set(zip(local.centers[:, 0].tolist(), local.scales[:, 0].tolist(), strict=True))
    expected = set()
    for scale in np.geomspace(SHORTEST, LONGEST, 14):
        for center in chosen.locations[:, 0]:
            k = window_weights(sample.points, np.array([center]), np.array([scale]))
            if k.sum() ** 2 >= MIN_ROWS * np.sum(k**2):
                expected.add((float(center), float(scale)))
    assert remaining == expected
    assert len(expected) < 14 * len(chosen.locations)


def test_locations_are_different_rows_and_do_not_depend_on_labels():
    P, Q = RNG.normal(size=(200, 2)), RNG.normal(size=(150, 2))
    original, other = (
        LocalDifferences.choose(pool(*samples, 3)).locations
        for samples in ((P, Q), (np.concatenate([P[:50], Q]), P[50:]))
    )
    assert len(np.unique(original, axis=0)) == 200
    np.testing.assert_array_equal(original, other)


def test_columns_without_ties_are_evaluated_together_with_the_same_result(monkeypatch):
    first, second = RNG.normal(size=(25, 5)), RNG.normal(0.3, 1.2, size=(31, 5))
    for rows in (first, second):
        rows[:, 2] = np.round(rows[:, 2])  # ties, between columns without ties
    sample = pool(first, second)
    groups = LocalDifferences.choose(sample)._column_groups(sample)
    assert [list(group) for group in groups] == [[0], [1], [2], [3], [4]]
    separate = local_statistics(sample)
    monkeypatch.setattr(local_differences, "WINDOWS_AT_ONCE", 10**5)
    groups = LocalDifferences.choose(sample)._column_groups(sample)
    assert [list(group) for group in groups] == [[0, 1], [2], [3, 4]]
    together = local_statistics(sample)
    assert len(separate.t) > 100
    for field in ("centers", "scales", "t", "means", "errors"):
        np.testing.assert_allclose(
            getattr(together, field),
            getattr(separate, field),
            rtol=1e-9,
            atol=1e-12,
            err_msg=field,
        )


def test_quantile_indices_of_points_with_counts():
    np.testing.assert_array_equal(_quantile_indices(np.ones(10), 5), [1, 3, 5, 7, 9])
    np.testing.assert_array_equal(_quantile_indices(np.ones(5), 100), np.arange(5))
    np.testing.assert_array_equal(_quantile_indices(np.array([8.0, 1.0, 1.0]), 2), [0, 1])
    np.testing.assert_array_equal(_quantile_indices(np.array([1.0, 8.0, 1.0]), 1), [1])


def test_largest_t_critical_values_and_p_values_by_hand():
    t = np.array([[1.0, -3.0, 0.5, 0.2], [-2.0, 0.1, 0.4, -0.3]])
    shape = np.zeros((2, 1))
    local = LocalStatistics(shape, shape, t, np.zeros((2, 2)), np.zeros((2, 2)), np.zeros(2))
    np.testing.assert_array_equal(local.largest, [2.0, 3.0, 0.5, 0.3])
    assert local.critical_value(0.5) == 0.5
    assert local.critical_value(0.25) == 2.0
    assert local.critical_value(0.2) == 3.0
    np.testing.assert_allclose(local.pvalues(), [2 / 4, 2 / 4])
    competing = dataclasses.replace(local, competing=np.array([0.0, 0.0, 9.0, 9.0]))
    np.testing.assert_array_equal(competing.largest, [2.0, 3.0, 9.0, 9.0])
    np.testing.assert_allclose(competing.pvalues(), [1.0, 1.0])
