"""Sums, products and multiples of kernels."""

import dataclasses
import operator

import bke.models as bk
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bke.models.measures import Gaussian

X = np.random.default_rng(21).gamma(2.0, size=(6, 2))
SE, LAPLACE, MATERN = bk.SquaredExponential(0.8), bk.Laplace([0.5, 2.0]), bk.Matern(2.5, 1.1)
RQ = bk.RationalQuadratic(1.3, 0.9)


@pytest.mark.parametrize("combine", [operator.add, operator.mul])
def test_associative_commutative(combine):
    left = combine(combine(SE, LAPLACE), RQ)
    right = combine(RQ, combine(LAPLACE, SE))
    np.testing.assert_allclose(left(X), right(X), rtol=1e-14)
    np.testing.assert_allclose(left.gradient(X), right.gradient(X), rtol=1e-12, atol=1e-16)


@pytest.mark.parametrize("number", [2, 2.0, np.float64(2.0), np.array(2.0)], ids=repr)
def test_multiplication_by_a_number(number):
    for kernel in (number * SE, SE * number):
        assert isinstance(kernel, bk.Scaled)
        np.testing.assert_allclose(kernel(X), 2.0 * SE(X), rtol=1e-14)


def test_jax_and_traced_numbers():
    with jax.enable_x64(True):
        assert isinstance(jnp.asarray(2.0) * SE, bk.Scaled)
        derivative = jax.jit(jax.grad(lambda v: (v * SE)(X).sum()))(3.0)
    assert derivative == pytest.approx(SE(X).sum(), rel=1e-14)


def test_invalid_operands():
    with pytest.raises(TypeError):
        SE + 1.0
    with pytest.raises(ValueError, match="variance must be a number"):
        (SE * [1.0, 2.0])(X)


def test_parts_are_attributes():
    kernel = 2.0 * SE + LAPLACE
    assert kernel.left.kernel is SE
    assert kernel.right is LAPLACE
    assert len(jax.tree.leaves(kernel)) == 4  # a list of two lengthscales counts twice


@pytest.mark.parametrize("measure", ["unit", "lebesgue", Gaussian(1.3, 0.2)], ids=str)
def test_smoothed_identities(measure):
    def r(kernel):
        return kernel.smoothed(measure, 2)(X)

    half = bk.GaussianMixture([0.8, 0.5], [1.0, 2.0])
    np.testing.assert_allclose(r(SE + 2.0 * bk.SquaredExponential(0.5)), r(half), rtol=1e-12)
    narrow = bk.SquaredExponential((1 / 0.8**2 + 1 / 0.5**2) ** -0.5)
    np.testing.assert_allclose(r(SE * bk.SquaredExponential(0.5)), r(narrow), rtol=1e-12)
    # cos u cos v = (cos(u + v) + cos(u - v)) / 2
    waves = bk.SpectralMixture(2.0, 0.3) * bk.SpectralMixture(3.0, 0.1)
    both = (1 / 4 + 1 / 9) ** -0.5
    same = bk.SpectralMixture([both, both], [0.4, 0.2])
    np.testing.assert_allclose(r(waves), r(same), rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(waves(X), same(X), rtol=1e-12, atol=1e-15)


def test_product_of_laplace_kernels_is_laplace():
    product = LAPLACE * (2.0 * bk.Laplace(0.7)) * bk.Laplace(3.0)
    rate = 1 / np.array([0.5, 2.0]) + 1 / 0.7 + 1 / 3.0
    for measure, factor in (("unit", 1.0), ("lebesgue", 4.0)):
        expected = factor * bk.Laplace(1 / rate).smoothed(measure, 2)(X)
        np.testing.assert_allclose(product.smoothed(measure, 2)(X), expected, rtol=1e-13)
    with pytest.raises(bk.SmoothingError, match=r"'unit'.*'lebesgue'"):
        product.smoothed(Gaussian(1.0), 2)


def test_polynomial_kernel_does_not_multiply():
    with pytest.raises(TypeError, match=r"unsupported operand type.* 'Polynomial'"):
        SE * bk.Polynomial()


@bk.register_dataclass
@dataclasses.dataclass(frozen=True)
class ZeroAt(bk.Kernel):
    """f(x) exp(-(x - y)^2 / 2) f(y) with f zero at one point only: characteristic."""

    zero: float

    characteristic = True

    def evaluate(self, x, y):
        f = jnp.prod(1.0 - jnp.exp(-((jnp.stack([x, y]) - self.zero) ** 2)))
        return f * jnp.exp(-0.5 * jnp.sum((x - y) ** 2))


def test_products_of_kernels_of_differences_are_characteristic():
    """Other products may embed different distributions, here two point masses, as the same."""
    first, second = ZeroAt(0.0), ZeroAt(1.0)
    points = np.array([[0.0], [1.0]])
    for kernel in (first, second):
        assert bk.squared_mmd(points[:1], points[1:], kernel, estimator="biased") > 0.1
    product = first * second
    assert bk.squared_mmd(points[:1], points[1:], product, estimator="biased") == 0.0
    assert product.characteristic is None
    assert (product * SE).characteristic is None
    assert (SE * MATERN).characteristic
    assert (SE + product).characteristic
