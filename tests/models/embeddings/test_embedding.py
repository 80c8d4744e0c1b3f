"""Embeddings as objects, against explicit features and sums written out."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from bke.models import (
    Dirac,
    Embedding,
    Gaussian,
    Matern,
    Polynomial,
    SmoothingError,
    SquaredExponential,
    mean_embedding,
    posterior_mean_embedding,
)

KERNEL = SquaredExponential(np.array([0.7, 1.9]))


@pytest.fixture
def samples():
    rng = np.random.default_rng(3)
    return rng.normal(size=(7, 2)), rng.normal(0.5, 2.0, size=(5, 2))


def quadratic_features(X):
    """Of (x'y + 1)^2 in two columns: KER-1 with a constant."""
    a, b = X.T
    root = np.sqrt(2.0)
    return np.stack([a**2, b**2, root * a * b, root * a, root * b, np.ones_like(a)], axis=1)


def test_operations_are_linear_algebra_of_features(samples):
    X, Y = samples
    w, v = np.array([0.5, -0.2, 0.1, 0.9, -0.4, 0.3, 0.2]), np.array([1.0, -2.0, 0.3, 0.2, 0.1])
    kernel = Polynomial(2, 1.0)
    first, second = mean_embedding(X, kernel, w), mean_embedding(Y, kernel, v)
    f, g = w @ quadratic_features(X), v @ quadratic_features(Y)
    assert first.inner_product(second) == pytest.approx(f @ g, rel=1e-13)
    assert first.norm() == pytest.approx(np.linalg.norm(f), rel=1e-13)
    assert first.distance(second) == pytest.approx(np.linalg.norm(f - g), rel=1e-12)
    mixed = 2.0 * first - second / 4.0 + (-first) * 0.5
    np.testing.assert_allclose(
        mixed(Y), quadratic_features(Y) @ (1.5 * f - g / 4.0), rtol=1e-12, atol=1e-12
    )
    assert mixed.norm() == pytest.approx(np.linalg.norm(1.5 * f - g / 4.0), rel=1e-12)


def test_the_empirical_embedding_is_unbiased_about_elements_and_functions(samples):
    X, Y = samples
    embedding = mean_embedding(X, KERNEL)
    function = mean_embedding(Y, KERNEL, [1.0, 2.0, -1.0, 0.5, 0.0])
    values = np.asarray(KERNEL(X, Y)) @ function.weights
    assert embedding.expectation(function) == pytest.approx(values.mean(), rel=1e-13)
    np.testing.assert_allclose(embedding.expectation(lambda x: x**3), (X**3).mean(axis=0))
    assert embedding.expectation(lambda x: x[:, 1]) == pytest.approx(X[:, 1].mean())
    np.testing.assert_allclose(function.normalized().weights.sum(), 1.0)
    np.testing.assert_allclose(function.mean(), function.weights @ Y / 2.5)


def test_norms_without_closed_form(samples):
    X, _ = samples
    for kernel, measure in ((Matern(1.5, 1.0), "unit"), (KERNEL, Gaussian(2.0))):
        embedding = posterior_mean_embedding(X, kernel, noise=0.1, measure=measure)
        assert np.isfinite(embedding.inner_product(mean_embedding(X, kernel)))
        with pytest.raises(SmoothingError, match="sums of Gaussian components"):
            embedding.norm()


def test_embeddings_work_under_transformations(samples):
    X, Y = samples

    def squared(lengthscale):
        kernel = SquaredExponential(lengthscale)
        return (mean_embedding(X, kernel) - mean_embedding(Y, kernel)).squared_norm()

    with jax.enable_x64(True):
        slope = jax.jit(jax.grad(squared))(0.8)
    near = (squared(0.8 + 1e-5) - squared(0.8 - 1e-5)) / 2e-5
    assert slope == pytest.approx(near, rel=1e-7)


def test_labels_are_tables(samples):
    labels = np.array([1.0, 2.0, 2.0, 5.0])
    table = mean_embedding(labels, Dirac())([1.0, 2.0, 3.0, 5.0])
    np.testing.assert_array_equal(table, [0.25, 0.5, 0.0, 0.25])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda X, Y: mean_embedding(X, KERNEL, np.ones(6)), "7 points, and the weights"),
        (lambda X, Y: mean_embedding(X, KERNEL, [0, 1, np.nan, 0, 0, 0, 0]), "row 3"),
        (lambda X, Y: mean_embedding(np.empty((0, 2)), KERNEL), "at least 1 point"),
        (lambda X, Y: Embedding(KERNEL, X, np.ones(5)), "one weight for each"),
        (lambda X, Y: mean_embedding(X, KERNEL)(X[:, :1]), "columns"),
        (
            lambda X, Y: mean_embedding(X, KERNEL) + mean_embedding(Y, SquaredExponential(2.0)),
            "different kernels",
        ),
        (lambda X, Y: mean_embedding(X, KERNEL).expectation(lambda x: x[:3]), "each of 7 points"),
        (
            lambda X, Y: posterior_mean_embedding(X, KERNEL).expectation(lambda x: x[:, 0]),
            "smoothed sections",
        ),
        (
            lambda X, Y: posterior_mean_embedding(X, KERNEL) + mean_embedding(X, KERNEL),
            "do not add",
        ),
    ],
)
def test_invalid_arguments(samples, make, message):
    with pytest.raises(ValueError, match=message):
        make(*samples)


def test_weights_with_zero_sum_have_no_mean(samples):
    X, _ = samples
    difference = mean_embedding(X, KERNEL) - mean_embedding(X + 1.0, KERNEL)
    with pytest.raises(ArithmeticError, match="sum to nothing"):
        difference.mean()
