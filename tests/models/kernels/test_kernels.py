"""Identities every kernel satisfies; formulas in NumPy and derivatives by two other methods."""

import dataclasses

import bke.models as bk
import jax
import jax.numpy as jnp
import numpy as np
import pytest


def pairs(X, Y):
    return X[:, None, :] - Y[None, :, :]


@pytest.mark.one_in(45)
def test_value(case, dimension, points):
    X, Y = points
    gram = case.kernel(dimension)(X, Y)
    assert isinstance(gram, np.ndarray)
    assert gram.dtype == np.float64
    np.testing.assert_allclose(gram, case.formula(pairs(X, Y)), rtol=1e-12, atol=1e-15)


@pytest.mark.one_in(4)
def test_gram_is_symmetric_and_positive(case, dimension):
    X = np.random.default_rng(11).normal(size=(30, dimension))
    gram = case.kernel(dimension)(X)
    np.testing.assert_array_equal(gram, gram.T)
    assert np.linalg.eigvalsh(gram)[0] > -1e-12 * np.trace(gram)


@pytest.mark.one_in(2)
def test_gradient_against_finite_differences(case, dimension, points):
    X, Y = points
    step = 1e-5
    result = case.kernel(dimension).gradient(X, Y)
    for d in range(dimension):
        shift = step * np.eye(dimension)[d]
        up, down = case.formula(pairs(X + shift, Y)), case.formula(pairs(X - shift, Y))
        np.testing.assert_allclose(result[..., d], (up - down) / (2 * step), rtol=1e-6, atol=1e-8)


def test_gradient_is_zero_at_coincident_points(case, dimension, points):
    X, _ = points
    gradient = case.kernel(dimension).gradient(X)
    np.testing.assert_array_equal(gradient[np.arange(6), np.arange(6)], 0.0)


@pytest.mark.parametrize("kernel", [bk.Laplace(0.8), bk.Matern(0.5, 0.8)], ids=repr)
def test_tie_in_a_column(kernel):
    gradient = kernel.gradient([[1.0, 2.0]], [[1.0, 0.5]])
    assert gradient[0, 0, 0] == 0.0
    assert gradient[0, 0, 1] < 0.0


def scaled_by(kernel, factor):
    """The kernel with every length times ``factor``."""
    if isinstance(kernel, bk.Sum | bk.Product):
        return type(kernel)(scaled_by(kernel.left, factor), scaled_by(kernel.right, factor))
    if isinstance(kernel, bk.Scaled):
        return bk.Scaled(scaled_by(kernel.kernel, factor), kernel.variance)
    if isinstance(kernel, bk.FullSquaredExponential):
        return bk.FullSquaredExponential(factor**2 * kernel.covariance)
    lengthscale = factor * jnp.asarray(kernel.lengthscale)
    kernel = dataclasses.replace(kernel, lengthscale=lengthscale)
    if isinstance(kernel, bk.SpectralMixture):
        kernel = dataclasses.replace(kernel, frequency=kernel.frequency / factor)
    return kernel


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dimension", [2])
def test_parameter_gradients_are_finite(case, dimension, points):
    X = np.concatenate([points[0], points[0][:2]])  # with coincident points

    def log_size(kernel):
        log_scale, value, gradient = kernel.value_and_grad(jnp.asarray(X), jnp.asarray(X))
        size = value**2 + (gradient**2).sum(0)
        return (log_scale + 0.5 * jnp.log(size)).sum()

    with jax.enable_x64(True):
        gradient = jax.jit(jax.grad(log_size))
        for factor in (1e-3, 1.0, 1e3):
            result = gradient(scaled_by(case.kernel(dimension), factor))
            leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(result)]
            assert all(np.all(np.isfinite(leaf)) for leaf in leaves)
            assert any(np.any(leaf != 0.0) for leaf in leaves)


def log_gradients(ell, d):
    """Kernels with log |dk/dx| at x - y = d in one dimension, lengthscale ell."""
    t3, t5, gaussian = np.sqrt(3) * d / ell, np.sqrt(5) * d / ell, -0.5 * (d / ell) ** 2
    se, laplace = bk.SquaredExponential(ell), bk.Laplace(ell)
    yield se, np.log(d / ell**2) + gaussian
    yield bk.FullSquaredExponential([[ell**2]]), np.log(d / ell**2) + gaussian
    for kernel in (laplace, bk.Matern(0.5, ell)):
        yield kernel, -np.log(ell) - d / ell
    yield bk.Matern(1.5, ell), np.log(3 * d / ell**2) - t3
    yield bk.Matern(2.5, ell), np.log(5 / 3 * d / ell**2 * (1 + t5)) - t5
    rational = np.log(d / ell**2) - 2 * np.log1p(0.5 * (d / ell) ** 2)
    yield bk.RationalQuadratic(1.0, ell), rational
    yield se * laplace, np.log(d / ell**2 + 1 / ell) + gaussian - d / ell
    if ell == 1e-3:  # one part is all there is
        wide = np.log(d / (2 * ell) ** 2 / 2) + gaussian / 4
        yield bk.GaussianMixture([ell, 2 * ell]), wide
        yield se + laplace, -np.log(ell) - d / ell


