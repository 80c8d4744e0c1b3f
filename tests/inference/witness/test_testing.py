"""Witnesses of tests: identities, coverage of the bands, bad input."""

import jax
import numpy as np
import pytest
from bke.inference import (
    InputError,
    credible_band,
    independence_test,
    plot_witness,
    sample_dependence_witness,
    sample_test_witness,
    two_sample_test,
)
from bke.models import (
    Distance,
    SquaredExponential,
    dependence_posterior,
    dependence_witness,
    embedding_posterior,
    gaussian_inner_product,
    hsic,
    squared_mmd,
)

RNG = np.random.default_rng(0)
P, Q = RNG.normal(size=(80, 1)), RNG.normal(1.0, 1.0, size=(60, 1))
X = RNG.normal(size=(70, 1))
Y = 0.8 * X + 0.5 * RNG.normal(size=(70, 1))
KERNELS = SquaredExponential(0.7), SquaredExponential(1.1)
QUIET = {"progress": False, "n_resamples": 39}


def test_the_dependence_witness_is_joint_less_product_and_averages_to_hsic():
    """Every term by its definition, loops over rows; x and y of different widths."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(6, 2)), rng.normal(size=6)
    at = rng.normal(size=(3, 2)), rng.normal(size=3)
    k, other = KERNELS
    with jax.enable_x64(True):
        values = np.asarray(dependence_witness(x, y, k, other, at))
        for index in range(3):
            a = np.asarray(k(x, at[0][index : index + 1]))[:, 0]
            b = np.asarray(other(y, at[1][index : index + 1]))[:, 0]
            assert values[index] == pytest.approx(np.mean(a * b) - a.mean() * b.mean(), abs=1e-14)
        pairs = np.repeat(x, 6, axis=0), np.tile(y, 6)
        joint, product = (dependence_witness(x, y, k, other, at) for at in ((x, y), pairs))
        expected = hsic(x, y, k, other, estimator="biased")
    assert float(joint.mean() - product.mean()) == pytest.approx(float(expected), rel=1e-10)
    assert float(expected) > 1e-3


def test_the_posterior_follows_the_empirical_witness_without_noise():
    # Features of a long lengthscale: r spans what the witness needs, at a rank below n.
    with jax.enable_x64(True):
        empirical = dependence_witness(X, Y, *KERNELS, (X, Y))
        posterior = dependence_posterior(X, Y, *KERNELS, (X, Y), noise=1e-9)
        prior = dependence_posterior(X, Y, *KERNELS, (X, Y), noise=1e9)
    scale = float(np.abs(empirical).max())
    assert np.abs(posterior.mean - empirical).max() < 1e-2 * scale
    np.testing.assert_allclose(prior.mean, 0.0, atol=1e-6)
    np.testing.assert_allclose(np.diagonal(prior.covariance), 1.0, rtol=1e-6)


@pytest.mark.slow
def test_the_posterior_of_the_dependence_witness_by_numpy():
    """Eight pairs, for which n and n - 1 are clearly different."""
    x, y, at = X[:8], Y[:8], (np.array([[0.3], [-1.0]]), np.array([[0.2], [0.7]]))
    with jax.enable_x64(True):
        K, L = (np.asarray(k(Z)) for k, Z in zip(KERNELS, (x, y), strict=True))
        r = [k.smoothed("unit", 1) for k in KERNELS]
        R, across, prior = (
            np.asarray(r[0](a[0], b[0])) * np.asarray(r[1](a[1], b[1]))
            for a, b in (((x, y), (x, y)), ((x, y), at), (at, at))
        )
        posterior = dependence_posterior(x, y, *KERNELS, at)
    products = (K - K.mean(axis=0)) * (L - L.mean(axis=0))
    covariance = R + np.cov(products.T, ddof=1) / 8 + 1e-8 * np.eye(8)
    solved = np.linalg.solve(covariance, across)
    np.testing.assert_allclose(posterior.mean, solved.T @ products.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(posterior.covariance, prior - across.T @ solved, rtol=1e-6)


@pytest.mark.slow
def test_bands_cover_the_true_dependence_witness():
    """100 data sets of 80 pairs, seed 5: 90 % bands cover 0.84 to 0.96 of points on average.

    The standard error of the average, estimated from the spread between data sets, is 0.013; so a
    false failure is one in 10 000.
    """
    rng, covered = np.random.default_rng(5), []
    covariance = np.array([[1.0, 0.7], [0.7, 1.0]])
    grid = np.array([(a, b) for a in (-1.5, -0.5, 0.5, 1.5) for b in (-1.0, 0.0, 1.0)])
    lengths = np.array([0.7, 1.1])

    def embedding(spread, at, lengthscale):
        size = len(spread)
        kernel = SquaredExponential(lengthscale if size > 1 else float(lengthscale))
        point = (at, np.zeros((size, size)))
        return float(gaussian_inner_product((np.zeros(size), spread), point, kernel))

    with jax.enable_x64(True):
        truth = np.array(
            [
                embedding(covariance, at, lengths)
                - embedding(np.eye(1), at[:1], lengths[0])
                * embedding(np.eye(1), at[1:], lengths[1])
                for at in grid
            ]
        )
        for _ in range(100):
            pairs = rng.multivariate_normal(np.zeros(2), covariance, size=80)
            posterior = dependence_posterior(
                pairs[:, 0], pairs[:, 1], *KERNELS, (grid[:, 0], grid[:, 1])
            )
            reach = 1.645 * np.sqrt(np.diagonal(posterior.covariance))
            covered.append(np.mean(np.abs(np.asarray(posterior.mean) - truth) <= reach))
    assert np.std(covered) / 10 < 0.02
    assert 0.84 < np.mean(covered) < 0.96


@pytest.mark.slow
def test_the_draws_have_the_posterior_s_moments():
    result = two_sample_test(P, Q, kernel=SquaredExponential(0.8), **QUIET)
    at = np.linspace(-2.0, 3.0, 7)
    witness = sample_test_witness(result, P, Q, at, draws=4000)
    draws = witness["witness"].values[0]
    with jax.enable_x64(True):
        first, second = (embedding_posterior(Z, SquaredExponential(0.8), at) for Z in (P, Q))
    deviation = np.sqrt(np.diagonal(first.covariance + second.covariance))
    # 4000 draws: five standard errors.
    assert np.abs(draws.mean(axis=0) - (first.mean - second.mean)).max() < (
        5 / 4000**0.5 * deviation.max()
    )
    np.testing.assert_allclose(draws.std(axis=0), deviation, rtol=5 / 8000**0.5)
    # Its mean over P less that over Q is near the squared MMD, shrunk by the noise.
    at_rows = sample_test_witness(result, P, Q, np.concatenate([P, Q]), draws=2000)
    mean = at_rows["witness"].values[0].mean(axis=0)
    with jax.enable_x64(True):
        expected = float(squared_mmd(P, Q, SquaredExponential(0.8), estimator="biased"))
    assert mean[:80].mean() - mean[80:].mean() == pytest.approx(expected, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{}, {"kernel": "bkl"}, {"kernel": "posterior"}, {"kernel": "multiscale"}]
)
def test_the_sign_shows_the_sample_of_higher_density(options):
    result = two_sample_test(P, Q, **options, **QUIET)
    band = credible_band(sample_test_witness(result, P, Q, np.array([-1.0, 2.0])), 0.9)
    assert band.lower[0] > 0.0 > band.upper[1]


@pytest.mark.slow
def test_a_dependence_witness_of_a_test():
    result = independence_test(X, Y, **QUIET)
    witness = sample_dependence_witness(result, X, Y)
    assert list(witness["column"].values) == ["x", "y"]
    band = credible_band(
        sample_dependence_witness(result, X, Y, (np.array([1.0, 1.0]), np.array([0.9, -0.9]))), 0.9
    )
    assert band.lower[0] > 0.0 > band.upper[1]  # positive correlation
    figure = plot_witness(witness, P=np.concatenate([X, Y], axis=1))
    assert "joint minus product of embeddings" in figure.axes[-1].get_ylabel()
    wide = sample_dependence_witness(
        independence_test(np.hstack([X, X**2]), Y, kernel="median", **QUIET),
        np.hstack([X, X**2]),
        Y,
    )
    assert wide["at"].shape == (70, 3)
    plot_witness(wide)


def test_bad_input():
    two_sample = {
        name: two_sample_test(P[:60], Q, **options, **QUIET)
        for name, options in {
            "smooth": {"kernel": SquaredExponential(0.8)},
            "pairs": {"kernel": "median", "paired": True},
            "bayes_factor": {"statistic": "bayes_factor"},
            "distance": {"kernel": Distance()},
        }.items()
    }
    pairs = independence_test(X, Y, kernel="median", **QUIET)
    series = independence_test(X, Y, kernel="median", method="shift", dependence_length=5, **QUIET)
    sample_dependence_witness(pairs, X[::-1], Y[::-1], (np.zeros(1), np.zeros(1)))
    for message, function, *arguments in (
        ("this test was of pairs", sample_test_witness, two_sample["pairs"], P[:60], Q),
        ("a smooth kernel", sample_test_witness, two_sample["bayes_factor"], P[:60], Q),
        ("a smooth kernel", sample_test_witness, two_sample["distance"], P[:60], Q),
        ("of other samples", sample_test_witness, two_sample["smooth"], P[:60] + 1.0, Q),
        ("this test was of series", sample_dependence_witness, series, X, Y),
        ("two smooth kernels", sample_dependence_witness, two_sample["smooth"], X, Y),
        ("of other pairs", sample_dependence_witness, pairs, X, Y[::-1]),
        ("70 rows but Y has 10", sample_dependence_witness, pairs, X, Y[:10]),
        ("as many points", sample_dependence_witness, pairs, X, Y, (np.zeros(2), np.zeros(3))),
    ):
        with pytest.raises(InputError, match=message):
            function(*arguments)
    with pytest.raises(InputError, match="noise must be"):
        sample_test_witness(two_sample["smooth"], P[:60], Q, noise=-1.0)
