"""Tests with approximate null distributions: statistics, levels on series, invalid options."""

import jax
import numpy as np
import pytest
from bke.inference import InputError, independence_test, two_sample_test
from bke.inference.data.canonical import canonical_order, generator
from bke.inference.testing.mmd import permuted_mmd
from bke.models import SquaredExponential, hsic, mmd_terms, squared_mmd
from scipy.stats import t

RNG = np.random.default_rng(0)
P, Q = RNG.normal(size=(60, 2)), RNG.normal(size=(60, 2))
KERNEL = SquaredExponential(0.9)
QUIET = {"progress": False, "n_resamples": 199}


def series_options(method):
    """Return the dependence length of methods for series."""
    return {"dependence_length": 5} if method in ("wild bootstrap", "shift") else {}


@pytest.mark.parametrize(
    ("method", "estimator"),
    [("gamma", "biased"), ("spectrum", "unbiased"), ("wild bootstrap", "biased")],
)
def test_the_statistic_of_two_samples(method, estimator):
    sizes = (60, 60) if method == "wild bootstrap" else (60, 45)
    result = two_sample_test(
        P, Q[: sizes[1]], kernel=KERNEL, method=method, **series_options(method), **QUIET
    )
    with jax.enable_x64(True):
        expected = float(squared_mmd(P, Q[: sizes[1]], KERNEL, estimator=estimator))
    assert result.statistic == pytest.approx(expected, rel=1e-9)
    assert result.statistic_label == f"squared MMD ({estimator})"
    assert not result.exact
    assert f"({result.pvalue_text}, {result.method})" in str(result)
    assert f"{result.statistic_label}: {result.statistic:.4g}" in str(result)
    result.plot()


@pytest.mark.parametrize("method", ["gamma", "spectrum", "wild bootstrap", "shift"])
def test_the_statistic_of_independence(method):
    kernels = KERNEL, SquaredExponential(0.4)
    result = independence_test(
        P, Q[:, 0], kernel=kernels, method=method, **series_options(method), **QUIET
    )
    with jax.enable_x64(True):
        expected = float(hsic(P, Q[:, 0], *kernels, estimator="biased"))
    assert result.statistic == pytest.approx(expected, rel=1e-9)
    if method == "shift":
        assert len(result.null_distribution) == 60 - 2 * 5 + 1
    assert not result.exact
    result.plot()


@pytest.mark.parametrize(("estimator", "size"), [("linear", 2), ("block", 8), ("block", 5)])
def test_linear_and_block_are_student_t(estimator, size):
    """The terms' mean over their standard error, of shuffled rows."""
    block_size = size if size == 5 else None
    options = {"estimator": estimator, "method": "normal", "block_size": block_size}
    result = two_sample_test(P, Q, kernel=KERNEL, **options, **QUIET)
    count = 60 // size
    # The same shuffle: sorted, then by the generator of permutations, P before Q.
    rng = generator(0, np.concatenate([P, Q]))
    first, second = (rng.permutation(Z[canonical_order(Z)]) for Z in (P, Q))
    with jax.enable_x64(True):
        terms = np.asarray(mmd_terms(first, second, KERNEL, block_size=size))
    assert len(terms) == count
    expected = terms.mean() / (terms.std(ddof=1) / count**0.5)
    assert result.statistic == pytest.approx(expected, rel=1e-9)
    assert result.pvalue == pytest.approx(t(count - 1).sf(result.statistic), rel=1e-9)
    # The order of rows does not matter.
    order = np.random.default_rng(1).permutation(60)
    again = two_sample_test(P[order], Q, kernel=KERNEL, **options, **QUIET)
    assert again.statistic == pytest.approx(result.statistic, rel=1e-9)


@pytest.mark.parametrize("method", ["gamma", "spectrum"])
def test_the_approximations_agree_with_permutations(method, permute_labels):
    """At n = 60 the 90 % point is within 20 % of that of 2000 permutations."""
    pooled = np.concatenate([P, Q])
    result = two_sample_test(P, Q, kernel=KERNEL, method=method, **{**QUIET, "n_resamples": 4000})
    estimator = "biased" if method == "gamma" else "unbiased"
    labels = permute_labels((60, 60), 2000, np.random.default_rng(2))
    with jax.enable_x64(True):
        row = permuted_mmd(np.asarray(KERNEL(pooled)), labels, estimator=estimator)
    expected = np.quantile(row[1:], 0.9)
    quantile = (
        result.limit.ppf(0.9) if method == "gamma" else np.quantile(result.null_distribution, 0.9)
    )
    assert quantile == pytest.approx(expected, rel=0.2)


@pytest.mark.slow
def test_everything_finds_a_difference():
    for method in ("gamma", "spectrum", "wild bootstrap", "normal"):
        for kernel in ("bkl", "median", KERNEL):
            result = two_sample_test(
                P, Q + 2.0, kernel=kernel, method=method, **series_options(method), **QUIET
            )
            assert result.pvalue < 0.05, (method, kernel)
    for method in ("gamma", "spectrum", "wild bootstrap", "shift"):
        result = independence_test(
            P, P[:, 0] ** 2, kernel="median", method=method, **series_options(method), **QUIET
        )
        assert result.pvalue <= 0.05, method


