"""The Bayesian two-sample test against its formulas, evaluated slowly, and against quadrature."""

import math

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from bke.inference import InputError, bayesian_two_sample_test
from bke.inference.testing.bayesian import JITTER, HypothesisLikelihoods
from scipy import integrate, stats

RNG = np.random.default_rng(3)
X, Y = RNG.normal(size=(30, 2)), RNG.normal(0.8, 1.5, size=(25, 2))
LANDMARKS = RNG.normal(size=(6, 2))


def likelihoods(*arguments):
    """Return the log likelihoods in double precision."""
    model = HypothesisLikelihoods(*arguments)

    def at(lengthscale):
        with jax.enable_x64(True):
            return model(lengthscale)

    return at


def features(row, lengthscale, landmarks=LANDMARKS):
    return np.exp(-np.sum((row - landmarks) ** 2, axis=1) / (2 * lengthscale**2))


def log_volume(function, row, step=1e-5):
    """Half the log determinant of J'J, J by central differences."""
    columns = [
        (function(row + offset) - function(row - offset)) / (2 * step)
        for offset in step * np.eye(len(row))
    ]
    return 0.5 * np.linalg.slogdet(np.array(columns) @ np.array(columns).T)[1]


def log_flat_mean(values, noise):
    """Log of the integral over the mean of prod_i N(values_i; mean, S + noise I), numerator only.

    By the ratio of the density of all rows at the best mean to that of the mean given the rows.
    """
    n, s = values.shape
    covariance = np.cov(values.T, bias=True) + noise * np.eye(s)
    mean = values.mean(axis=0)
    density = stats.multivariate_normal(mean, covariance).logpdf(values).sum()
    return density - stats.multivariate_normal(mean, covariance / n).logpdf(mean)


@pytest.mark.parametrize("scale", [1.0, 0.04])
def test_independent_samples_have_the_likelihood_of_the_docstring(scale):
    model = likelihoods((X, Y), False, LANDMARKS, 0.1, scale)
    expected = []
    for lengthscale in (0.7, 1.3):
        first = np.array([features(row, lengthscale) for row in X])
        second = np.array([features(row, lengthscale) for row in Y])
        shared = log_flat_mean(first, 0.1) + log_flat_mean(second, 0.1)
        shared += sum(
            log_volume(lambda x, at=lengthscale: features(x, at), row) for row in [*X, *Y]
        )
        difference = first.mean(axis=0) - second.mean(axis=0)
        covariance = np.cov(first.T) / 30 + np.cov(second.T) / 25 + JITTER * np.eye(6)
        squared = np.sum((LANDMARKS[:, None] - LANDMARKS) ** 2, axis=2)
        prior = scale * np.exp(-squared / (4 * lengthscale**2))
        expected.append(
            [
                shared + stats.multivariate_normal(cov=matrix).logpdf(difference)
                for matrix in (covariance, covariance + prior)
            ]
        )
    values = [model(0.7), model(1.3)]
    # One constant is left out of all densities.
    np.testing.assert_allclose(
        np.subtract(values, values[0][0]), np.subtract(expected, expected[0][0]), rtol=1e-6
    )


def test_pairs_have_the_likelihood_of_the_paper():
    """Features k(x, z) - k(y, z), whose volume element is that of the 4 coordinates of a pair."""
    pairs = np.column_stack([X[:25], Y])
    model = likelihoods((X[:25], Y), True, LANDMARKS, 0.1, 1.0)
    expected = []
    for lengthscale in (0.7, 1.3):

        def feature(pair, at=lengthscale):
            return features(pair[:2], at) - features(pair[2:], at)

        values = np.array([feature(pair) for pair in pairs])
        shared = log_flat_mean(values, 0.1) + sum(log_volume(feature, pair) for pair in pairs)
        covariance = np.cov(values.T) / 25 + JITTER * np.eye(6)
        squared = np.sum((LANDMARKS[:, None] - LANDMARKS) ** 2, axis=2)
        prior = np.exp(-squared / (4 * lengthscale**2))
        expected.append(
            [
                shared + stats.multivariate_normal(cov=matrix).logpdf(values.mean(axis=0))
                for matrix in (covariance, covariance + prior)
            ]
        )
    values = [model(0.7), model(1.3)]
    np.testing.assert_allclose(
        np.subtract(values, values[0][0]), np.subtract(expected, expected[0][0]), rtol=1e-6
    )


