"""Kernels of scikit-learn with the same Gram matrix."""

import numpy as np
import pytest
from bke.inference import InputError, gamma, to_sklearn
from bke.models import (
    GaussianMixture,
    Laplace,
    Matern,
    RationalQuadratic,
    SpectralMixture,
    SquaredExponential,
)
from sklearn.metrics.pairwise import rbf_kernel

X, Y = (
    np.random.default_rng(0).gamma(2.0, size=(7, 2)),
    np.random.default_rng(1).normal(size=(5, 2)),
)
ARD = np.array([0.7, 2.3])
KERNELS = [
    SquaredExponential(1.7),
    SquaredExponential(ARD),
    Matern(0.5, 1.7),
    Matern(1.5, ARD),
    Matern(2.5, 0.6),
    RationalQuadratic(0.8, 1.7),
    Laplace(1.7),
    GaussianMixture(np.array([0.5, 3.0]), np.array([0.3, 1.4])),
    GaussianMixture(np.array([[0.5, 3.0], [2.0, 1.0]])),
    0.4 * SquaredExponential(1.7) + Matern(1.5, 0.3) * Laplace(2.0),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: type(k).__name__)
def test_the_gram_matrix_is_the_same(kernel):
    np.testing.assert_allclose(to_sklearn(kernel)(X, Y), kernel(X, Y), rtol=1e-12)


def test_gamma():
    kernel = SquaredExponential(1.7)
    np.testing.assert_allclose(rbf_kernel(X, Y, gamma(kernel)), kernel(X, Y), rtol=1e-12)
    assert gamma(SquaredExponential(np.array([2.0, 2.0]))) == 0.125


@pytest.mark.parametrize("kernel", [SquaredExponential(ARD), Matern(1.5, 1.0)])
def test_only_one_lengthscale_has_a_gamma(kernel):
    with pytest.raises(InputError, match="one lengthscale"):
        gamma(kernel)


@pytest.mark.parametrize("kernel", [Laplace(ARD), RationalQuadratic(1.0, ARD)])
def test_one_lengthscale_per_column_where_scikit_learn_has_one(kernel):
    with pytest.raises(InputError, match="divide each column"):
        to_sklearn(kernel)


def test_what_scikit_learn_has_not():
    with pytest.raises(InputError, match="precomputed"):
        to_sklearn(SpectralMixture(1.0, 0.2))
