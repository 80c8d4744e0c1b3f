"""Goodness of fit and relative similarity."""

import numpy as np
import pytest
from bke.inference import InputError, goodness_of_fit_test, relative_similarity_test
from bke.inference.testing.models import similarity_difference
from bke.models import SquaredExponential, squared_mmd

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 1))
QUIET = {"progress": False, "kernel": "median", "n_resamples": 99}


def test_goodness_of_fit():
    right = goodness_of_fit_test(X, lambda rng, n: rng.normal(size=n), **QUIET)
    wrong = goodness_of_fit_test(X, lambda rng, n: rng.exponential(size=n), draws=200, **QUIET)
    assert right.pvalue > 0.1
    assert wrong.pvalue == 0.01
    assert "the data do not come from the distribution" in str(wrong)
    assert wrong.test == "goodness-of-fit test with 200 draws"


@pytest.mark.slow
def test_the_level_of_goodness_of_fit_at_a_fixed_seed():
    """300 data sets, at most 28 rejected but for 1 in 1300; the same draws for all reject 118."""
    rng = np.random.default_rng(4)
    options = {**QUIET, "kernel": SquaredExponential(1.0)}
    rejected = [
        goodness_of_fit_test(rng.normal(size=20), lambda g, n: g.normal(size=n), **options).reject
        for _ in range(300)
    ]
    assert sum(rejected) <= 28


@pytest.mark.parametrize(
    ("sampler", "message"),
    [
        (
            lambda rng, n: rng.normal(size=(n, 2)),
            "60 rows of 1 columns and returned an array",
        ),
        (lambda rng, n: rng.normal(size=n - 1), "returned an array of shape"),
        (lambda rng, n: np.full(n, np.nan), "the sampler has a missing value"),
        ("norm", "sampler must be a function"),
        (lambda n: np.zeros(n), "this one raised"),
    ],
)
def test_invalid_samplers_are_refused(sampler, message):
    with pytest.raises(InputError, match=message):
        goodness_of_fit_test(X, sampler, **QUIET)


def test_the_difference_is_that_of_two_discrepancies():
    kernel = SquaredExponential(0.8)
    Y, Z = RNG.normal(0.5, 1.0, size=(50, 1)), RNG.normal(1.0, 1.0, size=(40, 1))
    matrix = np.asarray(kernel(np.concatenate([X, Y, Z])))
    difference, _ = similarity_difference(matrix, [60, 50, 40])
    expected = float(squared_mmd(X, Y, kernel) - squared_mmd(X, Z, kernel))
    assert difference == pytest.approx(expected, rel=1e-9)


@pytest.mark.slow
def test_its_standard_error_is_the_standard_deviation_over_samples():
    """1000 triples of samples, seed 1: the ratio has a standard error of 2 %."""
    rng, kernel = np.random.default_rng(1), SquaredExponential(1.0)
    estimates = []
    for _ in range(1000):
        samples = rng.normal(size=80), rng.normal(0.7, 1.0, size=60), rng.normal(-0.5, 1.5, size=40)
        matrix = np.asarray(kernel(np.concatenate(samples)))
        estimates.append(similarity_difference(matrix, [80, 60, 40]))
    differences, deviations = np.array(estimates).T
    assert np.sqrt(np.mean(deviations**2)) / differences.std() == pytest.approx(1.0, abs=0.1)


def test_the_closer_model_is_named():
    rng = np.random.default_rng(2)
    near, distant = rng.normal(0.2, 1.0, size=300), rng.normal(1.0, 1.0, size=300)
    data, kernel = rng.normal(size=300), SquaredExponential(1.0)
    result = relative_similarity_test(data, near, distant, kernel=kernel)
    assert result.pvalue < 0.01
    assert "the first is closer" in str(result)
    assert not result.exact
    swapped = relative_similarity_test(data, distant, near, kernel=kernel)
    assert swapped.statistic == pytest.approx(-result.statistic, rel=1e-9)
    one_sided = relative_similarity_test(
        data, near, distant, kernel=kernel, alternative="first closer"
    )
    assert one_sided.pvalue == pytest.approx(result.pvalue / 2)
    other = relative_similarity_test(
        data, near, distant, kernel=kernel, alternative="second closer"
    )
    assert other.pvalue > 0.99
    low, high = result.interval
    assert low < high < 0


def test_a_note_where_the_normal_limit_does_not_hold():
    """The note appears only if X differs from neither, and not if it differs from either one."""
    rng = np.random.default_rng(7)
    X, first, second = rng.normal(size=(3, 60))
    for pair, noted in (
        ((first, second), True),
        ((first, second + 3.0), False),
        ((first + 3.0, second), False),
    ):
        notes = relative_similarity_test(X, *pair, kernel="median").notes
        assert any("not significantly different from either" in note for note in notes) == noted


def test_bad_input():
    with pytest.raises(TypeError, match="unexpected keyword argument 'permutation'"):
        goodness_of_fit_test(X, lambda rng, n: rng.normal(size=(n, 1)), permutation=99)
    with pytest.raises(InputError, match="alternative must be one of"):
        relative_similarity_test(X, X + 1, X + 2, alternative="greater")
    with pytest.raises(InputError, match="same number of columns"):
        relative_similarity_test(X, RNG.normal(size=(20, 2)), X + 2)


@pytest.mark.slow
@pytest.mark.parametrize("alternative", ["two-sided", "first closer", "second closer"])
def test_critical_values_are_where_the_p_value_is_the_level(alternative):
    result = relative_similarity_test(X, X + 0.3, X[::-1] - 0.9, alternative=alternative)
    tails = {"two-sided": 2, "first closer": 1, "second closer": 1}
    assert len(result.critical) == tails[alternative]
    lines = [line for line in result.plot().axes[0].lines if line.get_linestyle() == "--"]
    assert [line.get_xdata()[0] for line in lines] == list(result.critical)
    z = np.array([*result.critical, result.statistic])
    beyond = {"two-sided": abs(z), "first closer": -z, "second closer": z}[alternative]
    assert (beyond[-1] >= beyond[0]) == result.reject


def test_a_sampler_in_single_precision_is_not_rejected():
    rng = np.random.default_rng(0)
    X = rng.choice([0.1, 0.2, 0.3], 100)
    result = goodness_of_fit_test(
        X, lambda r, n: r.choice(np.float32([0.1, 0.2, 0.3]), n), n_resamples=199, progress=False
    )
    assert result.pvalue > 0.05


def test_equal_rows_are_no_difference_for_either_order_of_samples():
    zeros, other = np.zeros(10), np.random.default_rng(0).normal(size=10)
    first, second = (
        relative_similarity_test(zeros, *pair) for pair in ((zeros, other), (other, zeros))
    )
    assert first.pvalue == pytest.approx(second.pvalue)
