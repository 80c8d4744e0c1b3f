"""Permutation nulls, column by column against the statistic of the relabelled data."""

import itertools

import numpy as np
import pytest
from bke.inference import InputError
from bke.inference.evidence.landmarks import NUGGET, VARIANCES, evidence_rows, landmarks, whitened
from bke.inference.permutation.combination import neg_log_pvalues
from bke.inference.permutation.null_distribution import (
    describe_p_with_error,
    exceedances,
    monte_carlo_error,
    p_value,
    pair_swaps,
    proportion_error,
    relabellings,
    standardize,
)
from bke.inference.permutation.pair import Labelled
from bke.inference.testing.independence import (
    CenteredGram,
    cholesky_factor,
    permuted_hsic,
    permuted_indices,
)
from bke.inference.testing.mmd import permuted_mmd
from bke.inference.testing.nulls import (
    hsic_gamma,
    hsic_spectrum,
    mmd_core,
    mmd_gamma,
    mmd_spectrum,
    shift_null,
    wild_bootstrap,
)
from bke.models import Laplace, SquaredExponential, hsic, squared_mmd
from scipy import stats

RNG = np.random.default_rng(0)
Z = RNG.gamma(2.0, size=(13, 2))
KERNEL = SquaredExponential(0.9)


@pytest.mark.parametrize("estimator", ["biased", "unbiased"])
def test_every_column_is_the_statistic_of_its_labels(estimator):
    labels = relabellings((8, 5), 30, np.random.default_rng(1))
    row = permuted_mmd(np.asarray(KERNEL(Z)), labels, estimator=estimator)
    assert labels[:, 0].tolist() == [True] * 8 + [False] * 5
    for column, value in zip(labels.T, row, strict=True):
        expected = squared_mmd(Z[column], Z[~column], KERNEL, estimator=estimator)
        assert value == pytest.approx(float(expected), rel=1e-10)


def test_every_column_is_the_paired_statistic_of_its_swaps():
    labels = pair_swaps(6, 30, np.random.default_rng(1))
    row = permuted_mmd(np.asarray(KERNEL(Z[:12])), labels, estimator="paired")
    assert labels[:6, 0].all()
    assert not labels[6:, 0].any()
    for column, value in zip(labels.T, row, strict=True):
        first = np.where(column[:6, None], Z[:6], Z[6:12])
        second = np.where(column[:6, None], Z[6:12], Z[:6])
        expected = squared_mmd(first, second, KERNEL, estimator="paired")
        assert value == pytest.approx(float(expected), rel=1e-10)


@pytest.mark.parametrize("lengthscale", [0.05, 3.0], ids=["dense", "low rank"])
@pytest.mark.parametrize("estimator", ["biased", "unbiased"])
def test_every_pairing_has_the_hsic_of_its_pairs(estimator, lengthscale):
    X, Y = RNG.normal(size=40), RNG.gamma(2.0, size=40)
    kernels = SquaredExponential(lengthscale), Laplace(lengthscale)
    if lengthscale == 3.0:
        kernels = SquaredExponential(lengthscale), SquaredExponential(2.0)
    K, L = np.asarray(kernels[0](X)), np.asarray(kernels[1](Y))
    ranks = cholesky_factor(K).shape[1] * cholesky_factor(L).shape[1]
    assert (ranks < 8 * 40) == (lengthscale == 3.0)
    rows = permuted_indices(40, 20, np.random.default_rng(1))
    found = permuted_hsic(CenteredGram.of(K), CenteredGram.of(L), rows, estimator=estimator)
    for pairing, value in zip(rows, found, strict=True):
        expected = float(hsic(X, Y[pairing], *kernels, estimator=estimator))
        assert value == pytest.approx(expected, abs=1e-10 * K.mean())


def test_the_factor_gives_the_gram_matrix_back():
    gram = np.asarray(SquaredExponential(2.0)(RNG.normal(size=(50, 1))))
    factor = cholesky_factor(gram)
    assert factor.shape[1] < 20
    np.testing.assert_allclose(factor @ factor.T, gram, atol=1e-10)


def test_relabellings_are_uniform():
    """All 10 ways to choose 2 of 5 rows, 20 000 draws, seed 2: chi-square at level 1e-3."""
    labels = relabellings((2, 3), 20_000, np.random.default_rng(2))[:, 1:]
    assert (labels.sum(axis=0) == 2).all()
    counts = [np.sum(labels[a] & labels[b]) for a, b in itertools.combinations(range(5), 2)]
    assert stats.chisquare(counts).pvalue > 1e-3


