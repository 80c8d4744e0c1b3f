"""Distribution regression: dense twins, invariances, coverage, and scikit-learn's interface."""

import jax
import numpy as np
import pandas as pd
import pytest
import sklearn
from bke.inference import DistributionRegressor, InputError
from bke.inference.regression.groups import GroupMeans
from bke.inference.regression.linear import PRIOR_STD, Coordinates, average_fits, fit_linear
from bke.models import SquaredExponential
from scipy.linalg import eigh
from scipy.stats import binom, multivariate_normal


def gammas(sizes, seed):
    """Law et al. (2018, section 5.1): rows have mean 1; y determines their shape."""
    rng = np.random.default_rng(seed)
    y = rng.uniform(4.0, 8.0, len(sizes))
    return [rng.gamma(v / 2.0, 2.0 / v, (n, 3)) for v, n in zip(y, sizes, strict=True)], y


SIZES = np.random.default_rng(0).choice([3, 10, 60], 150)
X, Y = gammas(SIZES, 1)


@pytest.fixture(scope="module")
def fitted():
    return DistributionRegressor().fit(X, Y)


def simulate_means(groups, features, seed):
    """Simulate means of groups with full covariances within and between groups."""
    rng = np.random.default_rng(seed)
    within, between = (
        (root := rng.normal(size=(features, features))) @ root.T + np.eye(features)
        for _ in range(2)
    )
    counts = rng.choice([2, 5, 30], groups)
    truth = rng.multivariate_normal(rng.normal(size=features), between, groups)
    noise = rng.multivariate_normal(np.zeros(features), within, groups)
    values = truth + noise / np.sqrt(counts)[:, np.newaxis]
    return GroupMeans(values, counts, *np.linalg.eigh(within), 1000), between


def within(means):
    return (means.directions * means.variances) @ means.directions.T


def test_basis_makes_both_covariances_diagonal():
    """V'SV = I, and the between-group covariance by moments is V'RV = diag(spread)."""
    means, between = simulate_means(4000, 4, 0)
    coordinates = Coordinates.estimate(means)
    basis = coordinates.basis
    np.testing.assert_allclose(basis.T @ within(means) @ basis, np.eye(4), atol=1e-8)
    # The true one up to the error of 4000 groups.
    assert (np.diff(coordinates.variances) <= 0.0).all()
    diagonal, error = np.diag(coordinates.variances), 0.15 * coordinates.variances[0]
    np.testing.assert_allclose(basis.T @ between @ basis, diagonal, atol=error)


@pytest.mark.parametrize("groups", [12, 40])
def test_generalized_eigenvalues_with_fewer_groups_than_features(groups):
    """The generalized eigenvalues of the two covariances, by matrices of all features."""
    means, _ = simulate_means(groups, 30, 5)
    coordinates = Coordinates.estimate(means)
    weights = means.counts / (means.counts + np.median(means.counts))
    weights /= weights.sum()
    centered = means.values - weights @ means.values
    sampling = np.sum(weights * (1.0 - weights) / means.counts)
    between = centered.T @ (weights[:, np.newaxis] * centered) - sampling * within(means)
    expected = eigh(between, within(means), eigvals_only=True)[::-1] / (1.0 - weights @ weights)
    count = len(coordinates.variances)
    assert 0 < count < groups
    assert (expected[count:] <= 1e-12).all()
    np.testing.assert_allclose(coordinates.variances, expected[:count], rtol=1e-8)
    V = coordinates.basis
    np.testing.assert_allclose(V.T @ within(means) @ V, np.eye(count), atol=1e-8)
    R = between / (1.0 - weights @ weights)
    np.testing.assert_allclose(V.T @ R @ V, np.diag(coordinates.variances), atol=1e-8)


def test_posterior_matches_dense_matrices():
    """R (R + S/n)^-1 (mean - center) and R - R (R + S/n)^-1 R, turned into the basis."""
    means, _ = simulate_means(300, 4, 1)
    coordinates = Coordinates.estimate(means)
    inverse = np.linalg.inv(coordinates.basis)  # all four coordinates remain
    prior = inverse.T @ np.diag(coordinates.variances) @ inverse
    center = coordinates.center @ inverse
    centers, variances = coordinates.posterior(means.values, means.counts)
    for group in (0, 7, 123):
        gain = prior @ np.linalg.inv(prior + within(means) / means.counts[group])
        expected = gain @ (means.values[group] - center)
        np.testing.assert_allclose(centers[group], expected @ coordinates.basis, rtol=1e-8)
        covariance = coordinates.basis.T @ (prior - gain @ prior) @ coordinates.basis
        np.testing.assert_allclose(np.diag(variances[group]), covariance, atol=1e-8)