def test_the_bayes_factor_integrates_the_lengthscale():
    """Against SciPy's quadrature of the density in the lengthscale itself, not its logarithm."""
    from bke.inference.data.units import choose_scale
    from bke.inference.permutation.samples import TwoSamples
    from bke.inference.statistics.landmark_bayes_factor import draw_landmarks

    result = bayesian_two_sample_test(X, Y, difference_variance=0.1)
    pair = TwoSamples.checked(X, Y)
    scale = choose_scale(pair.pooled, "column")
    landmarks = draw_landmarks(pair.sorted_rows / scale, 6, 0)
    model = likelihoods((X / scale, Y / scale), False, landmarks, 0.1, 0.1)
    prior = stats.gamma(2, scale=math.sqrt(2) / 2)
    largest = max(model(t)[0] + prior.logpdf(t) for t in np.geomspace(0.1, 20, 200))
    equal, differ = (
        integrate.quad(
            lambda t, m=m: math.exp(model(t)[m] + prior.logpdf(t) - largest),
            0.05,
            30.0,
            limit=200,
            points=[0.5, 1.0, 2.0, 4.0, 8.0],
        )[0]
        for m in range(2)
    )
    assert result.log_bayes_factor == pytest.approx(math.log(differ / equal), abs=3e-3)
    assert result.n_landmarks == 6
    at = int(np.argmin(np.abs(result.profile[:, 0] - 2.0)))
    lengthscale, log_bayes_factor = result.profile[at]
    assert log_bayes_factor == pytest.approx(np.diff(model(lengthscale))[0], abs=1e-6)


def test_a_narrow_prior_gives_the_bayes_factor_at_its_lengthscale():
    prior = dist.LogNormal(math.log(1.5), 1e-4)
    result = bayesian_two_sample_test(X, Y, prior=prior)
    expected = np.interp(1.5, *bayesian_two_sample_test(X, Y).profile.T)
    assert result.log_bayes_factor == pytest.approx(expected, abs=0.02)
    assert result.lengthscale == pytest.approx(1.5, rel=1e-3)


def test_order_names_and_units_do_not_matter():
    result = bayesian_two_sample_test(X, Y)
    for other in (
        bayesian_two_sample_test(Y, X),
        bayesian_two_sample_test(X[::-1], np.roll(Y, 3, axis=0)),
        bayesian_two_sample_test(1000.0 * X, 1000.0 * Y),
    ):
        assert other.log_bayes_factor == pytest.approx(result.log_bayes_factor, abs=2e-3)


def test_the_probability_of_a_large_difference_is_high_and_of_none_low():
    """Shifts of 2 standard deviations of 100 rows, the paper's setting, and of 0."""
    first, second = RNG.normal(size=(2, 100, 2))
    assert bayesian_two_sample_test(first, second).posterior_probability < 0.01
    shifted = bayesian_two_sample_test(first, second + np.array([2.0, 0.0]))
    assert shifted.posterior_probability > 0.99
    assert "posterior probability 1 (" in str(shifted)
    assert bayesian_two_sample_test(first, second, paired=True).posterior_probability < 0.01
    paired = bayesian_two_sample_test(first, second + np.array([2.0, 0.0]), paired=True)
    assert paired.posterior_probability > 0.99
    assert shifted.to_dict()["posterior_probability"] == shifted.posterior_probability


def test_prior_odds_multiply_the_bayes_factor():
    even, rare = (
        bayesian_two_sample_test(X, Y, prior_probability=probability) for probability in (0.5, 0.1)
    )
    odds = [
        result.posterior_probability / (1 - result.posterior_probability) for result in (even, rare)
    ]
    assert odds[1] == pytest.approx(odds[0] / 9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"P": X[:5], "Q": Y[:5]}, "needs 12 rows in each sample, and has 5"),
        ({"P": X[:2], "Q": np.tile(Y, (3, 1))}, "needs 12 rows in each sample, and has 2"),
        ({"P": np.c_[X, X @ [1.0, 2.0]], "Q": np.c_[Y, Y @ [1.0, 2.0]]}, "linearly dependent"),
        ({"paired": True}, "pairs need samples of one size"),
        ({"P": X, "Q": X, "paired": True}, "row 1 of P equals that of Q"),
        ({"n_landmarks": 2}, "n_landmarks must be above 2"),
        ({"prior": 1.0}, "NumPyro distribution"),
        ({"prior": dist.Normal(0.0, 1.0).expand((2,))}, "of one number"),
        ({"prior_probability": 1.0}, "between 0 and 1"),
        ({"difference_variance": 0.0}, "positive number"),
    ],
)
def test_invalid_input_raises_an_error(change, message):
    with pytest.raises(InputError, match=message):
        bayesian_two_sample_test(**({"P": X, "Q": Y} | change))
