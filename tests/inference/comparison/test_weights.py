"""Weighted rows, compared with double loops, dense matrices and subsets of rows."""

import numpy as np
import pytest
import scipy.linalg
import scipy.special
import scipy.stats
from bke.inference import InputError, compare
from bke.inference.comparison.difference_posterior import difference_posterior
from bke.inference.comparison.effect_sizes import LabeledPoints, auc_with_interval
from bke.inference.permutation.pool import pool_weighted
from bke.inference.permutation.samples import TwoSamples
from bke.inference.statistics.label_bayes_factor import label_log_bayes_factors
from bke.inference.statistics.local_differences import local_statistics

RNG = np.random.default_rng(0)
P, Q = RNG.normal(size=(60, 2)), RNG.normal(0.3, 1.2, size=(40, 2))
WEIGHTS = RNG.exponential(size=60), RNG.exponential(size=40)
QUIET = {"n_resamples": 199, "progress": False}


def rows_of(count=9):
    return pool_weighted(TwoSamples.checked(P, Q), WEIGHTS, count, np.random.default_rng(1))


def normalized_weights():
    return [weights / weights.sum() for weights in WEIGHTS]


def bumps(at, points, scale):
    return np.exp(-0.5 * np.sum((points - at) ** 2, axis=1) / scale**2)


def test_windows_have_weighted_means_with_their_errors():
    rows = rows_of()
    local = local_statistics(rows)
    v, w = normalized_weights()
    for cell in range(0, len(local.centers), 37):
        k, m = (
            bumps(local.centers[cell], sample / rows.scale, local.scales[cell][0])
            for sample in (P, Q)
        )
        np.testing.assert_allclose(local.means[cell], [v @ k, w @ m], rtol=1e-10)
        errors = [v**2 @ (k - v @ k) ** 2, w**2 @ (m - w @ m) ** 2]
        every = np.concatenate([k, m])  # as which two rows more could have been
        errors += [
            2 * np.mean((every - mean) ** 2) for mean in (v @ k, w @ m)
        ] / rows.effective_sizes**2
        expected = np.sqrt(np.maximum(errors, 1e-300))
        seldom = local.means[cell] * rows.effective_sizes < 1.0
        np.testing.assert_allclose(local.errors[cell][~seldom], expected[~seldom], rtol=1e-6)


def test_signs_have_the_variance_that_is_reckoned_with():
    """Of 4000 turns the variance of t in each cell is 1 within 0.12, five standard errors."""
    local = local_statistics(rows_of(4000))
    assert len(local.t) > 100
    np.testing.assert_allclose(local.t[:, 1:].var(axis=1), 1.0, atol=0.12)


def test_the_bayes_factor_is_that_of_two_weighted_means():
    """Dense: along features e, ``N(Q c, T)`` with ``c ~ N(0, s^2)`` against ``N(0, T)``."""
    rows = rows_of()
    posterior = difference_posterior(rows)
    variances, index = posterior.variances[::4], 12
    log_bayes_factors = label_log_bayes_factors(posterior.decompositions[index], variances)[:, 0]
    at = rows.points
    length = posterior.lengthscales[index]
    gram = np.exp(-0.5 * np.sum((at[:, None] - at[None]) ** 2, axis=-1) / length**2)
    values, vectors = np.linalg.eigh(gram)
    features = vectors * np.sqrt(np.clip(values, 0.0, None))
    fractions = rows.counts / rows.counts.sum()
    centered = features - fractions @ features
    m, n = rows.effective_sizes
    products = (centered.T * rows.counts) @ centered
    noise = m * n * (centered.T * rows.expected_squares.sum(axis=1)) @ centered
    sums = np.sqrt(m * n) * centered.T @ (rows.weights[:, 0] - rows.weights[:, 1])
    # Where the rows are few the smallest directions of Q are left out.
    within, turn = np.linalg.eigh(products)
    leading = np.argsort(-within)[: int(min(m, n) / 5)]
    turn, within = turn[:, leading], np.diag(within[leading])
    T, b = turn.T @ noise @ turn, turn.T @ sums
    covariance = m * n * (centered.T * rows.squared_weights.sum(axis=1)) @ centered
    more = turn.T @ covariance @ turn - T
    for variance, log in zip(variances, log_bayes_factors, strict=True):
        C = T + variance * within @ within
        # The contribution of errors of rows to squares beyond T is subtracted.
        excess = np.trace((scipy.linalg.inv(T) - scipy.linalg.inv(C)) @ more)
        quadratic = b @ scipy.linalg.solve(T, b) - b @ scipy.linalg.solve(C, b)
        dense = 0.5 * (quadratic - excess + np.linalg.slogdet(T)[1] - np.linalg.slogdet(C)[1])
        np.testing.assert_allclose(log, dense, rtol=1e-5, atol=1e-8)


