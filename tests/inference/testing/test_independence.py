"""Independence tests: exactness by construction, power, bad input."""

import numpy as np
import pytest
from bke.inference import InputError, independence_test
from bke.inference.permutation.null_distribution import neg_log_tails
from bke.inference.testing import independence
from bke.inference.testing.independence import CenteredGram, permuted_hsic
from bke.inference.testing.result import combine
from bke.models import Distance, Laplace, Polynomial, SquaredExponential, hsic
from matplotlib.backends.backend_agg import FigureCanvasAgg

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 2))
Y = X[:, 0] ** 2 + 0.2 * RNG.normal(size=30)
QUIET = {"progress": False}
CHOICES = ["multiscale", "bkl", "posterior", "median"]


def test_the_statistic_is_hsic():
    kernels = SquaredExponential(0.7), Laplace(1.3)
    for estimator in ("unbiased", "biased"):
        result = independence_test(
            X, Y, kernel=kernels, estimator=estimator, n_resamples=99, **QUIET
        )
        expected = float(hsic(X, Y, *kernels, estimator=estimator))
        assert result.statistic == pytest.approx(expected, rel=1e-9)
        assert result.kernel == kernels


@pytest.mark.one_in(4)
@pytest.mark.parametrize("choice", CHOICES)
def test_dependence_is_detected_and_the_order_of_pairs_does_not_matter(choice):
    result = independence_test(X, Y, kernel=choice, n_resamples=99, **QUIET)
    assert result.pvalue <= 0.05
    assert "x and y depend on each other" in str(result)
    order = np.random.default_rng(1).permutation(30)
    again = independence_test(X[order], Y[order], kernel=choice, n_resamples=99, **QUIET)
    assert again.pvalue == result.pvalue
    # The kernel of y depends on y only, not on x.
    with_other_x = independence_test(
        RNG.normal(size=(30, 1)), Y, kernel=("median", choice), n_resamples=99, **QUIET
    )
    if choice != "multiscale":
        np.testing.assert_array_equal(
            with_other_x.kernel[1].lengthscale, result.kernel[1].lengthscale
        )


