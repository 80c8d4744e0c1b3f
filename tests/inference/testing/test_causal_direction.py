"""Cause and effect of two columns: regressions, statistics, decisions, their errors, bad input."""

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest
from bke.inference import InputError, causal_direction
from bke.inference.testing.causal_direction import N_FOLDS
from bke.inference.testing.residuals import _fit_kernel, cross_predict
from scipy.spatial.distance import cdist
from scipy.stats import norm

pytest.importorskip("sklearn")
QUIET = {"progress": False, "n_resamples": 199}


def saturating(n, seed):
    """y = tanh(2 x) with uniform noise, whose standard deviation is 0.29."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    return x, np.tanh(2.0 * x) + rng.uniform(-0.5, 0.5, n)


X, Y = saturating(300, 0)


@pytest.fixture(scope="module")
def result():
    return causal_direction(X, Y, **QUIET)


def gram_of(values, lengthscale):
    return np.exp(-0.5 * cdist(values[:, None], values[:, None], "sqeuclidean") / lengthscale**2)


def unbiased_hsic(K, L):
    """DEP-3, one term at a time."""
    n = len(K)
    K, L = K - np.diag(np.diag(K)), L - np.diag(np.diag(L))
    total = np.trace(K @ L) + K.sum() * L.sum() / ((n - 1) * (n - 2)) - 2 * (K @ L).sum() / (n - 2)
    return total / (n * (n - 3))


def test_predictions_are_those_of_scikit_learn_s_regression_on_the_other_folds():
    from sklearn.gaussian_process import GaussianProcessRegressor

    x, y = saturating(60, 1)
    x, y, folds = 3.0 * x + 5.0, 100.0 * y, np.arange(60) % 3
    predicted = cross_predict(y, x, folds, 0)
    z, t = (x - x.mean()) / x.std(), (y - y.mean()) / y.std()
    kernel, _ = _fit_kernel(np.column_stack([z, t]), np.inf, None)
    for fold in range(3):
        rest = folds != fold
        regressor = GaussianProcessRegressor(kernel, optimizer=None).fit(z[rest, None], t[rest])
        expected = y.mean() + y.std() * regressor.predict(z[~rest, None])
        np.testing.assert_allclose(predicted[~rest], expected, rtol=1e-8, atol=1e-6)
    # Values of a fold have no influence on its own predictions, except by the hyperparameters.
    assert np.corrcoef(predicted, 100.0 * np.tanh(2.0 * (x - 5.0) / 3.0))[0, 1] > 0.95


def test_the_statistic_is_the_mean_of_unbiased_hsic_of_the_folds(result):
    for model in (result.forward, result.backward):
        lengths = [float(np.ravel(kernel.lengthscale)[0]) for kernel in model.test.kernel]
        values = []
        for fold in range(N_FOLDS):
            rows = model.folds == fold
            pair = (model.values[rows], model.residuals[rows])
            values.append(unbiased_hsic(*map(gram_of, pair, lengths)))
            assert rows.sum() == 60
        assert model.test.statistic == pytest.approx(np.mean(values), rel=1e-8)
        distances = [np.median(cdist(v[:, None], v[:, None])[np.triu_indices(300, 1)])
                     for v in (model.values, model.residuals)]  # fmt: skip
        assert lengths == pytest.approx(distances, rel=1e-6)
    pairs = np.column_stack([result.forward.values, result.forward.observed])
    np.testing.assert_array_equal(
        pairs[np.argsort(pairs[:, 0])], np.column_stack([X, Y])[X.argsort()]
    )


def test_the_null_distribution_is_that_of_permutations_within_folds(result):
    """Compare with 400 permutations of a slow twin, seed 2: means within 5 standard errors.

    The relative error of the ratio of the deviations is 6 %, of normal statistics; 35 % are more
    than 5 of them.
    """
    model, rng = result.forward, np.random.default_rng(2)
    lengths = [float(np.ravel(kernel.lengthscale)[0]) for kernel in model.test.kernel]
    grams = []
    for fold in range(N_FOLDS):
        rows = model.folds == fold
        grams.append([gram_of(v[rows], length) for v, length in
                      zip((model.values, model.residuals), lengths, strict=True)])  # fmt: skip
    twin = np.zeros(400)
    for K, L in grams:
        for index in range(400):
            order = rng.permutation(len(K))
            twin[index] += unbiased_hsic(K, L[np.ix_(order, order)]) / N_FOLDS
    null = model.test.null_distribution
    assert len(null) == 199
    error = twin.std() * np.sqrt(1 / 199 + 1 / 400)
    assert abs(null.mean() - twin.mean()) < 5.0 * error
    assert null.std() == pytest.approx(twin.std(), rel=0.35)
    assert model.test.pvalue == np.mean(
        np.append(null, model.test.statistic) >= model.test.statistic
    )


def test_the_standard_error_is_that_of_the_bootstrap(result):
    """200 resamples of the rows of each fold, seed 3: the relative error of their deviation is 5 %.

    Duplicate rows bias the mean of the bootstrap, and its deviation by less than a third.
    """
    rng, draws = np.random.default_rng(3), []
    sets = []
    for model in (result.forward, result.backward):
        lengths = [float(np.ravel(kernel.lengthscale)[0]) for kernel in model.test.kernel]
        sets.append([[gram_of(v[model.folds == fold], length) for v, length in
                      zip((model.values, model.residuals), lengths, strict=True)]
                     for fold in range(N_FOLDS)])  # fmt: skip
    for _ in range(200):
        total = 0.0
        for forward, backward in zip(*sets, strict=True):
            rows = rng.integers(60, size=60)
            cut = np.ix_(rows, rows)
            for sign, (K, L) in ((-1.0, forward), (1.0, backward)):
                total += sign * unbiased_hsic(K[cut], L[cut]) / N_FOLDS
        draws.append(total)
    assert result.standard_error == pytest.approx(np.std(draws), rel=0.35)
    expected = norm.sf(result.difference / result.standard_error)
    assert result.difference_pvalue == pytest.approx(expected)
    assert result.difference == result.backward.test.statistic - result.forward.test.statistic


def test_a_direction_in_text_and_as_plain_data(result):
    assert result.direction == "x -> y"
    assert result.reason == "y -> x is rejected"
    assert "Causal direction: x -> y at level 0.05 (y -> x is rejected)." in str(result)
    assert "300 rows, 199 permutations within 5 folds, median" in str(result)
    plain = json.loads(json.dumps(result.to_dict()))
    assert plain["direction"] == "x -> y"
    assert plain["models"][1]["test"]["pvalue"] == result.backward.test.pvalue
    assert list(result.to_dataframe()["reject"]) == [False, True]
    figure = result.plot()
    assert [ax.get_title("left")[:6] for ax in figure.axes] == ["x -> y", "y -> x", "", ""]
    np.testing.assert_array_equal(figure.axes[3].lines[1].get_ydata(), result.backward.residuals)


def test_swapped_columns_and_another_order_of_rows(result):
    order = np.random.default_rng(4).permutation(300)
    swapped = causal_direction(Y[order], pd.Series(X)[order].to_numpy()[:, None], **QUIET)
    assert swapped.direction == "y -> x"
    assert swapped.forward.test.pvalue == result.backward.test.pvalue
    assert swapped.difference == pytest.approx(-result.difference, rel=1e-9)


def test_units_have_no_influence(result):
    scaled = causal_direction(1000.0 * X - 7.0, 0.01 * Y, **QUIET)
    assert scaled.direction == "x -> y"
    assert scaled.difference == pytest.approx(result.difference, rel=0.02)


def test_no_decision_if_one_model_is_not_significantly_worse(result):
    unsure = dataclasses.replace(result, standard_error=result.difference)
    assert unsure.difference_pvalue == pytest.approx(norm.sf(1.0))
    assert unsure.direction == "undecided"
    assert unsure.reason == "y -> x is rejected, but not significantly worse than the other model"
    # The rejected model has the smaller dependence.
    opposite = dataclasses.replace(result, difference=-result.difference)
    assert opposite.direction == "undecided"
    equal = dataclasses.replace(result, difference=0.0, standard_error=0.0)
    assert (equal.direction, equal.difference_pvalue) == ("undecided", 0.5)


def test_linear_functions_with_normal_noise_have_no_direction():
    """One pair: each model is rejected with a probability of about 0.05, seed 5."""
    x, noise = np.random.default_rng(5).normal(size=(2, 200))
    result = causal_direction(x, x + noise, **QUIET)
    assert (result.direction, result.reason) == ("undecided", "both models fit")


def test_neither_model_fits_multiplicative_noise():
    rng = np.random.default_rng(6)
    x = rng.normal(size=300)
    result = causal_direction(x, x * rng.normal(size=300), **QUIET)
    assert (result.direction, result.reason) == ("undecided", "neither model fits")
    assert str(result).startswith("Causal direction: undecided at level 0.05 (neither model fits)")


def test_a_column_of_two_values():
    rng = np.random.default_rng(7)
    x = (rng.uniform(size=100) < 0.3) * 1.0
    result = causal_direction(x, 3.0 * x + rng.normal(size=100), **QUIET)
    assert result.forward.test.pvalue > 0.05
    assert set(result.forward.values) == {0.0, 1.0}


def test_many_rows_and_series_are_noted(monkeypatch):
    monkeypatch.setattr("bke.inference.testing.causal_direction.MAX_ROWS", 60)
    noise = np.random.default_rng(8).normal(size=(2, 100))
    walks = np.cumsum(noise, axis=1)
    result = causal_direction(*walks, **QUIET)
    assert len(result.forward.values) == 60
    assert "a random subset of 60 of 100 rows is used" in result.notes
    assert any("predecessors" in note for note in result.notes)


@pytest.mark.slow
def test_wrong_directions_are_rare():
    """60 pairs of 100 rows, seeds 100 to 159, level 0.1: at most 14 rejected but 1 in 1000.

    Of linear functions with normal noise both models are true, so that a direction is named with a
    probability of at most 0.2: at most 23 but 1 in 5000.
    """
    true_rejected, wrong, named = 0, 0, 0
    for seed in range(60):
        result = causal_direction(*saturating(100, 100 + seed), alpha=0.1, seed=seed, **QUIET)
        true_rejected += result.forward.test.reject
        wrong += result.direction == "y -> x"
        x, noise = np.random.default_rng(200 + seed).normal(size=(2, 100))
        line = causal_direction(x, x + noise, alpha=0.1, seed=seed, **QUIET)
        named += line.direction != "undecided"
    assert wrong <= true_rejected <= 14
    assert named <= 23


@pytest.mark.parametrize(
    ("x", "y", "options", "message"),
    [
        (X, Y[:10], {}, "x has 300 rows but y has 10"),
        (X[:20], Y[:20], {}, "needs at least 50 rows, and there are 20"),
        (np.column_stack([X, Y]), Y, {}, "x must be one column, and has 2"),
        (X, np.ones(300), {}, "y has 300 rows and all are equal"),
        (np.where(X > 1.0, np.nan, X), Y, {}, "x has a missing value"),
        (X, Y, {"kernel": "multiscale"}, "kernel must be one of"),
        (X, Y, {"n_resamples": 9}, "cannot reject at level 0.05"),
        (X, Y, {"alpha": 2.0}, "alpha"),
        (X[:100], 2.0 * X[:100] - 1.0, {}, "y is a function of x up to rounding"),
    ],
)
def test_bad_input(x, y, options, message):
    with pytest.raises(InputError, match=message):
        causal_direction(x, y, **{**QUIET, **options})
