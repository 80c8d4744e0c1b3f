"""The sampling covariance of mu_hat as the noise of BKE (5), compared with a twin; derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bke.models import (
    Laplace,
    Matern,
    SamplingNoise,
    SpectralMixture,
    SquaredExponential,
    log_jacobian,
    log_marginal_likelihood,
)
from bke.models.likelihood.dense import dense_terms
from bke.models.likelihood.noise import SAMPLING_NOISES, check_noise, sampling_covariance

FULL, DIAGONAL = SamplingNoise(True, 1e-6), SamplingNoise(False, 1e-4)
NOISES = [FULL, DIAGONAL, "clt", "heteroscedastic"]


def sample(n, D, seed=0):
    """Asymmetric, with one outlier and two tied rows."""
    X = np.random.default_rng(seed).gamma(2.0, size=(n, D)) * np.array([1.0, 0.5])[:D]
    X[3, 0], X[5] = 40.0, X[7]
    return X


def gaussian_term(log_normal, X, ell, full, nugget):
    """Log N(mu_hat; 0, R + C/n + nugget I) by loops in extended precision."""
    X = X.astype(np.longdouble)
    n = len(X)
    K, R = np.empty((n, n), np.longdouble), np.empty((n, n), np.longdouble)
    for i in range(n):
        squared = np.sum(((X - X[i]) / ell) ** 2, axis=1)
        K[i], R[i] = np.exp(-0.5 * squared), np.exp(-0.25 * squared)
    mu_hat = K.mean(axis=0)
    C = np.zeros((n, n), np.longdouble)
    for row in K:  # one observation's feature at all points
        C += np.outer(row - mu_hat, row - mu_hat) / (n - 1)
    noise = (C if full else np.diag(np.diagonal(C))) / n + nugget * np.eye(n)
    return log_normal(mu_hat, R + noise)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("ell", [0.05, 0.6, 4.0])
@pytest.mark.parametrize("D", [1, 2])
@pytest.mark.parametrize("noise", [FULL, DIAGONAL], ids=["full", "diagonal"])
def test_the_gaussian_term_agrees_with_the_twin(log_normal, noise, D, ell):
    X = sample(45, D)
    kernel = SquaredExponential(ell)
    value = log_marginal_likelihood(X, kernel, noise_variance=noise) - log_jacobian(X, kernel).sum()
    # The condition number is up to n / nugget: of 16 digits 8 are left for the quadratic form.
    expected = gaussian_term(log_normal, X, ell, noise.full, noise.nugget)
    assert value == pytest.approx(expected, rel=1e-8, abs=1e-6)


def test_a_point_distant_from_the_rest_by_hand():
    """Two points with no overlap: features (1, 0) and (0, 1), so C = [[1, -1], [-1, 1]] / 2."""
    with jax.enable_x64(True):
        covariance = sampling_covariance(jnp.array([[0.0], [1e3]]), SquaredExponential(1.0))
    np.testing.assert_allclose(covariance, np.array([[0.25, -0.25], [-0.25, 0.25]]), atol=1e-15)


@pytest.mark.one_in(20)
@pytest.mark.parametrize("noise", NOISES, ids=str)
@pytest.mark.parametrize(
    "kernel",
    [
        SquaredExponential(np.array([0.7, 1.6])),
        Matern(1.5, 0.9),
        Laplace(1.2),
        SpectralMixture(np.array([0.8, 2.0]), np.array([0.3, 0.1])),
    ],
    ids=lambda kernel: type(kernel).__name__,
)
def test_gradients_agree_with_finite_differences(kernel, noise):
    X = sample(30, 2, seed=1)

    with jax.enable_x64(True):
        leaves, structure = jax.tree.flatten(kernel)
        leaves = [jnp.asarray(leaf) for leaf in leaves]

        @jax.jit
        def value(leaves):
            kernel = jax.tree.unflatten(structure, leaves)
            return sum(dense_terms(jnp.asarray(X), kernel, noise, "unit", low_rank=True))

        gradients = jax.grad(value)(leaves)
        for index, (leaf, slope) in enumerate(zip(leaves, gradients, strict=True)):
            for entry in np.ndindex(leaf.shape):
                ends = []
                for side in (-1, 1):
                    moved = list(leaves)
                    moved[index] = leaf.at[entry].add(side * 1e-5)
                    ends.append(float(value(moved)))
                assert slope[entry] == pytest.approx((ends[1] - ends[0]) / 2e-5, rel=1e-4, abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [FULL, DIAGONAL], ids=["full", "diagonal"])
def test_gradients_in_the_nugget_and_the_data(noise):
    X = sample(25, 1, seed=2)
    with jax.enable_x64(True):
        points, kernel = jnp.asarray(X), SquaredExponential(0.8)

        def at(points, nugget):
            sampling = SamplingNoise(noise.full, nugget)
            return sum(dense_terms(points, kernel, sampling, "unit", low_rank=True))

        nugget = jnp.asarray(1e-3)
        slope = jax.grad(at, argnums=1)(points, nugget)
        difference = (at(points, nugget + 1e-7) - at(points, nugget - 1e-7)) / 2e-7
        assert slope == pytest.approx(float(difference), rel=1e-5)
        direction = jnp.zeros_like(points).at[4, 0].set(1.0).at[9, 0].set(-0.5)
        along = jax.jvp(lambda points: at(points, nugget), (points,), (direction,))[1]
        ends = [float(at(points + step * direction, nugget)) for step in (-1e-6, 1e-6)]
        assert along == pytest.approx((ends[1] - ends[0]) / 2e-6, rel=1e-4)


def test_names_are_equivalent_to_their_noise_models():
    assert check_noise("clt") == SamplingNoise(True, 1e-8) == SAMPLING_NOISES["clt"]
    assert check_noise("heteroscedastic") == SamplingNoise(False, 1e-3)
    X = sample(20, 1)
    values = [
        log_marginal_likelihood(X, SquaredExponential(1.0), noise_variance=noise)
        for noise in ("clt", SamplingNoise(), "heteroscedastic", SamplingNoise(False, 1e-3), 1e-3)
    ]
    assert values[0] == values[1]
    assert values[2] == values[3]
    assert len({float(value) for value in values}) == 3


@pytest.mark.parametrize("noise", ["CLT", "full", None, True, -1.0, [0.1, 0.2]])
def test_other_noises_are_refused(noise):
    with pytest.raises(ValueError, match="noise_variance"):
        log_marginal_likelihood(sample(20, 1), SquaredExponential(1.0), noise_variance=noise)


@pytest.mark.parametrize(
    ("full", "nugget", "message"),
    [
        *((True, nugget, "nugget") for nugget in (0.0, -1.0, None, [1e-3, 1e-2], "small")),
        ("diag", 1e-3, "full must be True or False"),
    ],
)
def test_invalid_sampling_noises(full, nugget, message):
    with pytest.raises(ValueError, match=message):
        SamplingNoise(full, nugget)
