"""Normal mixtures and new points from an embedding, against integrals and brute force."""

import numpy as np
import pytest
from bke.models import (
    Matern,
    NormalMixture,
    SquaredExponential,
    gaussian_mixture_embedding,
    herd,
    mean_embedding,
    mixture_pre_image,
    pre_image,
)
from scipy import integrate, stats

KERNEL = SquaredExponential(0.6)


def weighted_grid(density, low, high, count=400):
    """Return points and weights that represent a density on a line."""
    points = np.linspace(low, high, count)
    weights = density(points)
    return points[:, None], weights / weights.sum()


def test_the_embedding_of_a_mixture_gives_the_mixture():
    def density(x):
        return 0.3 * stats.norm(-1.5, 0.4).pdf(x) + 0.7 * stats.norm(1.0, 0.9).pdf(x)

    points, weights = weighted_grid(density, -5.0, 6.0)
    mixture = mixture_pre_image(mean_embedding(points, KERNEL, weights), 2)
    np.testing.assert_allclose(mixture.weights, [0.7, 0.3], atol=1e-3)
    np.testing.assert_allclose(mixture.means[:, 0], [1.0, -1.5], atol=2e-3)
    np.testing.assert_allclose(mixture.standard_deviations, [0.9, 0.4], atol=2e-3)
    assert mixture.distance < 1e-4
    np.testing.assert_allclose(mixture.density(points), density(points[:, 0]), atol=2e-3)


def test_the_distance_is_that_of_the_embeddings():
    """By the embedding of the mixture and a numerical integral, with weights of both signs."""
    rng = np.random.default_rng(1)
    X = rng.gamma(2.0, size=(40, 1))
    weights = rng.normal(1.0, 0.8, 40)
    embedding = mean_embedding(X, KERNEL, weights)
    mixture = mixture_pre_image(embedding, 3)
    normalized = embedding.normalized()

    def values(at):
        return gaussian_mixture_embedding(
            mixture.weights, mixture.means, mixture.standard_deviations, 0.6, at
        )

    within = integrate.quad(
        lambda x: float(values(np.array([x]))[0] * mixture.density(np.array([x]))[0]),
        -10,
        20,
        points=[0.0, 2.0, 4.0],
        limit=200,
    )[0]
    cross = normalized.weights @ values(X)
    expected = normalized.squared_norm() - 2.0 * cross + within
    assert mixture.distance**2 == pytest.approx(float(expected), abs=1e-7)
    assert mixture.distance > 0.01


@pytest.mark.parametrize("dimension", [1, 3])
def test_no_change_of_the_mixture_is_nearer(dimension):
    rng = np.random.default_rng(dimension)
    X = rng.standard_t(4, size=(60, dimension))
    embedding = mean_embedding(X, SquaredExponential(1.0))
    best = mixture_pre_image(embedding, 2)

    def squared_distance(mixture):
        values = gaussian_mixture_embedding(
            mixture.weights, mixture.means, mixture.standard_deviations, 1.0, X
        )
        variance = mixture.standard_deviations[:, None] ** 2 + mixture.standard_deviations**2
        squared = ((mixture.means[:, None] - mixture.means) ** 2).sum(axis=2)
        products = (1 + variance) ** (-dimension / 2) * np.exp(-0.5 * squared / (1 + variance))
        within = mixture.weights @ products @ mixture.weights
        return float(embedding.squared_norm() - 2 * values.mean() + within)

    assert best.distance**2 == pytest.approx(squared_distance(best), abs=1e-12)
    for _ in range(100):
        weights = best.weights * np.exp(0.05 * rng.normal(size=2))
        changed = NormalMixture(
            weights / weights.sum(),
            best.means + 0.05 * rng.normal(size=best.means.shape),
            best.standard_deviations * np.exp(0.05 * rng.normal(size=2)),
        )
        assert squared_distance(changed) > best.distance**2 - 1e-10