def test_shrinkage_vanishes_for_large_groups():
    """The posterior of an embedding of 10^9 rows is its mean, and of one row next to the center."""
    means, _ = simulate_means(300, 3, 2)
    coordinates = Coordinates.estimate(means)
    counts = np.full(300, 10**9)
    centers, variances = coordinates.posterior(means.values, counts)
    np.testing.assert_allclose(centers, coordinates.empirical(means.values), rtol=1e-6)
    assert variances.max() < 1e-8
    single, broad = coordinates.posterior(means.values, np.ones(300))
    assert (np.abs(single) < np.abs(centers)).all()
    np.testing.assert_allclose(broad, np.tile(1.0 / (1.0 + 1.0 / coordinates.variances), (300, 1)))


def test_linear_regression_matches_joint_normal():
    """Slopes and predictions by conditioning in full."""
    rng = np.random.default_rng(3)
    center, variance = rng.normal(size=(30, 2)), rng.uniform(0.0, 0.5, (30, 2))
    y = center @ [0.7, -0.4] + 0.5 * rng.normal(size=30)
    fit = fit_linear(center, variance, y)
    prior = np.diag([1e4, fit.prior_variance, fit.prior_variance])
    signal = fit.design @ prior @ fit.design.T
    total = signal + np.diag(fit.variances)
    expected = prior @ fit.design.T @ np.linalg.solve(total, y)
    np.testing.assert_allclose(fit.coefficients, expected, rtol=1e-6)
    test = rng.normal(size=(1, 2))
    mean, parts = fit.predict(test, np.array([[0.2, 0.3]]))
    cross = np.array([1.0, *test[0]]) @ prior @ fit.design.T
    assert mean[0] == pytest.approx(cross @ np.linalg.solve(total, y), rel=1e-6)
    prior_variance = np.array([1.0, *test[0]]) @ prior @ np.array([1.0, *test[0]])
    expected = prior_variance - cross @ np.linalg.solve(total, cross)
    assert parts[1, 0] == pytest.approx(expected, rel=1e-4)
    assert parts[2, 0] == fit.noise_variance
    squares = fit.coefficients[1:] ** 2 + np.diag(fit.covariance)[1:]
    np.testing.assert_allclose(fit.variances, fit.noise_variance + variance @ squares, rtol=1e-3)


def test_variances_maximize_marginal_likelihood():
    """Without uncertain embeddings: no noise and scale nearby are more probable (by scipy)."""
    rng = np.random.default_rng(4)
    center = rng.normal(size=(40, 3))
    y = center @ [1.0, 0.0, -0.5] + 0.3 * rng.normal(size=40)
    fit = fit_linear(center, np.zeros_like(center), y)
    usual = -np.log(np.sum(np.mean(center**2, axis=0)))

    def log(noise, scale):
        prior = np.diag([1e4, scale, scale, scale])
        covariance = fit.design @ prior @ fit.design.T + noise * np.eye(40)
        wide = np.log(noise) ** 2 + (np.log(scale) - usual) ** 2
        return multivariate_normal(np.zeros(40), covariance).logpdf(y) - wide / 18.0

    best = log(fit.noise_variance, fit.prior_variance)
    for noise, scale in ((1.1, 1.0), (0.9, 1.0), (1.0, 1.2), (1.0, 0.8)):
        assert best > log(noise * fit.noise_variance, scale * fit.prior_variance)


