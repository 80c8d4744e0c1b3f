"""What a comparison is made of, beside dense matrices and slow loops."""

import itertools

import numpy as np
import pytest
import scipy.stats
from bke.inference.comparison.belief import belief
from bke.inference.comparison.effect import effect
from bke.inference.evidence import places
from bke.inference.evidence.places import Looks, cells
from bke.inference.evidence.spectrum import FARTHEST, kernel, spectrum
from bke.inference.evidence.statistic import evidences
from bke.inference.evidence.tilt import exact_fits, fits, log_bayes_factors
from bke.inference.permutation.combination import combined, neg_log_pvalues
from bke.inference.permutation.null_distribution import monte_carlo_error, p_value
from bke.inference.permutation.pair import Pair
from bke.inference.permutation.pooling import relabelled
from bke.inference.permutation.relabelled import Relabelled
from scipy.spatial.distance import cdist

RNG = np.random.default_rng(0)
#: Rounded, so that rows are equal; unequal sizes.
P = np.round(RNG.normal(size=(30, 2)), 0)
Q = np.round(RNG.normal(0.4, 1.3, size=(45, 2)), 0)


def rows_of(first, second, permutations=9):
    return relabelled(Pair.checked(first, second), permutations, np.random.default_rng(1))


def single(rows, column=0):
    """Every row (n, D) of points with counts, and which are of the first sample."""
    first = rows.labels[:, column].astype(int)
    points = np.concatenate([np.repeat(rows.points, first, axis=0),
                             np.repeat(rows.points, rows.counts - first, axis=0)])  # fmt: skip
    return points, np.arange(len(points)) < first.sum()


def test_equal_rows_are_one_point_and_labels_add_up():
    rows = rows_of(P, Q)
    distinct, counts = np.unique(np.concatenate([P, Q]), axis=0, return_counts=True)
    np.testing.assert_allclose(rows.points * rows.unit, distinct)
    np.testing.assert_array_equal(rows.counts, counts)
    assert rows.sizes == (30, 45)
    np.testing.assert_array_equal(rows.labels.sum(axis=0), 30)
    assert (rows.labels >= 0).all()
    assert (rows.labels <= counts[:, None]).all()
    of_first = [(point == P).all(axis=1).sum() for point in distinct]
    np.testing.assert_array_equal(rows.labels[:, 0], of_first)


def test_columns_alone_keep_the_relabellings():
    rows = rows_of(P, Q)
    alone = rows.of_columns((1,), 100)
    for column in range(rows.labels.shape[1]):
        points, first = single(rows, column)
        own, of_first = single(alone, column)
        np.testing.assert_allclose(np.sort(own[of_first, 0]), np.sort(points[first, 1]))
        np.testing.assert_allclose(np.sort(own[~of_first, 0]), np.sort(points[~first, 1]))


def test_values_of_one_column_are_merged_to_cells_that_keep_ties_together():
    rows = rows_of(RNG.normal(size=(300, 2)), RNG.normal(size=(200, 2)))
    merged = rows.of_columns((0,), 20)
    assert len(merged.points) == 20
    assert set(merged.counts) == {25}
    assert (np.diff(merged.points[:, 0]) > 0).all()
    np.testing.assert_array_equal(merged.labels.sum(axis=0), 300)
    np.testing.assert_allclose(
        merged.counts @ merged.points[:, 0], rows.counts @ rows.points[:, 0], atol=1e-10
    )
    tied = rows_of(np.repeat([[0.0, 1.0], [1.0, 2.0]], 50, axis=0), RNG.normal(size=(20, 2)))
    assert (np.sort(tied.of_columns((0,), 10).counts)[-2:] >= 50).all()


