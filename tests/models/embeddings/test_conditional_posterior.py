"""Posterior of conditional expectations, against dense normal densities and scikit-learn."""

from __future__ import annotations

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from bke.inference import learn_conditional_posterior
from bke.models import (
    Matern,
    SquaredExponential,
    choose_landmarks,
    conditional_model,
    conditional_posterior,
    log_conditional_evidence,
    log_marginal_likelihood,
)
from bke.models.embeddings.conditional_posterior import JITTER
from numpyro.infer import MCMC, NUTS
from numpyro.infer.util import log_density
from scipy import stats
from scipy.special import stdtr
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

RNG = np.random.default_rng(4)
X = RNG.normal(size=(12, 2)) * [1.0, 3.0]
Y = np.column_stack([X[:, 0] + 0.3 * RNG.normal(size=12), RNG.gamma(2.0, size=12)])
LANDMARKS = np.array([[-1.0, 0.5], [0.3, 1.0], [1.2, 2.5], [0.1, 4.0]])
KERNEL_X = Matern(1.5, np.array([1.0, 4.0]))
KERNEL_Y = SquaredExponential(np.array([0.8, 2.0]))


def contrasts(n):
    """Orthonormal vectors (n - 1, n) that are orthogonal to that of ones."""
    return np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, 1:]]))[0][:, 1:].T


def maximal_log_density(V, R, G):
    """Log density of contrasts of G at the scale that maximizes it, by a dense matrix."""
    H = contrasts(len(G))
    covariance, vector = np.kron(H @ V @ H.T, R), (H @ G).ravel()
    scale = vector @ np.linalg.solve(covariance, vector) / vector.size
    return stats.multivariate_normal(np.zeros(vector.size), scale * covariance).logpdf(vector)


def test_evidence_is_the_ratio_of_two_matrix_normal_densities():
    value = log_conditional_evidence(X, Y, LANDMARKS, KERNEL_X, KERNEL_Y, 0.4)
    G, R = KERNEL_Y(Y, LANDMARKS), KERNEL_Y.smoothed("unit", 2)(LANDMARKS)
    R = R + JITTER * np.diag(R).mean() * np.eye(4)
    V = KERNEL_X(X) + 0.4 * np.eye(12)
    expected = maximal_log_density(V, R, G) - maximal_log_density(np.eye(12), R, G)
    assert value == pytest.approx(2 / 4 * expected, rel=1e-9)
    # The scale integrated out with the prior 1 / s: two multivariate t densities.
    H, freedom = contrasts(12), 11 * 4
    logs = []
    for matrix in (V, np.eye(12)):
        covariance, vector = np.kron(H @ matrix @ H.T, R), (H @ G).ravel()
        quadratic = vector @ np.linalg.solve(covariance, vector)
        logs.append(-0.5 * (np.linalg.slogdet(covariance)[1] + freedom * np.log(quadratic)))
    assert value == pytest.approx(2 / 4 * (logs[0] - logs[1]), rel=1e-9)
    wide = log_conditional_evidence(X, Y, LANDMARKS, KERNEL_X, KERNEL_Y, 1e9)
    assert wide == pytest.approx(0.0, abs=1e-6)


def test_evidence_with_a_wide_kernel_of_y_is_that_of_gaussian_process_regression():
    y, V = Y[:, 0], KERNEL_X(X) + 0.4 * np.eye(12)
    value = log_conditional_evidence(X, y, [-1.0, 0.2, 1.5], KERNEL_X, SquaredExponential(1e3), 0.4)
    expected = maximal_log_density(V, np.eye(1), y[:, None])
    expected -= maximal_log_density(np.eye(12), np.eye(1), y[:, None])
    assert value == pytest.approx(expected, rel=1e-4)


def test_gradient_of_the_evidence():
    def evidence(theta):
        kernels = SquaredExponential(theta[:2]), SquaredExponential(theta[2])
        return log_conditional_evidence(X, Y, LANDMARKS, *kernels, theta[3])

    theta = np.array([1.0, 3.0, 1.3, 0.2])
    with jax.enable_x64(True):
        gradient = np.asarray(jax.grad(evidence)(theta))
    steps = 1e-5 * np.eye(4)
    numerical = [(evidence(theta + step) - evidence(theta - step)) / 2e-5 for step in steps]
    assert gradient == pytest.approx(np.array(numerical), rel=1e-5)