def test_p_values_by_hand():
    assert p_value(np.array([3.0, 1.0, 2.0, 4.0])) == 2 / 4
    assert p_value(np.array([5.0, 1.0, 2.0, 4.0])) == 1 / 4
    assert p_value(np.array([2.0, 2.0, 2.0, 1.0])) == 3 / 4  # ties count against
    assert p_value(np.array([2.0, 2.0 + 1e-13, 1.0, 1.0])) == 2 / 4  # rounding is a tie
    assert exceedances(np.array([3.0, 1.0, 2.0, 4.0])).tolist() == [2, 4, 3, 1]


def test_standardised_rows():
    rows = standardize(np.array([[1.0, 2.0, 6.0], [5.0, 5.0, 5.0]]))
    np.testing.assert_allclose(rows[0].mean(), 0.0, atol=1e-15)
    assert rows[0].std() == pytest.approx(1.0)
    np.testing.assert_array_equal(rows[1], 0.0)
    # Each by its own size: rounding of large numbers is flat, small numbers that vary are not.
    small, large = np.array([1.0, 2.0, 3.0]) * 1e-12, np.array([1.0, 1.0 + 1e-12, 1.0])
    rows = standardize(np.stack([small, large]))
    np.testing.assert_allclose(rows[0], [-(1.5**0.5), 0.0, 1.5**0.5], atol=1e-9)
    np.testing.assert_array_equal(rows[1], 0.0)


def test_columns_that_come_one_at_a_time_are_told_as_if_each_were_the_only_one():
    """Against each with the others by itself, and the others as they are without any."""
    rng = np.random.default_rng(3)
    rows = rng.gamma(2.0, size=(4, 60)) - 1.5
    rows[1, 3:] = 5.0  # of these columns alone
    rows[2] = 7.0
    alone = 3
    for told in (
        standardize,
        lambda rows, **which: standardize(rows, centred=True, **which),
        neg_log_pvalues,
    ):
        found = told(rows, alone=alone)
        for one in range(alone):
            among = told(np.concatenate([rows[:, [one]], rows[:, alone:]], axis=1))
            np.testing.assert_allclose(found[:, one], among[:, 0], rtol=1e-9, atol=1e-12)
        others = told(rows[:, alone:])
        np.testing.assert_allclose(found[[0, 2, 3], alone:], others[[0, 2, 3]], rtol=1e-12)


def test_the_evidence_is_a_ratio_of_normal_densities():
    """Against SciPy's multivariate normal densities, for every relabelling."""
    points = RNG.normal(size=(30, 2))
    labels = relabellings((18, 12), 5, np.random.default_rng(1))
    lengthscales, places = np.array([0.7, 2.0]), points[:6]
    found = evidence_rows(Labelled(points, labels).relabelled(np.ones(2)), lengthscales, places)
    assert found.shape == (6, 6)
    for column, values in zip(labels.T, found.T, strict=True):
        expected = []
        for length in lengthscales:
            features = np.asarray(SquaredExponential(length)(points, places))
            difference = features[column].mean(axis=0) - features[~column].mean(axis=0)
            C = np.cov(features.T) * (1 / 18 + 1 / 12)
            C += 1e-8 * np.trace(C) / 6 * np.eye(6)
            R = np.asarray(SquaredExponential(length).smoothed("unit", 2)(places, places))
            null = stats.multivariate_normal(cov=C, allow_singular=True).logpdf(difference)
            for variance in VARIANCES:
                other = stats.multivariate_normal(cov=C + variance * R, allow_singular=True)
                expected.append(other.logpdf(difference) - null)
        np.testing.assert_allclose(values, expected, rtol=1e-6)


def test_the_evidence_of_pairs():
    """C is that of the mean difference, and a swap of all pairs changes nothing."""
    first = RNG.normal(size=(20, 1))
    points = np.concatenate([first, first + 0.5 * RNG.normal(size=(20, 1))])
    labels = pair_swaps(20, 3, np.random.default_rng(1))
    length, places = 0.8, points[:4]

    def evidence(labels, paired):
        rows = Labelled(points, labels, paired).relabelled(np.ones(1))
        return evidence_rows(rows, np.array([length]), places)

    found = evidence(labels, True)
    features = np.asarray(SquaredExponential(length)(points, places))
    C = np.zeros((4, 4))
    for i in range(20):
        difference = features[i] - features[20 + i]
        C += np.outer(difference, difference) / 20**2
    C += 1e-8 * np.trace(C) / 4 * np.eye(4)
    R = np.asarray(SquaredExponential(length).smoothed("unit", 1)(places, places))
    for column, values in zip(labels.T, found.T, strict=True):
        mean = features[column].mean(axis=0) - features[~column].mean(axis=0)
        null = stats.multivariate_normal(cov=C, allow_singular=True).logpdf(mean)
        for variance, value in zip(VARIANCES, values, strict=True):
            other = stats.multivariate_normal(cov=C + variance * R, allow_singular=True)
            assert value == pytest.approx(other.logpdf(mean) - null, rel=1e-5)
    swapped = evidence(~labels, True)
    np.testing.assert_allclose(swapped, found, rtol=1e-9)
    # Pairs are alike: the covariance of independent samples is another.
    unpaired = evidence(labels, False)
    assert np.abs(found - unpaired).max() > 0.5