def test_noise_and_scale_are_integrated_out():
    """Predictions of twelve groups against a fine grid of both, to a tenth of the deviation."""
    rng = np.random.default_rng(5)
    center, test = rng.normal(size=(12, 2)), rng.normal(size=(6, 2))
    y = center @ [0.8, -0.5] + 0.7 * rng.normal(size=12)
    y = (y - y.mean()) / y.std()
    zeros = np.zeros_like(center)
    average = average_fits(fit_linear(center, zeros, y), zeros, y)
    assert average.weights.sum() == pytest.approx(1.0)
    mean, parts = average.predict(test, np.zeros((6, 2)))
    usual = -np.log(np.sum(np.mean(center**2, axis=0)))
    design, new = (np.column_stack([np.ones(len(rows)), rows]) for rows in (center, test))
    weights, means, squares = [], [], []
    for noise in np.exp(np.linspace(-6.0, 4.0, 60)):
        for scale in np.exp(usual + np.linspace(-9.0, 9.0, 60)):
            prior = np.diag([1e4, scale, scale])
            total = design @ prior @ design.T + noise * np.eye(12)
            wide = np.log(noise) ** 2 + (np.log(scale) - usual) ** 2
            weights.append(
                multivariate_normal(np.zeros(12), total).logpdf(y) - wide / (2 * PRIOR_STD**2)
            )
            cross = new @ prior @ design.T
            means.append(cross @ np.linalg.solve(total, y))
            variance = new @ prior @ new.T - cross @ np.linalg.solve(total, cross.T)
            squares.append(np.diag(variance) + noise + means[-1] ** 2)
    posterior = np.exp(np.array(weights) - max(weights))
    posterior /= posterior.sum()
    exact = posterior @ np.array(means)
    deviation = np.sqrt(posterior @ np.array(squares) - exact**2)
    assert np.abs((mean - exact) / deviation).max() < 0.1
    np.testing.assert_allclose(np.sqrt(parts.sum(axis=0)), deviation, rtol=0.1)


@pytest.mark.slow
def test_shrinkage_reduces_error_and_intervals_cover(fitted):
    """Of 150 groups, most of them small, errors are smaller, and 90 % intervals hold y.

    600 new groups of each size (seeds 2 to 5) within an exact 99.9 % band, widened by .03 for the
    error of the embeddings' covariance from 150 groups.
    """
    plain = DistributionRegressor(shrinkage=False).fit(X, Y)
    low, high = binom.interval(0.999, 600, 0.9)
    for seed, size in enumerate((3, 10, 60, 400), start=2):
        groups, y = gammas(np.full(600, size), seed)
        interval = fitted.predict_interval(groups)
        covered = int(np.sum((interval[:, 0] <= y) & (y <= interval[:, 1])))
        assert low - 18 <= covered <= high + 18
        errors = [np.mean((regressor.predict(groups) - y) ** 2) for regressor in (fitted, plain)]
        assert errors[0] < 1.03 * errors[1]
    assert errors[0] < 0.6 * errors[1]  # of large groups, where small ones had misled


@pytest.mark.slow
def test_invariant_to_order_and_units(fitted):
    """Groups and rows in another order, columns and y in other units."""
    order = np.random.default_rng(0).permutation(len(X))
    shuffled = [X[index][::-1] for index in order]
    other = DistributionRegressor().fit(shuffled, Y[order])
    np.testing.assert_allclose(other.predict(X), fitted.predict(X), rtol=1e-4)
    unit = np.array([1e3, 1e-3, 8.0])
    scaled = DistributionRegressor().fit([rows * unit - 3.0 for rows in X], 100.0 - 5.0 * Y)
    predicted = scaled.predict([rows * unit - 3.0 for rows in X])
    np.testing.assert_allclose(predicted, 100.0 - 5.0 * fitted.predict(X), rtol=1e-4)


@pytest.mark.slow
def test_formats_of_groups(fitted):
    """A sequence, rows with labels, a data frame with a column of labels; y by label or row."""
    rows = pd.DataFrame(np.concatenate(X), columns=["a", "b", "c"])
    labels = np.repeat([f"g{index:03d}" for index in range(len(X))], SIZES)
    mixed = np.random.default_rng(0).permutation(len(rows))
    frame = rows.assign(site=labels).iloc[mixed]
    by_label = pd.Series(Y, [f"g{index:03d}" for index in range(len(X))])
    expected = fitted.predict(X)
    for X_, y, groups in (
        (rows.to_numpy(), Y, labels),
        (frame, by_label, "site"),
        (frame, dict(by_label), "site"),
        (frame, by_label[frame["site"]].to_numpy(), "site"),
    ):
        regressor = DistributionRegressor().fit(X_, y, groups)
        np.testing.assert_allclose(regressor.predict(X), expected, rtol=1e-4)
    assert regressor.columns_ == ("a", "b", "c")
    predicted = fitted.predict(frame[["a", "b", "c"]], groups=frame["site"])
    assert np.sort(predicted) == pytest.approx(np.sort(expected))