def test_auc_is_the_weighted_proportion_of_pairs():
    rng = np.random.default_rng(3)
    scores, of_first = np.round(rng.normal(size=50), 1), rng.uniform(size=50) < 0.4
    weights, fold = rng.exponential(size=50), np.arange(50) % 2
    estimate = auc_with_interval(
        scores, LabeledPoints(scores[:, None], of_first, weights, weights**2), fold, 0.05
    )
    wins, total = [], []
    for label in (True, False):
        won = total_weight = 0.0
        for i in np.flatnonzero(of_first == label):
            opponents = np.flatnonzero((of_first != label) & (fold == fold[i]))
            sign = 1.0 if label else -1.0
            above = 0.5 * (1.0 + np.sign(sign * (scores[i] - scores[opponents])))
            won += weights[i] * (weights[opponents] @ above) / weights[opponents].sum()
            total_weight += weights[i]
        wins.append(won)
        total.append(total_weight)
    np.testing.assert_allclose(estimate.auc, np.mean(np.divide(wins, total)))
    assert estimate.interval[0] < estimate.auc < estimate.interval[1]


def test_expected_squares_are_those_of_the_nearest_rows():
    rows = rows_of()
    v, w = normalized_weights()
    for sample, (points, weights) in enumerate(((P, v), (Q, w))):
        due = np.empty(100)
        for i, point in enumerate(rows.points):
            near = np.argsort(np.sum((points / rows.scale - point) ** 2, axis=1))[:10]
            due[i] = rows.counts[i] * np.sum(weights[near] ** 2) / np.sum(weights[near])
        due *= np.sum(weights**2) / due.sum()
        np.testing.assert_allclose(rows.expected_squares[:, sample], due, rtol=1e-8)


def test_auc_has_delongs_error_and_that_of_rules_trained_on_common_rows():
    """Of rows of one weight: variances with n - 1, of the shares that each row is above; times 1.5.

    Quantiles are those of t with as many degrees of freedom as the smaller sample has, less one.

    Nadeau and Bengio (2003): 1 + 5/4 times the variance, where a fifth is held out in turn.
    """
    rng = np.random.default_rng(5)
    x, y = rng.normal(0.3, 1.0, size=30), rng.normal(size=20)
    single = LabeledPoints.equally_weighted(np.zeros((50, 1)), np.arange(50) < 30)
    estimate = auc_with_interval(np.concatenate([x, y]), single, np.zeros(50), 0.05)
    above = x[:, None] > y
    variance = above.mean(axis=1).var(ddof=1) / 30 + above.mean(axis=0).var(ddof=1) / 20
    low, high = scipy.special.logit(estimate.interval)
    auc = above.mean()
    np.testing.assert_allclose(estimate.auc, auc)
    reach = 1.5 * 2.0 * scipy.stats.t.isf(0.025, 19) * np.sqrt(variance) / (auc * (1.0 - auc))
    np.testing.assert_allclose(high - low, reach)


def test_equal_weights_give_the_unweighted_result():
    unweighted = compare(P, Q, **QUIET)
    other = compare(P, Q, weights=(np.full(60, 3.0), None), **QUIET)
    assert other.pooled.permutation_type == "signs"
    np.testing.assert_allclose(other.pooled.effective_sizes, [60, 40])
    at = P[:5]
    np.testing.assert_allclose(
        other.witness(at, scale=1.0, of="sampling").mean,
        unweighted.witness(at, scale=1.0, of="sampling").mean,
        atol=1e-3,  # of draws
    )
    np.testing.assert_allclose(
        other.mean_difference_interval, unweighted.mean_difference_interval, rtol=1e-8
    )
    np.testing.assert_allclose(other.lengthscale, unweighted.lengthscale, rtol=0.3)
    assert abs(other.log_bayes_factor - unweighted.log_bayes_factor) < 1.0


def test_rows_of_zero_weight_are_ignored_and_units_of_weights_do_not_matter():
    v, w = WEIGHTS
    positive = np.arange(60) % 3 > 0
    subset = compare(P[positive], Q, weights=(v[positive], w), **QUIET)
    other = compare(P, Q, weights=(7.0 * v * positive, w), **QUIET)
    assert subset.pvalue == other.pvalue
    assert subset.sizes == other.sizes == (40, 40)
    for name in ("log_bayes_factor", "auc", "lengthscale", "minimum_detectable_shift"):
        np.testing.assert_allclose(getattr(subset, name), getattr(other, name), rtol=1e-7)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("columns", [1, 3])
def test_weights_alone_make_samples_different(columns):
    """Rows of one distribution whose weights move it by 0.8: p <= 0.005; unweighted p > 0.05."""
    rng = np.random.default_rng(2)
    X, Y = rng.normal(size=(300, columns)), rng.normal(size=(200, columns))
    weights = np.exp(0.8 * X[:, 0] - 0.32)
    result = compare(X, Y, weights=(weights, None), **QUIET)
    assert result.pvalue <= 0.005
    assert result.regions
    assert result.regions[0].sign == np.sign(result.regions[0].center[0])
    assert result.log_bayes_factor > 3.0
    assert result.auc > 0.6
    assert "effective sample sizes" in str(result)
    assert compare(X, Y, **QUIET).pvalue > 0.05