@pytest.mark.parametrize("kernel", [SquaredExponential(np.array([1.0, 4.0])), KERNEL_X])
def test_posterior_is_universal_kriging(kernel):
    """Weights that sum to one, by a Lagrange multiplier, and the scale of the contrasts of f."""
    at = RNG.normal(size=(5, 2)) * [2.0, 4.0]
    posterior = conditional_posterior(X, Y, kernel, 0.3)
    V, ones, values = kernel(X) + 0.3 * np.eye(12), np.ones((12, 1)), Y[:, 1] ** 2
    right = np.column_stack([kernel(at, X), np.ones(5)])
    weights = np.linalg.solve(np.block([[V, ones], [ones.T, np.zeros((1, 1))]]), right.T).T
    mean = weights[:, :12] @ values
    H = contrasts(12)
    scale = H @ values @ np.linalg.solve(H @ V @ H.T, H @ values) / 11
    half = stats.t(11).ppf(0.85) * np.sqrt(scale * (1.0 - np.sum(weights * right, axis=1)))
    assert posterior.expectation(at, lambda y: y[:, 1] ** 2) == pytest.approx(mean)
    interval = posterior.interval(at, lambda y: y[:, 1] ** 2, level=0.7)
    assert interval == pytest.approx(np.column_stack([mean - half, mean + half]))


def test_posterior_is_that_of_scikit_learn():
    kernel = ConstantKernel(1e5, "fixed") + RBF([1.0, 4.0], "fixed") + WhiteKernel(0.3, "fixed")
    regression = GaussianProcessRegressor(kernel, optimizer=None).fit(X, Y[:, 0])
    at = X[:4] + 0.5
    mean, deviation = regression.predict(at, return_std=True)
    posterior = conditional_posterior(X, Y, SquaredExponential(np.array([1.0, 4.0])), 0.3)
    values = posterior.expectation(at)
    assert values.shape == (4, 2)
    assert values[:, 0] == pytest.approx(mean, rel=1e-3, abs=1e-4)
    interval = posterior.interval(at, level=0.5)
    half = 0.5 * np.diff(interval[:, 0])[:, 0] / stats.t(11).ppf(0.75)
    ratio = half / np.sqrt(deviation**2 - 0.3)
    assert ratio == pytest.approx(np.full(4, ratio[0]), rel=1e-3)


def test_intervals_of_a_mixture_leave_out_equal_tails():
    kernels = [SquaredExponential(0.5), SquaredExponential(3.0)]
    weights, regularizations, at = np.array([0.3, 0.7]), [0.1, 1.0], np.array([[0.2, 1.0]])
    posterior = conditional_posterior(X, Y[:, 0], kernels, regularizations, weights=3.0 * weights)
    single = [
        conditional_posterior(X, Y[:, 0], kernel, value)
        for kernel, value in zip(kernels, regularizations, strict=True)
    ]
    locations = np.array([part.expectation(at)[0, 0] for part in single])
    assert posterior.expectation(at)[0, 0] == pytest.approx(weights @ locations)
    quantile = stats.t(11).ppf(0.9)
    scales = [part.interval(at, level=0.8)[0, 0] @ [-0.5, 0.5] / quantile for part in single]
    for end, probability in zip(posterior.interval(at, level=0.8)[0, 0], (0.1, 0.9), strict=True):
        below = weights @ stdtr(11, (end - locations) / scales)
        assert below == pytest.approx(probability, abs=1e-9)


def test_a_constant_is_its_own_expectation_and_the_mean_is_that_far_from_the_sample():
    posterior = conditional_posterior(X, Y, SquaredExponential(1.0), 0.2)
    interval = posterior.interval(X[0], lambda y: np.full(len(y), 3.0))
    assert interval == pytest.approx(np.array([[3.0, 3.0]]))
    far = posterior.expectation([[1e3, 0.0], [0.0, -1e3]])
    assert far[0] == pytest.approx(far[1])
    assert np.ptp(posterior.interval([[1e3, 0.0]])) > 0.5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((X, Y[:9], KERNEL_X, 0.1), "12 rows but Y has 9"),
        ((X, np.where(Y > 3.0, np.nan, Y), KERNEL_X, 0.1), "not finite in row"),
        ((np.column_stack([X, np.ones(12)]), Y, KERNEL_X, 0.1), "column 3 of X has the same"),
        ((X, np.zeros(12), KERNEL_X, 0.1), "column 1 of Y has the same"),
        ((X, Y, KERNEL_X, 0.0), "regularization must be positive"),
        ((X, Y, [KERNEL_X], [0.1, 0.2]), "1 kernels, with 2 values"),
        ((X, Y, "median", 0.1), "kernel_x"),
    ],
)
def test_invalid_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        conditional_posterior(*arguments)


