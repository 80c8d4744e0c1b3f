"""The embedding given its values at landmarks or at all rows."""

import jax
import numpy as np
import pytest
from bke.models import (
    Gaussian,
    SquaredExponential,
    bke_model,
    embedding_posterior,
    landmark_embedding_posterior,
)
from bke.models.likelihood.landmark import feature_sums, partition_rows
from numpyro.handlers import seed
from scipy.spatial.distance import cdist

RNG = np.random.default_rng(3)
X = RNG.gamma(2.0, size=(70, 2)) * [1.0, 2.0]
Z = RNG.gamma(2.0, size=(9, 2)) * [1.0, 2.0]
AT = RNG.gamma(2.0, size=(4, 2))
KERNEL = SquaredExponential([0.8, 1.5])


def landmark_sums(X, Z, kernel, covariance=False):
    with jax.enable_x64(True):
        sums = feature_sums(partition_rows(X, Z), kernel, covariance=covariance)
        return jax.tree.map(np.asarray, sums)


def k(A, B, factor=1.0):
    scale = factor * np.array([0.8, 1.5])
    return np.exp(-0.5 * cdist(A / scale, B / scale, "sqeuclidean"))


@pytest.mark.parametrize("noise", ["clt", 0.03])
@pytest.mark.one_in(2)
def test_by_numpy(noise):
    features, root = k(X, Z), np.sqrt(2.0)
    covariance = (
        np.cov(features.T) / len(X) + 1e-8 * np.eye(9) if noise == "clt" else 0.03 * np.eye(9)
    )
    gain = np.linalg.solve(k(Z, Z, root) + covariance, k(Z, AT, root)).T
    result = landmark_embedding_posterior(X, Z, KERNEL, AT, noise=noise)
    np.testing.assert_allclose(result.mean, gain @ features.mean(axis=0), rtol=1e-8)
    expected = k(AT, AT, root) - gain @ k(Z, AT, root)
    np.testing.assert_allclose(result.covariance, expected, rtol=1e-7, atol=1e-10)


@pytest.mark.slow
def test_landmarks_at_all_rows():
    measure = Gaussian(3.0, np.array([1.0, 2.0]))
    landmarks_at_rows = landmark_embedding_posterior(X, X, KERNEL, AT, measure=measure)
    data = embedding_posterior(X, KERNEL, AT, measure=measure)
    np.testing.assert_allclose(landmarks_at_rows.mean, data.mean, rtol=1e-6)
    np.testing.assert_allclose(landmarks_at_rows.covariance, data.covariance, rtol=1e-5, atol=1e-9)


@pytest.mark.slow
def test_merged_sums_with_their_covariance():
    parts = [landmark_sums(part, Z, KERNEL, covariance=True) for part in np.split(X, [11, 40])]
    merged = parts[0].merge(parts[1]).merge(parts[2])
    pooled = landmark_sums(X, Z, KERNEL, covariance=True)
    for total, reference in zip(merged, pooled, strict=True):
        np.testing.assert_allclose(total, reference, rtol=1e-12)
    np.testing.assert_allclose(pooled.scatter, 69 * np.cov(k(X, Z).T), rtol=1e-10)
    np.testing.assert_allclose(
        pooled.scatter.trace(), landmark_sums(X, Z, KERNEL).scatter, rtol=1e-12
    )


@pytest.mark.slow
def test_incompatible_arguments():
    with pytest.raises(ValueError, match="X has 2 columns but at has 1"):
        landmark_embedding_posterior(X, Z, KERNEL, AT[:, :1])
    with jax.enable_x64(True), pytest.raises(ValueError, match="needs landmarks"):
        seed(bke_model, 0)(X, likelihood="landmark")


def test_distant_from_all_landmarks_it_is_the_prior():
    result = landmark_embedding_posterior(X, Z, KERNEL, AT + 100.0)
    np.testing.assert_allclose(result.mean, 0.0, atol=1e-12)
    np.testing.assert_allclose(np.diagonal(result.covariance), 1.0, rtol=1e-12)
