"""The landmark model against matrices over all observations, its sums, and its Jacobian."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from bke.models import Matern, SquaredExponential, choose_landmarks, landmark_log_likelihood
from bke.models.likelihood import landmark
from bke.models.likelihood.landmark import partition_rows
from bke.models.likelihood.landmark_jacobian import (
    log_jacobian_at,
    log_jacobian_by_pivoting,
    log_jacobian_of_gradients,
)
from scipy.spatial.distance import cdist
from scipy.special import logsumexp

pytestmark = pytest.mark.usefixtures("x64")


def data(n=40, dimension=2, m=5, seed=0):
    """Skewed and scaled by column, so that no symmetry hides a fault."""
    rng = np.random.default_rng(seed)
    X = rng.gamma(2.0, size=(n, dimension)) * np.arange(1.0, dimension + 1)
    return X, rng.gamma(2.0, size=(m, dimension)) * np.arange(1.0, dimension + 1)


def landmark_sums(X, Z, kernel, covariance=False):
    return landmark.feature_sums(partition_rows(X, Z), kernel, covariance=covariance)


def squared_exponential(X, Y, lengthscale):
    return np.exp(-0.5 * cdist(X / lengthscale, Y / lengthscale, "sqeuclidean"))


def reference(X, Z, lengthscale, noise_variance):
    """By NumPy and SciPy only: the n m x n m covariance, and one D x D determinant per row."""
    n, m = len(X), len(Z)
    phi = squared_exponential(X, Z, lengthscale)
    R = squared_exponential(X=Z, Y=Z, lengthscale=np.sqrt(2.0) * lengthscale)
    covariance = np.kron(np.ones((n, n)), R) + noise_variance * np.eye(n * m)
    gaussian = scipy.stats.multivariate_normal(cov=covariance).logpdf(phi.ravel())
    volume = 0.0
    for x, row in zip(X, phi, strict=True):
        gradients = -(x - Z) / lengthscale**2 * row[:, None]
        volume += np.log(np.abs(np.diagonal(np.linalg.qr(gradients, mode="r")))).sum()
    return gaussian + volume


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_value_and_gradient_against_full_matrices(dimension):
    X, Z = data(dimension=dimension)
    lengthscale, noise_variance = np.linspace(1.5, 2.5, dimension), 0.05

    def value(lengthscale, noise_variance):
        kernel = SquaredExponential(lengthscale)
        return landmark_log_likelihood(X, Z, kernel, noise_variance=noise_variance)

    result = value(lengthscale, noise_variance)
    assert result == pytest.approx(reference(X, Z, lengthscale, noise_variance), rel=1e-9)
    gradient, noise_slope = jax.grad(value, argnums=(0, 1))(lengthscale, noise_variance)
    for column in range(dimension):
        step = 1e-5 * np.eye(dimension)[column]
        ends = [reference(X, Z, lengthscale + sign * step, noise_variance) for sign in (1, -1)]
        assert gradient[column] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-5)
    ends = [reference(X, Z, lengthscale, noise_variance + sign * 1e-6) for sign in (1, -1)]
    assert noise_slope == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5)


@pytest.mark.slow
def test_forward_mode_second_derivatives_and_batches():
    X, Z = data()

    def value(theta):
        kernel = SquaredExponential(theta[0])
        return landmark_log_likelihood(X, Z, kernel, noise_variance=theta[1])

    gradient, at, step = jax.grad(value), jnp.array([0.8, 0.3]), 1e-6 * jnp.eye(2)
    np.testing.assert_allclose(jax.jacfwd(value)(at), gradient(at), rtol=1e-9)
    differences = [(gradient(at + h) - gradient(at - h)) / 2e-6 for h in step]
    np.testing.assert_allclose(jax.hessian(value)(at), differences, rtol=1e-6)
    several = jax.vmap(value)(jnp.stack([at, 2.0 * at]))
    np.testing.assert_allclose(several, [value(at), value(2.0 * at)], rtol=1e-10)


@pytest.mark.slow
def test_result_does_not_depend_on_the_block_size(monkeypatch):
    X, Z = data(n=101)
    kernel = Matern(2.5, 1.3)
    expected_sums = landmark_sums(X, Z, kernel)
    monkeypatch.setattr(landmark, "BLOCK_ENTRIES", 7 * 2 * len(Z))
    in_pieces = partition_rows(X, Z)
    assert in_pieces.parts.shape == (8, 13, 2)
    recompiled = jax.jit(
        lambda *arguments: landmark.feature_sums(*arguments)
    )  # what was compiled has the old size
    for total, reference_total in zip(expected_sums, recompiled(in_pieces, kernel), strict=True):
        np.testing.assert_allclose(total, reference_total, rtol=1e-12)
    rows, landmarks = jnp.asarray(X), jnp.asarray(Z)
    phi, log_gamma = kernel.matrix(rows, landmarks), log_jacobian_at(rows, landmarks, kernel)
    np.testing.assert_allclose(expected_sums.mean, phi.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(expected_sums.scatter, len(X) * phi.var(axis=0).sum(), rtol=1e-12)
    np.testing.assert_allclose(expected_sums.log_jacobian, log_gamma.sum(), rtol=1e-12)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("covariance", [True, False])
def test_merged_sums_are_those_of_the_union(covariance):
    X, Z = data(n=90)
    kernel = SquaredExponential(40.0)  # so long that sums of squares would cancel
    parts = [landmark_sums(part, Z, kernel, covariance) for part in np.split(X, [20, 23])]
    pooled = landmark_sums(X, Z, kernel, covariance)
    for total, expected in zip(parts[0].merge(parts[1]).merge(parts[2]), pooled, strict=True):
        np.testing.assert_allclose(total, expected, rtol=1e-11)
    scatter = 89 * np.cov(squared_exponential(X, Z, 40.0).T)
    if not covariance:
        scatter = scatter.trace()
    np.testing.assert_allclose(pooled.scatter, scatter, rtol=1e-10)


def test_unbounded_with_free_noise():
    """Why it must be fixed or bounded below: tau = l^-2 grows without bound, tau fixed does not."""
    X, Z = data()

    def value(lengthscale, noise_variance):
        kernel = SquaredExponential(lengthscale)
        return landmark_log_likelihood(X, Z, kernel, noise_variance=noise_variance)

    lengthscales = (30.0, 100.0, 300.0, 1000.0)
    free = [value(length, length**-4.0) for length in lengthscales]
    assert np.all(np.diff(free) > 50.0)
    fixed = [value(length, 0.1) for length in lengthscales]
    assert np.all(np.diff(fixed) < -50.0)


# The volume element


@pytest.mark.slow
def test_weights_beyond_the_range_of_doubles():
    """By Cauchy and Binet, det = sum over pairs of (w_k w_l g_k x g_l)^2, in log space."""
    rng = np.random.default_rng(1)
    gradient = rng.normal(size=(1, 2, 4))
    for log_weight in ([0.0, -1.0, -3.0, -2.0], [-900.0, -20.0, -2500.0, -1700.0]):
        w = np.array(log_weight)
        pairs = [
            w[k] + w[j] + np.log(abs(np.linalg.det(gradient[0][:, [k, j]])))
            for k, j in itertools.combinations(range(4), 2)
        ]
        result = log_jacobian_of_gradients(jnp.asarray(gradient), jnp.asarray([log_weight]))
        assert result[0] == pytest.approx(0.5 * logsumexp(2.0 * np.array(pairs)), rel=1e-12)


def test_both_algorithms_of_the_jacobian_agree():
    X, Z = data(n=60, dimension=3, m=7)
    terms = SquaredExponential(0.8).value_and_grad(jnp.asarray(X), jnp.asarray(Z))
    arguments = jnp.moveaxis(terms.gradient, 1, 0), terms.log_scale
    result, expected = (
        jax.jit(algorithm)(*arguments)
        for algorithm in (log_jacobian_of_gradients, log_jacobian_by_pivoting)
    )
    np.testing.assert_allclose(result, expected, rtol=1e-9)


@pytest.mark.slow
def test_gradient_of_the_jacobian_with_a_dominant_weight():
    rng = np.random.default_rng(2)
    start, move = rng.normal(size=(2, 1, 3, 5))
    log_weight = jnp.asarray([[0.0, -6.0, -9.0, -14.0, -15.0]])

    def value(t):
        return log_jacobian_of_gradients(jnp.asarray(start + t * move), log_weight)[0]

    rows, moved = (part[0] * np.exp(np.asarray(log_weight)) for part in (start, move))
    exact = np.trace(np.linalg.pinv(rows, rcond=0.0) @ moved)
    assert jax.jacfwd(value)(0.0) == pytest.approx(exact, rel=1e-8)
    assert jax.grad(value)(0.0) == pytest.approx(exact, rel=1e-8)


@pytest.mark.slow
def test_rounding_error_has_zero_jacobian():
    """Integers of rank 4 in five columns: the fifth singular value is rounding error."""
    Z = [
        [-40, 10, -22, -27, 14],
        [-8, -15, -1, -1, 21],
        [-16, 5, -1, -3, 9],
        [32, -12, 21, 25, -6],
        [23, -2, 7, 10, -14],
        [13, 4, 33, 33, 0],
        [-4, 28, 2, 1, -20],
    ]
    assert np.linalg.matrix_rank(Z) == 4
    result = log_jacobian_at(jnp.zeros((1, 5)), jnp.array(Z, dtype=float), SquaredExponential(2.0))
    assert result[0] == -np.inf


def test_gradients_that_do_not_span_have_zero_jacobian():
    gradient = jnp.asarray([[[1.0, 2.0], [2.0, 4.0]], [[1.0, 2.0], [2.0, 5.0]]])
    result = jax.jit(log_jacobian_of_gradients)(gradient, jnp.zeros((2, 2)))
    assert result[0] == -np.inf
    assert result[1] == pytest.approx(0.0, abs=1e-12)


# Landmarks, and what is refused


def test_landmarks_are_off_the_data_and_repeat():
    X = np.concatenate([data(n=300)[0], [[50.0, 80.0], [-40.0, 3.0]]])
    Z = choose_landmarks(X, 20, seed=3)
    np.testing.assert_array_equal(Z, choose_landmarks(X, 20, seed=3))
    assert Z.shape == (20, 2)
    scaled = cdist(Z / X.std(axis=0), X / X.std(axis=0))
    between = cdist(Z / X.std(axis=0), Z / X.std(axis=0))
    np.fill_diagonal(between, np.inf)
    assert np.all(scaled.min(axis=1) > 1e-4 * between.min(axis=1))
    # The outliers, clusters of one, are among those that had to move.
    assert scaled[:, -2:].min(axis=0).max() < 2.0
    assert np.isfinite(landmark_log_likelihood(X, Z, SquaredExponential(1.0), noise_variance=0.1))


@pytest.mark.parametrize("size", [2.0**-660, 2.0**500])
def test_landmarks_do_not_depend_on_the_unit(size):
    """Of which squares would be zero, or infinite."""
    X = data(n=50)[0]
    np.testing.assert_array_equal(choose_landmarks(X * size, 5), choose_landmarks(X, 5) * size)


@pytest.mark.parametrize(
    ("landmarks", "noise_variance", "message"),
    [
        (np.zeros((3, 1)), 0.1, "X has 2 columns but landmarks has 1"),
        (np.zeros((1, 2)), 0.1, "at least 2"),
        (np.zeros((3, 2)), 0.0, "noise_variance must be positive"),
        (np.array([[0.0, np.nan]] * 3), 0.1, "landmarks has a value that is not finite"),
        (np.array([[0.0, 0.0], data()[0][7]]), 0.1, "landmark 2 is row 8 of X"),
    ],
)
def test_invalid_arguments(landmarks, noise_variance, message):
    X, _ = data()
    with pytest.raises(ValueError, match=message):
        landmark_log_likelihood(
            X, landmarks, SquaredExponential(1.0), noise_variance=noise_variance
        )


@pytest.mark.parametrize(
    ("count", "message"),
    [
        (1, r"at least 2, .* at most 3"),
        (4, r"at least 2, .* at most 3"),
        ("a", "count must be a whole number, got 'a'"),
    ],
)
def test_invalid_numbers_of_landmarks(count, message):
    with pytest.raises(ValueError, match=message):
        choose_landmarks(np.array([[0.0, 1.0], [2.0, 5.0], [2.0, 5.0], [1.0, 1.0]]), count)


def test_noise_lost_to_rounding():
    X, Z = data()
    with pytest.raises(ArithmeticError, match="too small compared with the diagonal"):
        landmark_log_likelihood(X, Z, SquaredExponential(1.0), noise_variance=1e-16)


def test_no_derivative_in_the_data():
    X, Z = data()

    def value(X):
        return landmark_log_likelihood(X, Z, SquaredExponential(1.0), noise_variance=0.1)

    with pytest.raises(NotImplementedError, match="no derivative in the data"):
        jax.eval_shape(jax.grad(value), X)  # refused before anything is computed


@pytest.mark.slow
def test_jacobian_of_a_row_does_not_depend_on_the_batch():
    """In three columns some gradients are so nearly parallel that no Cholesky factor is found."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3))
    Z = choose_landmarks(X, 20)
    kernel = SquaredExponential(0.3)
    batch = log_jacobian_at(jnp.asarray(X), jnp.asarray(Z), kernel)
    terms = kernel.value_and_grad(jnp.asarray(X), jnp.asarray(Z))
    exact = log_jacobian_by_pivoting(jnp.moveaxis(terms.gradient, 1, 0), terms.log_scale)
    assert np.isfinite(batch).all()
    np.testing.assert_allclose(batch, exact, rtol=0, atol=1e-8)
    jacobian_of_row = jax.jit(lambda x: log_jacobian_at(x[None], jnp.asarray(Z), kernel)[0])
    single = [jacobian_of_row(x) for x in jnp.asarray(X[:20])]
    np.testing.assert_allclose(batch[:20], single, rtol=0, atol=1e-8)