@pytest.mark.slow
def test_columns_of_data_frames_are_matched_by_name(fitted):
    """Columns of groups and of new rows may have any order; other names are refused."""
    frames = [pd.DataFrame(frame, columns=["a", "b", "c"]) for frame in X]
    regressor = DistributionRegressor().fit(
        [frames[0], *(frame[["c", "a", "b"]] for frame in frames[1:])], Y
    )
    np.testing.assert_allclose(regressor.predict(X), fitted.predict(X), rtol=1e-6)
    reordered = [frame[["b", "c", "a"]] for frame in frames]
    np.testing.assert_allclose(regressor.predict(reordered), regressor.predict(frames), rtol=1e-12)
    with pytest.raises(InputError, match="pass the columns 'a', 'b', 'c'"):
        regressor.predict([frame.rename(columns={"a": "z"}) for frame in frames])
    by_label = {f"g{index}": frame for index, frame in enumerate(frames)}
    mapped = DistributionRegressor().fit(by_label, {f"g{index}": y for index, y in enumerate(Y)})
    np.testing.assert_allclose(mapped.predict(by_label), fitted.predict(X), rtol=1e-6)


def test_summary_is_cross_validated(fitted):
    """The summary is cross-validated: it is worse than on the groups of the fit."""
    summary = fitted.summary_
    training_r2 = np.corrcoef(fitted.predict(X), Y)[0, 1] ** 2
    assert 0.0 < summary.r2 < training_r2
    assert summary.r2 > summary.ridge_r2
    assert 0.82 < summary.coverage < 0.97
    assert f"R^2 {summary.r2:.3f} (" in str(fitted)
    record = summary.to_dict()
    assert record["groups"] == 150
    assert sum(record["variance_components"].values()) == pytest.approx(
        sum(summary.variance_components)
    )
    assert fitted.score(X, Y) == pytest.approx(1 - np.mean((fitted.predict(X) - Y) ** 2) / Y.var())


def test_plot_shows_every_group(fitted):
    (ax, bar) = fitted.plot().axes
    assert 150 in [len(collection.get_offsets()) for collection in ax.collections]
    assert bar.get_ylabel() == "rows of the group"


@pytest.mark.slow
def test_custom_kernel():
    """Only that kernel, in the units of the rows."""
    regressor = DistributionRegressor(SquaredExponential(0.7), landmarks=20).fit(X, Y)
    assert regressor.features_.kernels == (SquaredExponential(0.7),)
    assert not regressor.features_.linear
    assert regressor.features_.transform(X[0]).shape == (len(X[0]), 20)


@pytest.mark.slow
def test_scikit_learn_interface():
    """Cloned, cross-validated and searched."""
    from sklearn.model_selection import GridSearchCV, cross_val_score

    regressor = DistributionRegressor(landmarks=15, seed=3)
    twin = sklearn.base.clone(regressor)
    assert twin.get_params() == regressor.get_params()
    assert repr(twin) == "DistributionRegressor(landmarks=15, seed=3)"
    scores = cross_val_score(regressor, X, Y, cv=3)
    assert scores.shape == (3,)
    assert scores.mean() > 0.1
    search = GridSearchCV(regressor, {"shrinkage": [True, False]}, cv=3).fit(X, Y)
    assert search.best_params_["shrinkage"]
    assert sklearn.base.is_regressor(regressor)
    with pytest.raises(ValueError, match="depth"):
        regressor.set_params(depth=3)