@pytest.mark.parametrize("ell", [1e-3, 0.5, 1e3])
def test_log_derivative_where_exp_underflows(ell):
    for kernel, expected in log_gradients(ell, 3.0):
        with jax.enable_x64(True):
            terms = kernel.value_and_grad(jnp.array([[3.0]]), jnp.array([[0.0]]))
            result = terms.log_scale[0, 0] + jnp.log(-terms.gradient[0, 0, 0])
        np.testing.assert_allclose(result, expected, rtol=1e-12, err_msg=repr(kernel))


def test_spectral_mixture_keeps_the_sign_where_exp_underflows():
    kernel = bk.SpectralMixture(1e-3, 250.0)
    with jax.enable_x64(True):
        log_scale, value, gradient = kernel.value_and_grad(jnp.array([[1.001]]), jnp.array([[0.0]]))
    delta, turn = 1.001, 2 * np.pi * 250.0
    assert log_scale[0, 0] == pytest.approx(-0.5 * delta**2 * 1e6, rel=1e-12)
    assert value[0, 0] == pytest.approx(np.cos(turn * delta), abs=1e-9)
    expected = -delta * 1e6 * np.cos(turn * delta) - turn * np.sin(turn * delta)
    assert gradient[0, 0, 0] == pytest.approx(expected, rel=1e-9)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dimension", [2])
def test_jit_vmap_and_pytree_round_trip(case, dimension, points):
    X, Y = points
    kernel = case.kernel(dimension)
    expected = kernel(X, Y)
    with jax.enable_x64(True):
        inside = jax.jit(lambda k, X, Y: k(X, Y))(kernel, jnp.asarray(X), jnp.asarray(Y))
        leaves, structure = jax.tree.flatten(kernel)
        again = jax.tree.unflatten(structure, [jnp.asarray(leaf) for leaf in leaves])
        batch = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), again)
        batched = jax.vmap(lambda k: k(X, Y))(batch)
    assert type(again) is type(kernel)
    np.testing.assert_allclose(inside, expected, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(batched[1], expected, rtol=1e-12, atol=1e-15)


def test_inside_a_trace_double_precision_is_required():
    with jax.enable_x64(False), pytest.raises(RuntimeError, match="jax_enable_x64"):
        jax.grad(lambda ell: bk.Matern(1.5, ell)(np.zeros((2, 1))).sum())(1.0)


BAD = {"negative": -1.0, "zero": 0.0, "NaN": np.nan, "infinite": np.inf, "entry": [1.0, -1.0]}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
@pytest.mark.parametrize(
    ("make", "name"),
    [
        *(
            (lambda bad, kernel=kernel: kernel(lengthscale=bad), "lengthscale")
            for kernel in (bk.GaussianMixture, bk.SpectralMixture, bk.Laplace, bk.RationalQuadratic)
        ),
        (lambda bad: bk.Matern(1.5, bad), "lengthscale"),
        (lambda bad: bk.GaussianMixture([1.0, 2.0], weights=bad), "weights"),
        (lambda bad: bk.SpectralMixture([1.0, 2.0], weights=bad), "weights"),
        (lambda bad: bk.RationalQuadratic(alpha=bad), "alpha"),
        (lambda bad: bad * bk.Laplace(), "variance"),
        (bk.FullSquaredExponential, "covariance"),
    ],
)
def test_parameters_must_be_positive(make, name, bad):
    with pytest.raises(ValueError, match=f"{name} must be"):
        make(bad)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: bk.SpectralMixture(1.0, np.nan), "frequency must be finite"),
        *(
            (lambda nu=nu: bk.Matern(nu), "nu must be 0.5, 1.5 or 2.5")
            for nu in (1.0, -0.5, np.nan)
        ),
        (lambda: bk.FullSquaredExponential([[1.0, 2.0], [2.0, 1.0]]), "positive definite"),
        (lambda: bk.FullSquaredExponential([[1.0, 0.1], [0.2, 1.0]]), "symmetric"),
        (lambda: bk.RationalQuadratic([1.0, 2.0]), "alpha must be a number"),
    ],
)
def test_other_bad_parameters(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (bk.Laplace([1.0, 2.0, 3.0]), "one entry per column"),
        (bk.Matern(0.5, np.ones((2, 2))), "one entry per column"),
        (bk.RationalQuadratic(1.0, [1.0, 2.0, 3.0]), "one entry per column"),
        (bk.FullSquaredExponential(np.eye(3)), r"shape \(2, 2\)"),
        (bk.GaussianMixture([1.0, 2.0], [1.0, 2.0, 3.0]), "one entry per component"),
        (bk.SpectralMixture(np.ones((2, 3)), 1.0), r"shape \(2,\) or \(2, 2\)"),
        (bk.SpectralMixture([1.0, 2.0], [1.0, 2.0, 3.0]), r"frequency must be"),
    ],
    ids=repr,
)
def test_wrong_shape_for_two_columns(kernel, message):
    with pytest.raises(ValueError, match=message):
        kernel(np.zeros((3, 2)))


@pytest.mark.parametrize("distant", [0.0, 1e9], ids=["near", "a distant row"])
def test_squared_exponential_in_150_columns(distant):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(6, 150)), rng.normal(size=(5, 150))
    Y[0] = X[0] + 1e-3  # where |x|^2 + |y|^2 - 2 x'y cancels
    Y[1] += distant
    lengthscale = np.linspace(3.0, 20.0, 150)
    expected = np.exp(-0.5 * np.sum(((X[:, None] - Y) / lengthscale) ** 2, axis=2))
    np.testing.assert_allclose(bk.SquaredExponential(lengthscale)(X, Y), expected, rtol=1e-9)