@pytest.mark.parametrize("choice", ["multiscale", "median"])
@pytest.mark.one_in(2)
def test_which_of_the_two_is_named_first_does_not_matter(choice):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(50, 2))
    Y = 0.25 * X[:, :1] + rng.normal(size=(50, 1))
    options = {"kernel": choice, "n_resamples": 199, "progress": False}
    p = independence_test(X, Y, **options).pvalue
    order = rng.permutation(50)
    assert 0.005 < p < 1.0
    for first, second in ((Y, X), (X[order], Y[order]), (X[:, ::-1], 100.0 * Y)):
        other = independence_test(first, second, **options).pvalue
        assert other == pytest.approx(p, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("choice", "rows", "max_gram_rows"),
    [("median", 12, 2000), ("multiscale", 12, 2000), ("multiscale", 150, 100)],
)
def test_the_level(choice, rows, max_gram_rows, monkeypatch):
    """150 independent samples, seed 4, 39 permutations, level 0.1: at most 31 but 1 in 10 000.

    With matrices, and with features for large samples.
    """
    monkeypatch.setattr(independence, "MAX_GRAM_ROWS", max_gram_rows)
    rng = np.random.default_rng(4)
    options = {"kernel": choice, "n_resamples": 39, "alpha": 0.1, **QUIET}
    pvalues = np.array(
        [
            independence_test(
                rng.gamma(2.0, size=rows), rng.normal(size=rows), seed=seed, **options
            ).pvalue
            for seed in range(150)
        ]
    )
    assert np.sum(pvalues <= 0.1) <= 31
    assert np.mean(pvalues) > 0.4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"Y": Y[:20]}, "X has 30 rows but Y has 20"),
        ({"X": X[:3], "Y": Y[:3]}, "at least 4 rows"),
        ({"kernel": "combined"}, "kernel must be a kernel or one of"),
        ({"kernel": ("median",)}, "one for all variables or a tuple of 2"),
        ({"n_resamples": 5}, "cannot reject"),
        ({"estimator": "paired"}, "estimator must be one of"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(InputError, match=message):
        independence_test(**{"X": X, "Y": Y, **QUIET, **arguments})


@pytest.mark.parametrize(
    ("rows", "estimator", "n_permutations"),
    [(4, "biased", 24), (4, "unbiased", 6), (5, "biased", 120), (5, "unbiased", 120)],
)
def test_small_samples(rows, estimator, n_permutations):
    """There are as many statistics as permutations, and a note if none of them can reject."""
    rng = np.random.default_rng(10)
    first, second = rng.normal(size=(2, rows, 2))
    options = {"kernel": "median", "estimator": estimator, "n_resamples": 1999, **QUIET}
    result = independence_test(first, second, **options)
    assert len(np.unique(result.null_distribution.round(9))) == n_permutations
    assert ("ways" in str(result)) == (n_permutations < 20)
    result_at_larger_level = independence_test(first, second, alpha=0.9 / n_permutations, **options)
    assert f"in {n_permutations} ways only" in str(result_at_larger_level)


@pytest.mark.parametrize("kernel", [Distance(), Polynomial(1), SquaredExponential(1e4)])
def test_a_large_common_offset_does_not_reduce_power(kernel):
    """An offset of 1e5 (or a lengthscale of 1e4) adds f(x) + f(y) to the kernel, and no more."""
    rng = np.random.default_rng(7)
    first = rng.normal(size=100)
    second = first + rng.normal(size=100)
    offset = 0.0 if isinstance(kernel, SquaredExponential) else 1e5
    result = independence_test(
        first + offset, second + offset, kernel=kernel, n_resamples=199, **QUIET
    )
    assert result.pvalue == 1 / 200


@pytest.mark.parametrize("estimator", ["biased", "unbiased"])
def test_permuted_blocks_are_permutations_of_rows(estimator):
    rng = np.random.default_rng(6)
    x, y = (CenteredGram.of_features(rng.normal(size=(23, size))) for size in (2, 3))
    blocks = np.vstack([np.arange(5), rng.permuted(np.tile(np.arange(5), (30, 1)), axis=1)])
    # Four rows are a block, and the last three rows are in none.
    rows = (4 * blocks[:, :, None] + np.arange(4)).reshape(len(blocks), -1)
    rows = np.column_stack([rows, np.tile(np.arange(20, 23), (len(blocks), 1))])
    statistics = permuted_hsic(x, y, blocks, estimator=estimator)
    np.testing.assert_allclose(
        statistics, permuted_hsic(x, y, rows, estimator=estimator), rtol=1e-10
    )
    K, L = (part.factor @ part.factor.T for part in (x, y))
    by_matrices = [CenteredGram.of(matrix) for matrix in (K, L)]
    np.testing.assert_allclose(
        statistics, permuted_hsic(*by_matrices, rows, estimator=estimator), rtol=1e-10
    )


def test_large_samples_use_features_in_any_order(monkeypatch):
    monkeypatch.setattr(independence, "MAX_GRAM_ROWS", 100)
    rng = np.random.default_rng(7)
    X = rng.normal(size=(203, 2))
    Y = 0.04 * X[:, :1] + rng.normal(size=(203, 1))
    options = {"n_resamples": 199, "progress": False}
    p = independence_test(X, Y, **options).pvalue
    assert 0.005 < p < 1.0
    order = rng.permutation(203)
    for first, second in ((Y, X), (X[order], Y[order]), (X[:, ::-1], 100.0 * Y)):
        assert independence_test(first, second, **options).pvalue == pytest.approx(p, abs=1e-12)
    exact = independence_test(X, Y, kernel="median", **options)
    monkeypatch.setattr(independence, "MAX_GRAM_ROWS", 2000)
    by_matrices = independence_test(X, Y, kernel="median", **options)
    assert exact.statistic == pytest.approx(by_matrices.statistic, rel=1e-6)


@pytest.mark.slow
def test_a_linear_dependence_is_a_component_with_a_large_weight():
    """Columns in standard deviations; one pair of five, correlation 0.7, 100 rows, seed 2.

    Its component is HSIC with linear kernels, with half the weight of all others together.
    """
    rng = np.random.default_rng(2)
    X, Y = rng.normal(size=(2, 100, 5)) * [1.0, 10.0, 1.0, 0.1, 1.0]
    Y[:, 0] += X[:, 0]
    result = independence_test(X, Y, progress=False)
    linear = result.components[-1]
    assert linear.name == "linear"
    scaled = [Z / Z.std(axis=0) for Z in (X, Y)]
    expected = float(hsic(*scaled, Polynomial(1, 0.0), Polynomial(1, 0.0)))
    assert linear.statistic == pytest.approx(expected)
    assert result.kernel != linear.kernel
    assert result.statistic_label.endswith("generalized mean p-value of the HSICs")
    assert result.reject
    without_linear = independence_test(X, Y, kernel=("multiscale", "median"), progress=False)
    assert without_linear.components[-1].name != "linear"


def test_a_statistic_of_another_type_has_half_the_weight():
    """The combination is ((2 e^(a/2) + e^(b/2)) / 3)^2 of negative logs of both p-values."""
    rows = np.random.default_rng(6).normal(size=(4, 100))
    centered = rows[:3] - rows[:3].mean(axis=1, keepdims=True)
    together = np.log(np.exp(centered / centered.std(axis=1, keepdims=True)).sum(axis=0))
    a, b = neg_log_tails(together), neg_log_tails(rows[3])
    expected = 2.0 * np.log((2.0 * np.exp(a / 2) + np.exp(b / 2)) / 3.0)
    combined = combine(rows, [("", None)] * 4, num_other=1)
    np.testing.assert_allclose(combined.values, expected)
    assert combined.most_extreme < 3


def test_the_label_of_the_statistic_is_within_the_picture():
    """The default kernel, whose statistic has the longest name."""
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(2, 40, 1))
    figure = independence_test(X, X**2 + Y, n_resamples=999, progress=False).plot()
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    (panel,) = figure.axes
    box = panel.xaxis.label.get_window_extent(canvas.get_renderer())
    assert 0.0 <= box.x0 < box.x1 <= figure.bbox.x1
    assert box.y0 >= 0.0