@pytest.mark.slow
def test_nuts_agrees_with_empirical_method():
    """Means within a fifth of a deviation on average (seeds 8, 1), and chains that have mixed.

    They differ in the uncertainty of noise and scale, which is small with 250 groups.
    """
    arviz_stats = pytest.importorskip("arviz_stats")
    training, y = gammas(np.random.default_rng(0).choice([20, 200], 250), 8)
    drawn, empirical = (
        DistributionRegressor(method=method, num_chains=2, seed=1).fit(training, y)
        for method in ("nuts", "empirical")
    )
    groups, _ = gammas(np.full(100, 50), 7)
    mean, deviation = drawn.predict(groups, return_std=True)
    usual, expected = empirical.predict(groups, return_std=True)
    assert np.abs((mean - usual) / expected).mean() < 0.2
    np.testing.assert_allclose(deviation, expected, rtol=0.2)
    interval = drawn.predict_interval(groups)
    np.testing.assert_allclose(np.diff(interval, axis=1)[:, 0], 2 * 1.645 * deviation, rtol=0.2)
    rhat = arviz_stats.rhat(drawn.posterior_["posterior"].to_dataset()[["scale", "intercept"]])
    assert float(rhat["scale"]) < 1.05
    assert not bool(drawn.posterior_["sample_stats"]["diverging"].mean() > 0.02)


def test_model_density_matches_normal_densities():
    """The log density of y given slopes, noise and scale, against normal densities."""
    from bke.models import distribution_regression_model
    from numpyro.infer.util import log_density
    from scipy.stats import halfnorm, norm

    center, variance = np.array([[1.0, 0.5], [-0.3, 2.0]]), np.array([[0.1, 0.2], [0.0, 0.4]])
    y = np.array([0.3, -0.8])
    sites = {"intercept": 0.2, "noise": 0.6, "scale": 0.9, "standard": np.array([0.5, -1.5])}
    coefficients = 0.9 * sites["standard"]
    expected = norm.logpdf(0.2) + halfnorm.logpdf(0.6) + halfnorm.logpdf(0.9, scale=2.0)
    expected += norm.logpdf(sites["standard"]).sum()
    deviation = np.sqrt(0.36 + variance @ coefficients**2)
    expected += norm.logpdf(y, 0.2 + center @ coefficients, deviation).sum()
    with jax.enable_x64(True):
        value, _ = log_density(distribution_regression_model, (center, variance, y, 2.0), {}, sites)
    assert float(value) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(
    ("data", "y", "groups", "message"),
    [
        (np.zeros((9, 2)), np.zeros(9), None, "sequence of groups"),
        ([], [], None, "no groups"),
        ([np.ones((3, 2)), np.ones((3, 3))] * 4, np.arange(8.0), None, "X.1. has 3 columns"),
        ([np.ones((2, 2)), np.empty((0, 2))] * 4, np.arange(8.0), None, "X.1. has shape"),
        ([*X[:8], [[1.0, np.nan, 2.0]]], np.arange(9.0), None, "X.8. has a missing"),
        (X[:8], np.arange(7.0), None, "y has shape"),
        (X[:8], np.ones(8), None, "the same for all"),
        (X[:7], np.arange(7.0), None, "at least 8 groups"),
        ([rows[:1] for rows in X], Y, None, "all groups have one row"),
        (np.ones((4, 2)), [1.0, 2.0], ["a", "a", "b"], "groups has shape"),
        (np.ones((4, 2)), [1.0, 2.0, 1.0, 2.0], ["a", "a", "b", "b"], "differs between rows"),
        (np.ones((4, 2)), {"a": 1.0}, ["a", "a", "b", "b"], "no value for group 'b'"),
        (X[:8], [*np.arange(7.0), np.inf], None, "y of group 7"),
    ],
)
def test_invalid_input(data, y, groups, message):
    with pytest.raises(InputError, match=message):
        DistributionRegressor().fit(data, y, groups)


def test_invalid_arguments_and_columns(fitted):
    with pytest.raises(sklearn.exceptions.NotFittedError, match="not fitted"):
        DistributionRegressor().predict(X)
    with pytest.raises(InputError, match="rows have 2 columns, and those of fit 3"):
        fitted.predict([rows[:, :2] for rows in X])
    with pytest.raises(InputError, match="method must be one of"):
        DistributionRegressor(method="mcmc").fit(X, Y)
    with pytest.raises(InputError, match="level"):
        fitted.predict_interval(X, level=90)
    same = np.random.default_rng(0).normal(size=(40, 30, 2))
    with pytest.raises(InputError, match="no more than samples of one"):
        DistributionRegressor(SquaredExponential(1.0), landmarks=1).fit(
            same - same.mean(axis=1, keepdims=True) * 1.0, np.arange(40.0)
        )
