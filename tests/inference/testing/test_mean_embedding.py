"""The mean-embedding test at points where the witness is largest, held out."""

import numpy as np
import pytest
from bke.inference import InputError, mean_embedding_test
from bke.inference.testing.mean_embedding import highest_points, hotelling_null, permuted_t_squared
from bke.models import SquaredExponential
from scipy import stats

RNG = np.random.default_rng(0)
QUIET = {"kernel": "median"}


def test_every_column_is_the_statistic_of_its_labels(permute_labels):
    features = RNG.gamma(2.0, size=(20, 3))
    labels = permute_labels((12, 8), 10, np.random.default_rng(1))
    row = permuted_t_squared(features, labels, 1e-3)
    for column, value in zip(labels.T, row, strict=True):
        first, second = features[column], features[~column]
        pooled = (11 * np.cov(first.T) + 7 * np.cov(second.T)) / 18 * (1 / 12 + 1 / 8)
        total = 19 * np.cov(features.T) / 18 * (1 / 12 + 1 / 8)
        pooled += 1e-3 * np.trace(total) / 3 * np.eye(3)
        difference = first.mean(axis=0) - second.mean(axis=0)
        expected = difference @ np.linalg.inv(pooled) @ difference
        assert value == pytest.approx(expected, rel=1e-9)


def test_a_single_feature_gives_the_t_test(permute_labels):
    """T squared and its null distribution are SciPy's; a factor N - 1 for N - 2 is off by 5 %."""
    features = RNG.normal(size=(20, 1))
    labels = permute_labels((12, 8), 3, np.random.default_rng(1))
    for column, value in zip(labels.T, permuted_t_squared(features, labels, 1e-14), strict=True):
        expected = stats.ttest_ind(features[column, 0], features[~column, 0])
        assert value == pytest.approx(expected.statistic**2, rel=1e-9)
        assert hotelling_null(1, 20).sf(value) == pytest.approx(expected.pvalue, rel=1e-9)


def test_the_null_of_several_features():
    """4000 draws of T squared of 3 normal features and 20 rows: Kolmogorov-Smirnov at 1e-3."""
    rng = np.random.default_rng(2)
    labels = np.r_[np.ones(12, bool), np.zeros(8, bool)][:, None]
    draws = [permuted_t_squared(rng.normal(size=(20, 3)), labels, 1e-14)[0] for _ in range(4000)]
    assert stats.kstest(draws, hotelling_null(3, 20).cdf).pvalue > 1e-3


def test_extrema_are_high_and_separated():
    points = np.array([[0.0], [0.01], [5.0], [9.0]])
    extrema = highest_points(points, np.array([3.0, 2.9, 1.0, 2.0]), 3, np.ones(1))
    assert extrema[:, 0].tolist() == [0.0, 9.0, 5.0]
    assert len(highest_points(points, np.ones(4), 10, np.ones(1))) == 3


@pytest.mark.slow
@pytest.mark.parametrize("method", ["permutation", "f"])
def test_the_level_and_power(method):
    """200 data sets of 60 + 60 rows, seed 3, level 0.1: at most 40 rejections but 1 in 10 000."""
    rng = np.random.default_rng(3)
    options = {"method": method, "n_resamples": 99, "alpha": 0.1, "locations": 2, **QUIET}
    rejected = [
        mean_embedding_test(*rng.normal(size=(2, 60)), seed=seed, **options).reject
        for seed in range(200)
    ]
    assert sum(rejected) <= 40
    assert sum(rejected) >= 4
    result = mean_embedding_test(rng.normal(size=200), rng.normal(1.0, 1.0, size=150), **options)
    assert result.reject
    assert result.exact == (method == "permutation")


def test_the_order_of_the_rows_does_not_matter():
    P, Q = RNG.normal(size=(30, 2)), RNG.normal(0.5, size=(24, 2))
    options = {**QUIET, "n_resamples": 99}
    first = mean_embedding_test(P, Q, **options)
    other = mean_embedding_test(RNG.permutation(P), RNG.permutation(Q), **options)
    assert other.statistic == first.statistic
    assert np.array_equal(other.null_distribution, first.null_distribution)


def test_the_split_depends_on_the_data():
    """With a split by the seed only, the ranks of its rows would be equal in all data."""
    grid = np.arange(40.0)
    options = {"kernel": SquaredExponential(10.0), "n_resamples": 19}
    first, other = (
        mean_embedding_test(grid[::2] + c, grid[1::2], **options).statistic for c in (0.0, 1e-3)
    )
    assert first != pytest.approx(other, rel=1e-3)


def test_bad_input():
    with pytest.raises(InputError, match="at least 8 rows"):
        mean_embedding_test(RNG.normal(size=6), RNG.normal(size=30))
    with pytest.raises(InputError, match="method must be one of"):
        mean_embedding_test(RNG.normal(size=30), RNG.normal(size=30), method="gamma")


def test_a_kernel_that_distinguishes_no_rows_does_not_reject():
    x, y = RNG.normal(size=(2, 30))
    for lengthscale in (1e-6, 1e9):
        assert mean_embedding_test(x, y, kernel=SquaredExponential(lengthscale)).pvalue > 0.05