def test_invalid_functions_levels_and_weights():
    posterior = conditional_posterior(X, Y, KERNEL_X, 0.1)
    with pytest.raises(ValueError, match="not finite at row 1"):
        posterior.expectation(X, lambda y: np.full(len(y), np.inf))
    with pytest.raises(ValueError, match="level"):
        posterior.interval(X, level=80)
    with pytest.raises(ValueError, match="weights"):
        conditional_posterior(X, Y, KERNEL_X, 0.1, weights=[-1.0])
    with pytest.raises(ValueError, match="Y has 2 columns but landmarks has 1"):
        log_conditional_evidence(X, Y, [0.0, 1.0], KERNEL_X, KERNEL_Y, 0.1)


def test_density_of_the_model_is_that_of_its_parts():
    sites = {"lengthscale": 1.3, "x_lengthscale": np.array([0.7, 2.0]), "regularization": 0.2}
    prior = dist.Gamma(2.0, 1.0).expand([2])
    with jax.enable_x64(True):
        value, _ = log_density(conditional_model, (X, Y, LANDMARKS), {"prior_x": prior}, sites)
        expected = dist.Gamma(1.0, 1.0).log_prob(1.3) + prior.log_prob(sites["x_lengthscale"]).sum()
        expected = float(expected + dist.LogUniform(1e-4, 1e2).log_prob(0.2))
    kernel_y = SquaredExponential(1.3)
    expected += log_marginal_likelihood(Y, kernel_y, noise_variance=0.1)
    kernel_x = SquaredExponential(sites["x_lengthscale"])
    expected += log_conditional_evidence(X, Y, LANDMARKS, kernel_x, kernel_y, 0.2)
    assert value == pytest.approx(expected, rel=1e-9)


def sine(noise, n=60):
    """x uniform, and y sin(2 x) with noise."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-3.0, 3.0, n)
    return x, np.sin(2.0 * x) + noise * rng.normal(size=n)


@pytest.mark.slow
def test_nuts_on_the_model():
    """One short chain with a fixed seed: lambda within the range that noise of 0.3 allows."""
    x, y = sine(0.3, 40)
    landmarks = choose_landmarks(y, 8)
    with jax.enable_x64(True):
        mcmc = MCMC(NUTS(conditional_model), num_warmup=50, num_samples=50, progress_bar=False)
        mcmc.run(jax.random.key(0), x, y, landmarks)
        draws = mcmc.get_samples()
    assert {"lengthscale", "x_lengthscale", "regularization"} <= set(draws)
    assert 0.03 < np.median(draws["regularization"]) < 10.0
    kernels = [SquaredExponential(float(value)) for value in draws["x_lengthscale"]]
    posterior = conditional_posterior(x, y, kernels, draws["regularization"])
    lower, upper = posterior.interval([0.8], level=0.99)[0, 0]
    assert lower < np.sin(1.6) < upper


def test_regularization_grows_with_noise():
    """Fixed seed. For noise of 0.1, 0.3 and 1 posterior means of log lambda differ by over 1."""
    logs = []
    for noise in (0.1, 0.3, 1.0):
        posterior = learn_conditional_posterior(*sine(noise), kernel_y=SquaredExponential(1.0))
        logs.append(posterior.weights @ np.log(posterior.regularizations))
    assert np.all(np.diff(logs) > 1.0)


def test_lengthscale_of_x_with_a_wide_kernel_of_y_is_that_of_scikit_learn():
    x, y = sine(0.3)
    kernel = ConstantKernel() * RBF() + WhiteKernel()
    regression = GaussianProcessRegressor(kernel, normalize_y=True).fit(x[:, None], y)
    posterior = learn_conditional_posterior(x, y, kernel_y=SquaredExponential(100.0))
    logs = [np.log(float(kernel.lengthscale)) for kernel in posterior.kernels]
    fitted = regression.kernel_.k1.k2.length_scale
    assert posterior.weights @ logs == pytest.approx(np.log(fitted), abs=0.25)