def test_labels_of_cells_are_distributed_as_those_of_rows(monkeypatch):
    """Chi-square of 3000 relabellings of three points; seeds 1 and 2 fail by chance 1 in 1000."""
    from bke.inference.permutation import pooling as module

    first, second = np.repeat([0.0, 1.0], [3, 2]), np.repeat([1.0, 2.0], [2, 2])
    for most in (2**28, 0):
        monkeypatch.setattr(module, "MOST_LABELS", most)
        rng = np.random.default_rng(1 + (most == 0))
        rows = relabelled(Pair.checked(first, second), 3000, rng)
        chances = scipy.stats.multivariate_hypergeom([3, 4, 2], 5)
        states = [s for s in itertools.product(range(4), range(5), range(3)) if sum(s) == 5]
        seen = [np.all(s == rows.labels[:, 1:].T, axis=1).sum() for s in states]
        expected = 3000 * np.array([chances.pmf(s) for s in states])
        statistic = np.sum((seen - expected) ** 2 / expected)
        assert statistic < scipy.stats.chi2(len(states) - 1).isf(1e-3)


def test_many_rows_of_two_columns_become_cells(monkeypatch):
    from bke.inference.permutation import pooling as module

    monkeypatch.setattr(module, "MOST_POINTS", 16)
    first, second = RNG.normal(size=(100, 2)), RNG.normal(size=(60, 2))
    rows = rows_of(first, second)
    assert len(rows.points) == 16
    assert set(rows.counts) == {10}
    np.testing.assert_array_equal(rows.labels.sum(axis=0), 100)
    pooled = np.concatenate([first, second])
    np.testing.assert_allclose(rows.counts @ rows.points / 160, pooled.mean(axis=0) / rows.unit)


@pytest.mark.parametrize("column", [0, 3])
def test_evidence_is_the_ratio_of_two_normal_densities(column):
    rows = rows_of(P, Q)
    found = spectrum(rows, rows.points, 0.7)
    points, first = single(rows, column)
    n, share = len(points), 30 / 75
    y = (first - share) / np.sqrt(share * (1 - share))
    H = np.eye(n) - 1.0 / n
    centred = H @ np.exp(-0.5 * cdist(points, points, "sqeuclidean") / 0.7**2) @ H
    for variance, log in zip(
        (0.01, 3.0), log_bayes_factors(found, np.array([0.01, 3.0])), strict=True
    ):
        alternative = scipy.stats.multivariate_normal(np.zeros(n), np.eye(n) + variance * centred)
        null = scipy.stats.multivariate_normal(np.zeros(n))
        assert log[column] == pytest.approx(alternative.logpdf(y) - null.logpdf(y), rel=1e-8)


def test_evidence_of_a_small_difference_is_the_discrepancy():
    """As s -> 0 the slope of log BF is n share (1 - share) MMD^2 / 2 n less what has no labels."""
    rows = rows_of(P, Q)
    found = spectrum(rows, rows.points, 0.7)
    fit = 0.5 * np.sum(found.loadings[:, 0] ** 2)
    points, first = single(rows)
    K = np.exp(-0.5 * cdist(points, points, "sqeuclidean") / 0.7**2)
    signed = np.where(first, 1 / 30, -1 / 45)
    share = 30 / 75
    assert fit == pytest.approx(0.5 * 75**2 * share * (1 - share) * (signed @ K @ signed))


def test_posterior_of_the_difference_is_that_of_regression():
    """Mean and covariance of draws at one lengthscale and variance; 40 000 draws, seed 0."""
    rows = rows_of(P, Q)
    believed = belief(rows)
    at = np.array([[0.0, 0.0], [1.5, -1.0], [-2.0, 0.5]])
    points, first = single(rows)
    n, share = len(points), 30 / 75
    y = (first - share) / np.sqrt(share * (1 - share))
    H = np.eye(n) - 1.0 / n
    index, s = 9, 12
    weights = np.zeros_like(believed.weights)
    weights[index, s] = 1.0
    one = type(believed)(**{**vars(believed), "weights": weights})
    scale, variance = believed.lengthscales[index], believed.variances[s]
    K = np.exp(-0.5 * cdist(points, points, "sqeuclidean") / scale**2)
    across = np.exp(-0.5 * cdist(at, points, "sqeuclidean") / scale**2)
    own = np.exp(-0.5 * cdist(at, at, "sqeuclidean") / scale**2)
    # Centred as functions: less their mean over the rows.
    across_c = (across - K.mean(axis=0)) @ H
    own_c = own - across.mean(axis=1)[:, None] - across.mean(axis=1) + K.mean()
    gain = variance * across_c @ np.linalg.inv(np.eye(n) + variance * H @ K @ H)
    mean, covariance = gain @ y, variance * (own_c - gain @ across_c.T)
    draws = one.drawn(40_000, np.random.default_rng(0)).at(at) * np.sqrt(share * (1 - share))
    error = np.sqrt(np.diag(covariance) / 40_000)
    assert (np.abs(draws.mean(axis=0) - mean) < 5 * error).all()
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=0.03 * covariance.max())