def test_landmarks_are_different_rows():
    points = np.repeat(RNG.normal(size=(7, 2)), 30, axis=0)
    chosen = landmarks(points, 60, 0)
    assert len(np.unique(chosen, axis=0)) == len(chosen) == 7
    assert len(landmarks(RNG.normal(size=(80, 2)), 60, 0)) == 10


# The approximations, against permutations of large samples: moments and tails within a few percent.


def test_gamma_and_spectrum_of_mmd():
    """m = 300, n = 150, one sample split, 4000 permutations: mean to 5 %, 95 % quantile to 10 %."""
    points = np.random.default_rng(3).normal(size=(450, 1))
    gram = np.asarray(SquaredExponential(0.7)(points))
    labels = relabellings((300, 150), 4000, np.random.default_rng(4))
    biased = permuted_mmd(gram, labels, estimator="biased")[1:]
    gamma = mmd_gamma(gram, (300, 150))
    assert gamma.mean() == pytest.approx(biased.mean(), rel=0.05)
    assert gamma.isf(0.05) == pytest.approx(np.quantile(biased, 0.95), rel=0.1)
    unbiased = permuted_mmd(gram, labels)[1:]
    draws = mmd_spectrum(gram, (300, 150), 4000, np.random.default_rng(5))
    assert draws.std() == pytest.approx(unbiased.std(), rel=0.1)
    assert np.quantile(draws, 0.95) == pytest.approx(np.quantile(unbiased, 0.95), rel=0.15)


def test_gamma_and_spectrum_of_hsic():
    rng = np.random.default_rng(3)
    K = np.asarray(SquaredExponential(0.7)(rng.normal(size=200)))
    L = 2.0 * np.asarray(SquaredExponential(1.5)(rng.gamma(2.0, size=200)))  # l(y, y) is not 1
    rows = permuted_indices(200, 4000, np.random.default_rng(4))
    biased = permuted_hsic(CenteredGram.of(K), CenteredGram.of(L), rows, estimator="biased")[1:]
    for null in (
        hsic_gamma(K, L).rvs(4000, random_state=5),
        hsic_spectrum(K, L, 4000, np.random.default_rng(5)),
    ):
        assert null.mean() == pytest.approx(biased.mean(), rel=0.05)
        assert np.quantile(null, 0.95) == pytest.approx(np.quantile(biased, 0.95), rel=0.1)


def test_the_wild_bootstrap_of_independent_rows_is_the_permutation_null():
    """Length 0.05: multipliers forget at once; 2000 draws; the spread to 10 %."""
    points = np.random.default_rng(3).normal(size=(400, 1))
    gram = np.asarray(SquaredExponential(0.7)(points))
    core = mmd_core(gram)
    observed = squared_mmd(points[:200], points[200:], SquaredExponential(0.7), estimator="biased")
    assert core.mean() == pytest.approx(float(observed), rel=1e-9)
    draws = wild_bootstrap(core, 2000, np.random.default_rng(5), length=0.05)
    labels = relabellings((200, 200), 2000, np.random.default_rng(4))
    expected = permuted_mmd(gram, labels, estimator="biased")[1:]
    assert draws.mean() == pytest.approx(expected.mean(), rel=0.1)
    assert draws.std() == pytest.approx(expected.std(), rel=0.15)


def test_the_wild_bootstrap_widens_with_the_memory_of_the_series():
    """AR(1) with coefficient 0.8: permutation is three times too narrow for its HSIC."""
    rng = np.random.default_rng(3)

    def series():
        x = rng.normal(size=300)
        for t in range(1, 300):
            x[t] += 0.8 * x[t - 1]
        return x

    K, L = (np.asarray(SquaredExponential(1.5)(series())) for _ in range(2))
    H = np.eye(300) - 1 / 300
    core = (H @ K @ H) * (H @ L @ H)
    wild = wild_bootstrap(core, 500, np.random.default_rng(5), length=10.0)
    narrow = wild_bootstrap(core, 500, np.random.default_rng(5), length=0.05)
    assert np.quantile(wild, 0.95) > 1.5 * np.quantile(narrow, 0.95)