def test_moments_and_draws_are_those_of_the_density():
    mixture = NormalMixture(
        np.array([0.25, 0.75]), np.array([[0.0, 4.0], [2.0, -1.0]]), np.array([0.5, 1.5])
    )
    np.testing.assert_allclose(mixture.mean(), [1.5, 0.25])
    # Between the components 3/16 times the outer product of (2, -5), within 0.25^2 + 0.75 * 1.5^2.
    expected = 3 / 16 * np.outer([2, -5], [2, -5]) + 1.75 * np.eye(2)
    np.testing.assert_allclose(mixture.covariance(), expected)
    normals = [stats.multivariate_normal(m, s**2) for m, s in (((0, 4), 0.5), ((2, -1), 1.5))]
    at = np.array([[0.1, 3.0], [5.0, -4.0]])
    np.testing.assert_allclose(
        mixture.density(at), 0.25 * normals[0].pdf(at) + 0.75 * normals[1].pdf(at)
    )
    draws = mixture.sample(20_000, seed=3)
    # Six standard errors, false-failure rate below 1e-7.
    assert np.all(np.abs(draws.mean(axis=0) - mixture.mean()) < 6 * draws.std(axis=0) / 20_000**0.5)
    np.testing.assert_allclose(np.cov(draws.T), expected, rtol=0.1, atol=0.2)
    assert not np.array_equal(draws, mixture.sample(20_000, seed=4))


def test_every_herded_point_is_the_best_next_one():
    rng = np.random.default_rng(2)
    X = np.concatenate([rng.normal(-2.0, 0.5, 60), rng.normal(1.0, 1.0, 140)])[:, None]
    embedding = mean_embedding(X, KERNEL)
    points = herd(embedding, 12)
    assert points[0] == pytest.approx(pre_image(embedding).point)
    grid = np.linspace(-5.0, 5.0, 2001)
    for step in range(12):

        def gain(x, step=step):
            herded = KERNEL(x[:, None], points[:step]).sum(axis=1) if step else 0.0
            return embedding(x[:, None]) - herded / (step + 1)

        assert gain(points[step])[0] >= gain(grid).max() - 1e-3
    # No herded point is one of the sample, and 12 represent it as no 12 of it drawn at random do.
    assert np.min(np.abs(points - X.T)) > 1e-6
    distance = float(mean_embedding(points, KERNEL).distance(embedding))
    drawn = [rng.choice(X, 12, replace=False) for _ in range(50)]
    assert distance < 0.5 * min(float(mean_embedding(x, KERNEL).distance(embedding)) for x in drawn)


def test_other_kernels_herd_points_of_the_sample():
    X = np.random.default_rng(3).normal(size=(30, 2))
    points = herd(mean_embedding(X, Matern(1.5, 1.0)), 4)
    assert all((point == X).all(axis=1).any() for point in points)


def test_invalid_arguments_raise_an_error():
    X = np.random.default_rng(4).normal(size=(20, 2))
    with pytest.raises(ValueError, match="closed forms for SquaredExponential with one"):
        mixture_pre_image(mean_embedding(X, Matern(1.5, 1.0)))
    with pytest.raises(ValueError, match="closed forms for SquaredExponential with one"):
        mixture_pre_image(mean_embedding(X, SquaredExponential(np.array([1.0, 2.0]))))
    embedding = mean_embedding(X, KERNEL)
    with pytest.raises(ValueError, match="positive sum"):
        mixture_pre_image(-embedding)
    with pytest.raises(ValueError, match="n_components and starts"):
        mixture_pre_image(embedding, 0)
    with pytest.raises(ValueError, match="sum to 2"):
        herd(2.0 * embedding, 3)
    with pytest.raises(ValueError, match="count must be at least 1"):
        herd(embedding, 0)


def test_columns_of_frames_are_matched_by_name():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"a": rng.normal(size=40), "b": rng.normal(5.0, 1.0, 40)})
    mixture = mixture_pre_image(mean_embedding(frame, SquaredExponential(1.0)), 1)
    swapped = frame[["b", "a"]]
    np.testing.assert_allclose(mixture.density(swapped), mixture.density(frame))
    assert mixture.mean()[1] == pytest.approx(5.0, abs=0.5)
