"""Pre-images against brute force, and reduced sets against projections."""

from __future__ import annotations

import numpy as np
import pytest
from bke.models import (
    FullSquaredExponential,
    GaussianMixture,
    Matern,
    Polynomial,
    Rotation,
    SquaredExponential,
    mean_embedding,
    pre_image,
    reduced_embedding,
    rotations,
)


def grid_maximum(embedding, low, high, count=400):
    axes = np.linspace(low, high, count)
    grid = np.stack(np.meshgrid(axes, axes, indexing="ij"), axis=-1).reshape(-1, 2)
    values = np.asarray(embedding(grid))
    return grid[np.argmax(values)], values.max()


@pytest.mark.parametrize(
    "kernel",
    [
        SquaredExponential(0.8),
        SquaredExponential(np.array([0.5, 1.5])),
        FullSquaredExponential(np.array([[0.8, 0.3], [0.3, 0.5]])),
        GaussianMixture(np.array([0.4, 1.3]), np.array([0.6, 0.4])),
    ],
)
@pytest.mark.one_in(4)
def test_the_iteration_finds_the_highest_point(kernel):
    rng = np.random.default_rng(5)
    X = np.concatenate([rng.normal(-1.5, 0.6, (20, 2)), rng.normal(1.5, 0.6, (30, 2))])
    # Weights of both signs, as conditional embeddings have them.
    embedding = mean_embedding(X, kernel, rng.normal(0.02, 0.02, 50))
    result = pre_image(embedding)
    point, highest = grid_maximum(embedding, -4.0, 4.0)
    assert result.converged
    # Newton's method needs few iterations, and ends where the gradient is zero.
    assert result.iterations <= 15
    step = 1e-5 * np.eye(2)
    slope = (embedding(result.point + step) - embedding(result.point - step)) / 2e-5
    assert np.abs(slope).max() < 1e-8
    assert result.value >= highest - 1e-12
    assert np.linalg.norm(result.point - point) < 0.05
    # The highest of the sample's own points is lower, so that the iteration has moved.
    assert result.value > np.max(embedding(X)) + 1e-4


def test_result_is_never_below_the_sample_even_with_negative_weights():
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(12, 3))
        embedding = mean_embedding(X, SquaredExponential(0.7), rng.normal(size=12))
        assert pre_image(embedding).value >= np.max(embedding(X))


def test_other_kernels_return_a_point_of_the_sample():
    X = np.array([0.0, 1.0, 1.1])
    result = pre_image(mean_embedding(X, Matern(1.5, 1.0)))
    assert not result.converged
    assert result.point in X


def test_a_mean_rotation_is_the_nearest_rotation():
    rng = np.random.default_rng(0)
    R = rotations(rng.normal(0.3, 0.8, size=(9, 3)))
    weights = rng.normal(0.2, 0.3, 9)
    embedding = mean_embedding(R, Rotation(), weights)
    result = pre_image(embedding)
    matrix = result.point.reshape(3, 3)
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(3), atol=1e-12)
    assert np.linalg.det(matrix) == pytest.approx(1.0)
    rotation_grid = rotations(rng.normal(size=(20_000, 3)) * 2.0)
    values = np.asarray(embedding(rotation_grid))
    assert values.max() < result.value
    assert values.max() > result.value - 0.05 * abs(result.value)  # it is no bound far above


def test_rotation_kernel_depends_on_the_angle():
    axis = np.array([[2.0, -1.0, 2.0]]) / 3.0
    R = rotations(np.concatenate([0.0 * axis, 0.7 * axis, -0.4 * axis]))
    np.testing.assert_allclose(Rotation()(R)[0], 1.0 + 2.0 * np.cos([0.0, 0.7, 0.4]), rtol=1e-14)
    assert Rotation()(R)[1, 2] == pytest.approx(1.0 + 2.0 * np.cos(1.1))
    # A rotation about the third axis maps the first to the second.
    quarter = rotations([0.0, 0.0, np.pi / 2]).reshape(3, 3)
    np.testing.assert_allclose(quarter @ [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], atol=1e-15)
    with pytest.raises(ValueError, match="9 entries"):
        Rotation()(np.eye(3))
    with pytest.raises(ValueError, match="row 2 is not a rotation"):
        Rotation()(np.stack([np.eye(3).ravel(), np.diag([1.0, 1.0, -1.0]).ravel()]))


@pytest.mark.slow
def test_a_reduced_embedding_is_a_projection():
    rng = np.random.default_rng(2)
    X, Z = rng.normal(size=(40, 2)), rng.normal(size=(6, 2))
    kernel = SquaredExponential(1.0)
    embedding = mean_embedding(X, kernel)
    reduced = reduced_embedding(embedding, Z)
    np.testing.assert_allclose(reduced(Z), embedding(Z), rtol=1e-6)  # the residual is orthogonal
    best = embedding.squared_distance(reduced)
    for _ in range(20):
        nudged = mean_embedding(Z, kernel, reduced.weights + rng.normal(0.0, 1e-2, 6))
        assert embedding.squared_distance(nudged) > best
    exact = reduced_embedding(mean_embedding(X, Polynomial(1, 1.0)), Z[:4])
    assert exact.distance(mean_embedding(X, Polynomial(1, 1.0))) < 1e-5


def test_a_minimum_is_no_pre_image():
    result = pre_image(mean_embedding([0.0, 100.0], SquaredExponential(1.0), [-1.0, -1.0]))
    assert not result.converged


def test_bad_arguments():
    embedding = mean_embedding([[0.0, 1.0]], SquaredExponential(1.0))
    with pytest.raises(ValueError, match="at least 1"):
        pre_image(embedding, starts=0)
    with pytest.raises(ValueError, match="columns"):
        reduced_embedding(embedding, [1.0])
