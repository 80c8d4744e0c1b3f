"""Kernels of scikit-learn with the same Gram matrix."""

import numpy as np
import pytest
from bke.inference import (
    InputError,
    fit,
    from_sklearn,
    independence_test,
    rbf_gamma,
    select_kernel,
    to_sklearn,
    two_sample_test,
)
from bke.models import (
    GaussianMixture,
    Kernel,
    Laplace,
    Matern,
    RationalQuadratic,
    SpectralMixture,
    SquaredExponential,
    mean_embedding,
)
from sklearn.gaussian_process import kernels
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
    np.testing.assert_allclose(rbf_kernel(X, Y, rbf_gamma(kernel)), kernel(X, Y), rtol=1e-12)
    assert rbf_gamma(SquaredExponential(np.array([2.0, 2.0]))) == 0.125


@pytest.mark.parametrize("kernel", [SquaredExponential(ARD), Matern(1.5, 1.0)])
def test_only_one_lengthscale_has_a_gamma(kernel):
    with pytest.raises(InputError, match="one lengthscale"):
        rbf_gamma(kernel)


@pytest.mark.parametrize("kernel", [Laplace(ARD), RationalQuadratic(1.0, ARD)])
def test_one_lengthscale_per_column_where_scikit_learn_has_one(kernel):
    with pytest.raises(InputError, match="divide each column"):
        to_sklearn(kernel)


def test_what_scikit_learn_has_not():
    with pytest.raises(InputError, match="precomputed"):
        to_sklearn(SpectralMixture(1.0, 0.2))


@pytest.mark.parametrize(
    "kernel", [one for one in KERNELS if not isinstance(one, GaussianMixture)], ids=str
)
def test_there_and_back(kernel):
    back = from_sklearn(to_sklearn(kernel))
    assert isinstance(back, Kernel)
    np.testing.assert_allclose(back(X, Y), kernel(X, Y), rtol=1e-12)


def test_others_are_evaluated_in_numpy():
    theirs = kernels.RBF(1.7) * kernels.ExpSineSquared(0.9, 3.0) + kernels.DotProduct(0.2)
    mine = from_sklearn(theirs)
    np.testing.assert_array_equal(mine(X, Y), theirs(X, Y))
    embedding = mean_embedding(X, theirs)
    np.testing.assert_allclose(embedding(Y), theirs(Y, X).mean(axis=1), rtol=1e-12)
    np.testing.assert_allclose(embedding.norm(), np.sqrt(theirs(X).mean()), rtol=1e-12)
    with pytest.raises(ValueError, match="no function that JAX can differentiate"):
        fit(X, kernel=theirs)


def test_tests_take_them():
    theirs, options = kernels.RBF(1.7), {"permutations": 99, "progress": False}
    assert select_kernel(X, theirs) == SquaredExponential(1.7)
    same = two_sample_test(X, Y, kernel=SquaredExponential(1.7), **options)
    assert two_sample_test(X, Y, kernel=theirs, **options).pvalue == same.pvalue
    periodic = kernels.ExpSineSquared(0.9, 3.0)
    statistic = two_sample_test(X, Y, kernel=periodic, estimator="biased", **options).statistic
    x, y, across = periodic(X).mean(), periodic(Y).mean(), periodic(X, Y).mean()
    assert statistic == pytest.approx(x + y - 2.0 * across, rel=1e-10)
    assert independence_test(X, X**2, kernel=(theirs, periodic), **options).pvalue <= 1.0


def test_noise_is_no_kernel_of_an_embedding():
    with pytest.raises(InputError, match="noise of one row"):
        two_sample_test(X, Y, kernel=kernels.RBF(1.0) + kernels.WhiteKernel(0.1))
    with pytest.raises(ValueError, match="is needed"):
        from_sklearn("rbf")


@pytest.mark.slow
def test_a_sum_with_constants_has_its_smoothed_kernel_in_one_column():
    theirs = 2.0 * kernels.RBF(0.7) * kernels.ConstantKernel(1.5) + kernels.RationalQuadratic()
    mine = from_sklearn(theirs)
    assert isinstance(mine, Kernel)
    assert np.isfinite(mine.smoothed("unit", 1)(Y[:, :1])).all()
