"""The embedding given its values at landmarks or at all rows."""

import jax
import numpy as np
import pytest
from bke.models import SquaredExponential, bke_model, landmark_embedding_posterior
from numpyro.handlers import seed
from scipy.spatial.distance import cdist

RNG = np.random.default_rng(3)
X = RNG.gamma(2.0, size=(70, 2)) * [1.0, 2.0]
Z = RNG.gamma(2.0, size=(9, 2)) * [1.0, 2.0]
AT = RNG.gamma(2.0, size=(4, 2))
KERNEL = SquaredExponential([0.8, 1.5])


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
def test_incompatible_arguments():
    with pytest.raises(ValueError, match="X has 2 columns but at has 1"):
        landmark_embedding_posterior(X, Z, KERNEL, AT[:, :1])
    with jax.enable_x64(True), pytest.raises(ValueError, match="needs landmarks"):
        seed(bke_model, 0)(X, likelihood="landmark")