def test_t_and_its_step_down_pvalues_beside_loops():
    rows = rows_of(P[:, 0], Q[:, 0], permutations=99)
    found = cells(rows)
    assert len(found.t) > 20
    for cell in (0, len(found.t) // 2, len(found.t) - 1):
        for column in (0, 5):
            points, first = single(rows, column)
            k = np.exp(-0.5 * np.sum(((points - found.at[cell]) / found.scale[cell]) ** 2, axis=1))
            assert k.sum() ** 2 >= 20 * np.sum(k**2)
            spread = np.sqrt(k.var(ddof=1) * (1 / 30 + 1 / 45))
            expected = (k[first].mean() - k[~first].mean()) / spread
            assert found.t[cell, column] == pytest.approx(expected)
            if column == 0:
                np.testing.assert_allclose(found.means[cell], [k[first].mean(), k[~first].mean()])
                errors = [k[first].var() / 30, k[~first].var() / 45]
                # Two rows more, at any of the different ones.
                once = k[np.unique(points, axis=0, return_index=True)[1]]
                errors[0] += 2 * np.mean((once - k[first].mean()) ** 2) / 30**2
                errors[1] += 2 * np.mean((once - k[~first].mean()) ** 2) / 45**2
                np.testing.assert_allclose(found.errors[cell], np.sqrt(errors))
    size, left, before = np.abs(found.t), set(range(len(found.t))), 0.0
    while left:
        top = max(left, key=lambda cell: size[cell, 0])
        rivals = size[list(left)].max(axis=0)
        before = max(before, np.mean(rivals >= size[top, 0] - 1e-12))
        assert found.pvalues()[top] == pytest.approx(before)
        left.remove(top)


def test_surprise_keeps_the_order_and_a_constant_does_not_surprise():
    row = np.sort(np.random.default_rng(0).gamma(0.5, size=200))
    assert (np.diff(neg_log_pvalues(row)) >= 0.0).all()
    assert (np.diff(neg_log_pvalues(row))[100:] > 0.0).all()
    assert not neg_log_pvalues(np.full(200, 3.0)).any()
    # Of an exponential distribution, which is Pearson III, it is that of its quantiles.
    exact = scipy.stats.expon.isf((np.arange(20_000) + 0.5) / 20_000)
    np.testing.assert_allclose(neg_log_pvalues(exact), exact, rtol=0.01, atol=0.005)
    both = combined([row, np.full(200, 3.0)])
    assert (np.diff(both) >= 0.0).all()


def test_effect_of_a_shift_is_its_area_and_of_none_a_half():
    """2000 + 2000 rows, seeds 3 and 4: within 4 standard errors of the closed form."""
    for seed, shift in ((3, 0.5), (4, 0.0)):
        rng = np.random.default_rng(seed)
        rows = rows_of(rng.normal(size=2000), rng.normal(shift, size=2000), 1).observed()
        told = effect(belief(rows), rows, 0.05)
        # A learned rule is a little worse than the best one.
        best = scipy.stats.norm.cdf(shift / 2**0.5)
        low, high = told.interval
        assert low < told.auc < high
        assert abs(told.auc - best) < (high - low)


@pytest.mark.slow
def test_interval_of_an_effect_holds_a_half_where_there_is_none():
    """60 nulls of 2 x 60 rows, seeds 0 to 59: of misses at 0.05, 9 or more by chance: 0.003.

    Were scores by rules that share rows taken for independent, 10 of these would be.
    """
    missed = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        rows = rows_of(rng.normal(size=60), rng.normal(size=60), 1).observed()
        low, high = effect(belief(rows), rows, 0.05).interval
        missed += not low <= 0.5 <= high
    assert missed <= 8


def test_effect_of_samples_that_are_apart_is_one_but_not_surely_so():
    rows = rows_of(RNG.normal(size=40), RNG.normal(50.0, size=30), 1).observed()
    told = effect(belief(rows), rows, 0.05)
    assert told.auc == 1.0
    assert told.interval == (pytest.approx(0.025 ** (1 / 30)), 1.0)


def test_the_relabelled_hold_what_they_say():
    rows = rows_of(P, Q)
    assert rows.rows == 75
    assert rows.share == pytest.approx(0.4)
    assert isinstance(rows.observed(), Relabelled)
    assert rows.observed().labels.shape[1] == 1


def test_cholesky_factors_and_eigenvalues_tell_the_same():
    rows = rows_of(P, Q)
    variances = np.array([1e-4, 0.3, 1e4])
    by_values = fits(spectrum(rows, rows.points, 0.7), variances)
    gram = kernel(rows.points, rows.points, 0.7)
    by_factors = exact_fits(rows, gram, variances)
    np.testing.assert_allclose(by_factors, by_values, rtol=1e-6)


def test_a_value_far_beyond_all_others_is_as_surprising_as_it_is_without_itself():
    """Of chi^2 with one degree of freedom, 999 draws (seed 0) and one value of 200."""
    null = np.random.default_rng(0).chisquare(1.0, size=999)
    row = np.append(200.0, null)
    exact = -scipy.stats.chi2.logsf(200.0, 1)
    assert neg_log_pvalues(row, trim=1)[0] == pytest.approx(exact, rel=0.15)
    assert neg_log_pvalues(row)[0] < 15.0  # it is most of its own deviation
    order = np.random.default_rng(1).permutation(1000)
    np.testing.assert_allclose(neg_log_pvalues(row, trim=1)[order], neg_log_pvalues(row[order], trim=1))
    # Beyond what the incomplete gamma function tells, without a jump.
    far = [neg_log_pvalues(np.append(x, null), trim=1)[0] for x in np.geomspace(200.0, 1e5, 200)]
    assert np.isfinite(far).all()
    steps = np.diff(np.log(far)) / np.diff(np.log(np.geomspace(200.0, 1e5, 200)))
    np.testing.assert_allclose(steps, 1.0, atol=0.05)


def test_weights_of_a_combination():
    """Of order -1/2: (sum of w p^(-1/2))^2, by hand from single surprises."""
    rows = np.random.default_rng(4).normal(size=(3, 200))
    weights = (1.0, 0.5, 2.0)
    tails = np.exp(-neg_log_pvalues(rows))
    expected = np.log(sum(w / np.sqrt(p) for w, p in zip(weights, tails, strict=True)) ** 2)
    np.testing.assert_allclose(combined(list(rows), weights), expected)


@pytest.mark.parametrize("count", [20, 100, 1000])
def test_surprises_that_are_told_roughly(count):
    """The largest as they are, the others nearly: of ties, two tails, and one value far away."""
    rng = np.random.default_rng(3)
    rows = np.stack(
        [
            rng.normal(size=count),
            rng.chisquare(1, count),
            rng.standard_t(3, count),
            -rng.chisquare(1, count),
            rng.poisson(2.0, count),
            np.append(50.0, rng.normal(size=count - 1)),
            np.ones(count),
        ]
    )
    exact, rough = neg_log_pvalues(rows, trim=1), neg_log_pvalues(rows, trim=1, approximate=True)
    largest = np.argsort(rows, axis=1)[:, -60:]
    for one, other in zip(exact, rough, strict=True):
        np.testing.assert_array_equal(
            np.argsort(one, kind="stable"), np.argsort(other, kind="stable")
        )
    np.testing.assert_allclose(
        np.take_along_axis(rough, largest, 1), np.take_along_axis(exact, largest, 1), rtol=1e-12
    )
    np.testing.assert_allclose(rough, exact, rtol=0.0, atol=0.15)
    assert np.abs(rough - exact).mean() < 0.01
    assert np.array_equal(rough, exact) == (count == 20)


def test_the_error_of_a_p_value_hardly_hangs_on_what_is_told_roughly():
    """Of 500 labellings, every tenth left out in turn: half of the values are interpolated."""
    rng = np.random.default_rng(4)
    rows = rows_of(rng.normal(size=(40, 1)), rng.normal(0.3, 1.0, size=(40, 1)), 499)
    found = evidences(rows, cells(rows), lambda count: None)
    row = found.statistic()

    def error(roughly):
        return monte_carlo_error(
            lambda some: found.of(some)._replace(approximate=roughly).statistic(),
            p_value(row),
            len(row),
        )

    assert error(True) == pytest.approx(error(False), rel=0.1)


def test_surprises_of_many_rows_are_those_of_each():
    rows = np.random.default_rng(5).gamma(0.7, size=(4, 150))
    rows[2] = 3.0
    each = [neg_log_pvalues(row, trim=1) for row in rows]
    np.testing.assert_allclose(neg_log_pvalues(rows, trim=1), each, rtol=1e-12)
    assert not each[2].any()


@pytest.mark.parametrize("dimension", [3, 9])
@pytest.mark.parametrize("far", [1.0, 1e7])
def test_the_kernel_is_the_squared_exponential(dimension, far):
    """With a length for all, and one for each of the others; by products of many columns too."""
    points = np.random.default_rng(dimension).normal(size=(20, dimension))
    points[0] *= far
    at, lengths = points[:6] + 0.3, np.linspace(0.5, 3.0, 6)
    squares = np.sum((points[:, None] - at) ** 2, axis=2)
    for length in (0.8, lengths):
        expected = np.exp(-squares / (2.0 * length**2))
        np.testing.assert_allclose(kernel(points, at, length), expected, rtol=1e-9, atol=1e-12)


def test_columns_without_ties_together_say_what_each_says_alone(monkeypatch):
    first, second = RNG.normal(size=(25, 5)), RNG.normal(0.3, 1.2, size=(31, 5))
    for sample in (first, second):
        sample[:, 2] = np.round(sample[:, 2])  # ties, between columns that have none
    rows = rows_of(first, second)
    groups = Looks.of(rows).groups(rows)
    assert [list(group) for group in groups] == [[0], [1], [2], [3], [4]]
    alone = cells(rows)
    monkeypatch.setattr(places, "CELLS_AT_ONCE", 10**5)
    assert [list(group) for group in Looks.of(rows).groups(rows)] == [[0, 1], [2], [3, 4]]
    together = cells(rows)
    assert len(alone.t) > 100
    for field in ("at", "scale", "t", "means", "errors"):
        np.testing.assert_allclose(
            getattr(together, field), getattr(alone, field), rtol=1e-9, atol=1e-12, err_msg=field
        )


@pytest.mark.parametrize("dimension", [1, 9])  # as distances, and as a matrix product
def test_kernels_of_what_is_far_are_next_to_nothing_and_no_less(dimension):
    near, far = np.zeros((1, dimension)), np.zeros((3, dimension))
    far[:, 0] = 1.0, 26.0, 40.0  # 40: exp(-800) is less than the least number
    found = kernel(near, far, 1.0)[0]
    np.testing.assert_allclose(found, np.exp([-0.5, -338.0, FARTHEST]), rtol=1e-12)