def test_shifts():
    X, Y = RNG.normal(size=20), RNG.normal(size=20)
    K, L = (np.asarray(SquaredExponential(1.0)(x)) for x in (X, Y))
    row = shift_null(K, L, 3)
    assert len(row) == 1 + 15
    for shift, value in zip([0, *range(3, 18)], row, strict=True):
        expected = hsic(X, np.roll(Y, shift), *[SquaredExponential(1.0)] * 2, estimator="biased")
        assert value == pytest.approx(float(expected), abs=1e-12)


def test_a_p_value_is_told_with_its_monte_carlo_error():
    """The binomial standard error; at the least p-value only a bound is known."""
    assert describe_p_with_error(0.031, proportion_error(0.031, 999), 999) == "p = 0.031 ± 0.005"
    assert describe_p_with_error(0.5, proportion_error(0.5, 99), 99) == "p = 0.5 ± 0.05"
    assert describe_p_with_error(0.001, 0.001, 999) == "p ≤ 0.001"
    assert describe_p_with_error(0.2, proportion_error(0.2, 0), 0) == "p = 0.2"  # of no permutations
    assert describe_p_with_error(1.0, proportion_error(1.0, 99), 99) == "p = 1"


def test_the_jackknife_by_hand():
    """Six of 20 exceed, in three of ten parts: p is 5/19 without one of these, else 7/19."""
    row = np.zeros(21)
    row[[1, 2, 3, 11, 12, 13]] = 1.0
    row[4:11] = row[14:] = -1.0
    error = monte_carlo_error(lambda some: row[some], 7 / 21, 21)
    assert error == pytest.approx((9 / 10 * (3 * 1.4**2 + 7 * 0.6**2)) ** 0.5 / 19)
    # Where the parts agree it is that of the share.
    assert monte_carlo_error(lambda some: np.zeros(len(some)), 0.2, 21) == (0.2 * 0.8 / 21) ** 0.5
    assert proportion_error(0.2, 399) == pytest.approx((0.2 * 0.8 / 400) ** 0.5)
    assert proportion_error(0.2, 0) == 0.0


def test_the_error_is_that_over_draws_of_the_permutations():
    """The largest of skew statistics, each standardised by its permutations, over 300 draws.

    The mean square of errors has a standard error of 2 %, of the deviation of p over draws 4 %: the
    bounds are four of these. That of a share is too small.
    """
    observed = np.array([2.0, 1.0, 4.0, 0.5, 3.0, 1.5, 5.5, 2.5])[:, None]
    pvalues, errors = [], []
    for seed in range(300):
        drawn = np.random.default_rng(seed).lognormal(sigma=0.8, size=(8, 199))
        rows = np.concatenate([observed, drawn], axis=1)

        def largest(some, rows=rows):
            return standardize(rows[:, some]).max(axis=0)

        pvalues.append(p_value(largest(np.arange(200))))
        errors.append(monte_carlo_error(largest, pvalues[-1], 200))
    spread = np.std(pvalues)
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(spread, rel=0.2)
    assert proportion_error(float(np.mean(pvalues)), 199) < 0.85 * spread


def test_a_covariance_that_rounding_left_indefinite_is_whitened_by_a_larger_nugget():
    root = np.random.default_rng(5).normal(size=(6, 6))
    exact, smoothed = root @ root.T, np.exp(-np.abs(np.subtract.outer(range(6), range(6))))
    eigenvalues, basis = whitened(smoothed, exact)
    nugget = NUGGET * np.trace(exact) / 6 * np.eye(6)
    np.testing.assert_allclose(basis.T @ (exact + nugget) @ basis, np.eye(6), atol=1e-9)
    np.testing.assert_allclose(basis.T @ smoothed @ basis, np.diag(eigenvalues), atol=1e-9)
    values, vectors = np.linalg.eigh(exact)
    values[0] = -1e-7 * np.trace(exact) / 6
    eigenvalues, basis = whitened(smoothed, (vectors * values) @ vectors.T)
    assert np.isfinite(eigenvalues).all()
    np.testing.assert_allclose(
        basis.T @ smoothed @ basis, np.diag(eigenvalues), rtol=1e-6, atol=1e-6
    )
    values[0] = -np.trace(exact)
    with pytest.raises(np.linalg.LinAlgError):
        whitened(smoothed, (vectors * values) @ vectors.T)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("at", [0, 2])
def test_a_statistic_that_is_not_finite_has_no_p_value(value, at):
    row = np.array([3.0, 1.0, 2.0, 0.0])
    row[at] = value
    with pytest.raises(InputError, match="not a finite number"):
        p_value(row)