@pytest.mark.slow
def test_series_require_the_bootstrap():
    """Autoregressions of 200 steps with coefficient 0.8, 100 pairs of them, seed 3.

    Permutations reject far more often than 0.05; the shift and the bootstrap less. With levels of
    0.08 and 0.12, as measured, more than 20 and 26 of 100 are one in 30 000 and in 20 000.
    """
    rng = np.random.default_rng(3)
    counts = {"permutation": 0, "shift": 0, "wild bootstrap": 0}
    for seed in range(100):
        series = np.zeros((200, 2))
        series[0] = rng.normal(size=2)
        for step in range(1, 200):
            series[step] = 0.8 * series[step - 1] + 0.6 * rng.normal(size=2)
        for method in counts:
            result = independence_test(
                series[:, 0], series[:, 1], kernel="median", method=method, seed=seed, **QUIET
            )
            counts[method] += result.reject
    assert counts["permutation"] > 26
    assert counts["shift"] <= 20
    assert counts["wild bootstrap"] <= 26


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "bootstrap"}, "method must be one of"),
        ({"method": "gamma"}, "combines many statistics"),
        ({"method": "gamma", "statistic": "bayes_factor"}, "method='gamma' is for statistic='mmd'"),
        ({"method": "gamma", "kernel": "bkl", "estimator": "unbiased"}, "requires method="),
        ({"estimator": "linear", "kernel": "bkl"}, "requires method='normal'"),
        ({"estimator": "median"}, "estimator must be one of"),
        (
            {"method": "wild bootstrap", "kernel": "bkl"},
            "a dependence_length of 20 steps requires 100 rows, got 60",
        ),
        (
            {"method": "wild bootstrap", "kernel": "bkl", "dependence_length": 0},
            "dependence_length must be",
        ),
        (
            {"method": "normal", "kernel": "bkl", "estimator": "block", "block_size": 60},
            "one block",
        ),
        ({"method": "normal", "kernel": "bkl", "estimator": "block", "block_size": 61}, "60 rows"),
        ({"method": "normal", "kernel": "bkl", "block_size": 5}, "block_size is for"),
        (
            {"method": "gamma", "kernel": "bkl", "dependence_length": 5},
            "dependence_length is for method='wild bootstrap' or 'shift', not",
        ),
        ({"statistic": "bayes_factor", "estimator": "biased"}, "is for statistic='mmd'"),
    ],
)
def test_incompatible_options_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        two_sample_test(P, Q, **arguments, **QUIET)


def test_kernels_that_distinguish_no_rows():
    for lengthscale in (1e12, 1e-12):
        kernel = SquaredExponential(lengthscale)
        for method in ("gamma", "spectrum", "wild bootstrap", "normal"):
            with pytest.raises(InputError, match="does not distinguish any rows"):
                two_sample_test(
                    P, Q, kernel=kernel, method=method, **series_options(method), **QUIET
                )
        for method in ("gamma", "spectrum", "wild bootstrap", "shift"):
            with pytest.raises(InputError, match="does not distinguish any rows"):
                independence_test(
                    P, Q, kernel=kernel, method=method, **series_options(method), **QUIET
                )
        # All permutations have equal statistics, so the p-value is 1.
        assert two_sample_test(P, Q, kernel=kernel, **QUIET).pvalue == 1.0
        assert independence_test(P, Q, kernel=kernel, **QUIET).pvalue == 1.0


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    "options",
    [
        {"kernel": "median"},
        {"statistic": "bayes_factor"},
        {"statistic": "combined"},
        {"kernel": "multiscale"},
    ],
)
def test_pairs_with_a_single_different_pair(options):
    """Every swap gives the same statistic, but for rounding: the p-value is 1."""
    for seed in range(4):
        first = np.random.default_rng(seed).normal(size=(40, 1))
        second = first.copy()
        second[seed] += 1.0
        result = two_sample_test(first, second, paired=True, **options, **QUIET)
        assert result.pvalue == 1.0
        same = two_sample_test(first, first, paired=True, **options, **QUIET)
        assert same.pvalue == 1.0


@pytest.mark.parametrize(
    ("test", "rows", "options", "message"),
    [
        (two_sample_test, (60, 50), {"method": "normal"}, "one size"),
        (
            two_sample_test,
            (60, 50),
            {"method": "wild bootstrap", "dependence_length": 2},
            "one size",
        ),
        (
            independence_test,
            (60, 60),
            {"method": "shift", "dependence_length": 10, "alpha": 0.01},
            "too few to reject",
        ),
        (independence_test, (5, 5), {"method": "gamma"}, "at least 6 rows"),
    ],
)
def test_unequal_sizes_and_short_series(test, rows, options, message):
    with pytest.raises(InputError, match=message):
        test(P[: rows[0]], Q[: rows[1]], kernel="median", **options, **QUIET)


def test_six_rows_suffice_for_the_gamma_approximation():
    result = independence_test(P[:6], Q[:6], kernel="median", method="gamma", **QUIET)
    assert 0.0 <= result.pvalue <= 1.0
