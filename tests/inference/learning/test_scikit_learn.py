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

RNG = np.random.default_rng(0)
X, Y = RNG.gamma(2.0, size=(7, 2)), RNG.normal(size=(5, 2))
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


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_gram_matrix_is_equal_and_round_trip(kernel):
    theirs = to_sklearn(kernel)
    np.testing.assert_allclose(theirs(X, Y), kernel(X, Y), rtol=1e-12)
    back = from_sklearn(theirs)
    assert isinstance(back, Kernel) or isinstance(kernel, GaussianMixture)
    np.testing.assert_allclose(back(X, Y), kernel(X, Y), rtol=1e-12)


def test_gamma():
    kernel = SquaredExponential(1.7)
    np.testing.assert_allclose(rbf_kernel(X, Y, rbf_gamma(kernel)), kernel(X, Y), rtol=1e-12)
    assert rbf_gamma(SquaredExponential(np.array([2.0, 2.0]))) == 0.125


@pytest.mark.parametrize(
    ("function", "kernel", "message"),
    [
        (rbf_gamma, SquaredExponential(ARD), "one lengthscale"),
        (rbf_gamma, Matern(1.5, 1.0), "one lengthscale"),
        (to_sklearn, Laplace(ARD), "divide each column"),
        (to_sklearn, RationalQuadratic(1.0, ARD), "divide each column"),
        (to_sklearn, SpectralMixture(1.0, 0.2), "precomputed"),
    ],
)
def test_kernels_without_a_counterpart_are_refused(function, kernel, message):
    with pytest.raises(InputError, match=message):
        function(kernel)
    with pytest.raises(ValueError, match="is needed"):
        from_sklearn("rbf")


def test_other_kernels_are_evaluated_in_numpy():
    sklearn_kernel = kernels.RBF(1.7) * kernels.ExpSineSquared(0.9, 3.0) + kernels.DotProduct(0.2)
    kernel = from_sklearn(sklearn_kernel)
    np.testing.assert_array_equal(kernel(X, Y), sklearn_kernel(X, Y))
    embedding = mean_embedding(X, sklearn_kernel)
    np.testing.assert_allclose(embedding(Y), sklearn_kernel(Y, X).mean(axis=1), rtol=1e-12)
    np.testing.assert_allclose(embedding.norm(), np.sqrt(sklearn_kernel(X).mean()), rtol=1e-12)
    with pytest.raises(ValueError, match="no function that JAX can differentiate"):
        fit(X, kernel=sklearn_kernel)


def test_two_sample_and_independence_tests_take_scikit_learn_kernels():
    sklearn_kernel, options = kernels.RBF(1.7), {"n_resamples": 99, "progress": False}
    assert select_kernel(X, sklearn_kernel) == SquaredExponential(1.7)
    same = two_sample_test(X, Y, kernel=SquaredExponential(1.7), **options)
    assert two_sample_test(X, Y, kernel=sklearn_kernel, **options).pvalue == same.pvalue
    periodic = kernels.ExpSineSquared(0.9, 3.0)
    statistic = two_sample_test(X, Y, kernel=periodic, estimator="biased", **options).statistic
    x, y, across = periodic(X).mean(), periodic(Y).mean(), periodic(X, Y).mean()
    assert statistic == pytest.approx(x + y - 2.0 * across, rel=1e-10)
    assert independence_test(X, X**2, kernel=(sklearn_kernel, periodic), **options).pvalue <= 1.0


def test_white_noise_kernel_is_refused():
    with pytest.raises(InputError, match="noise of one row"):
        two_sample_test(X, Y, kernel=kernels.RBF(1.0) + kernels.WhiteKernel(0.1))


@pytest.mark.slow
def test_sum_with_constants_has_smoothed_kernel_in_a_single_column():
    sklearn_kernel = (
        2.0 * kernels.RBF(0.7) * kernels.ConstantKernel(1.5) + kernels.RationalQuadratic()
    )
    kernel = from_sklearn(sklearn_kernel)
    assert isinstance(kernel, Kernel)
    assert np.isfinite(kernel.smoothed("unit", 1)(Y[:, :1])).all()