@pytest.mark.slow
def test_level_of_rows_weighted_to_equal_distributions():
    """Of 40 sets, seeds 0 to 39, at level 0.05 more than 8 rejections are 1 chance in 5000."""
    rejected = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X = rng.normal(0.5, 1.0, size=(150, 1))
        weights = np.exp(0.5 * (X[:, 0] - 0.5) ** 2 - 0.5 * X[:, 0] ** 2)
        result = compare(
            X, rng.normal(size=(300, 1)), weights=(weights, None), n_resamples=99, progress=False
        )
        rejected += result.reject
    assert rejected <= 8


@pytest.mark.slow
def test_pictures_and_shifts_of_weighted_rows():
    rng = np.random.default_rng(4)
    for columns in (1, 2):
        X, Y = rng.normal(size=(2, 150, columns))
        result = compare(X, Y, weights=(rng.exponential(size=150), None), **QUIET)
        assert not result.reject
        # By two standard errors at the smallest effective sample size.
        assert 0.25 < result.minimum_detectable_shift < 1.0
        assert result.plot().axes[0].get_legend_handles_labels()[1][0].startswith("P")
        assert len(result.witness(X[:4]).mean) == 4
        assert 0.0 <= result.prob_mmd2_exceeds(0.01) <= 1.0
        assert (result.density_ratio(X[:4]).lower > 0.0).all()


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (WEIGHTS[0], "weights must be two"),
        ((WEIGHTS[0][:5], None), "weights of P must be 60 numbers, one for each row"),
        ((None, -WEIGHTS[1]), "weights of Q must be finite and nonnegative, got -"),
        ((None, np.where(np.arange(40) == 2, np.nan, 1.0)), "got nan in row 3"),
        ((np.zeros(60), None), "weights of P are all 0"),
        ((np.eye(60)[3], None), "the rows of P with their weights are worth 1, not two"),
    ],
)
def test_invalid_weights_are_refused(weights, message):
    with pytest.raises(InputError, match=message):
        compare(P, Q, weights=weights, **QUIET)


def test_unsupported_options_of_weighted_rows_are_refused():
    v, w = WEIGHTS
    with pytest.raises(InputError, match="paired rows with weights"):
        compare(P[:40], Q, weights=(v[:40], w), paired=True, **QUIET)
    with pytest.raises(InputError, match="of equal weight, and these have weights"):
        compare(P, Q, weights=(v, w), labels="logit", **QUIET)
    with pytest.raises(InputError, match="of equal weight, and these have weights"):
        compare(P, Q, weights=(v, w), **QUIET).required_sample_size()


@pytest.mark.parametrize("P", [np.r_[np.zeros(20), np.ones(10)], np.zeros(30)])
def test_two_values_with_weights_are_an_answer(P):
    """So few points that a fold may contain a single one, or a single sample."""
    Q = np.r_[np.zeros(20), np.ones(20)]
    weights = np.random.default_rng(0).uniform(1.0, 2.0, 30)
    result = compare(P, Q, weights=(weights, None), **QUIET)
    assert result.reject == (not P.any())
    low, high = result.auc_interval
    assert low <= result.auc <= high
    assert (low > 0.5) == result.reject


def test_weights_that_leave_equal_rows_are_refused():
    with pytest.raises(InputError, match="all are equal"):
        compare(
            np.r_[np.zeros(10), 1.0],
            np.zeros(20),
            weights=(1.0 * (np.arange(11) < 10), None),
            **QUIET,
        )


def test_unit_weights_do_not_change_the_auc_of_rounded_rows():
    """Rows of 40 values, which are merged: each divided by five folds, the AUC was 0.35 (seed 0).

    Without weights 0.55; folds of other rows move it by 0.01 or so.
    """
    rng = np.random.default_rng(0)
    P, Q = (np.round(rng.normal(m, 8.0, size=(n, 1))) for m, n in ((1.5, 500), (0.0, 900)))
    plain = compare(P, Q, n_resamples=99, progress=False)
    ones = compare(P, Q, weights=(np.ones(500), None), n_resamples=99, progress=False)
    assert ones.auc == pytest.approx(plain.auc, abs=0.03)
    assert ones.auc_interval[0] < plain.auc < ones.auc_interval[1]


def test_the_order_of_samples_does_not_matter():
    result = compare(P, Q, weights=WEIGHTS, **QUIET)
    swapped = compare(Q, P, weights=WEIGHTS[::-1], **QUIET)
    assert result.pvalue == swapped.pvalue
    assert result.auc == pytest.approx(swapped.auc, rel=1e-9)
