"""The smoothed kernel r against numerical integration of its definition, BKE (4)."""

import dataclasses
import inspect
import itertools
import math

import bke.models as bk
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bke.models.measures import Gaussian
from scipy import integrate

NU = Gaussian(np.array([0.9, 1.7, 1.2]), np.array([0.3, -0.5, 0.1]))


def measure_on(dimension):
    return Gaussian(NU.scale[:dimension], NU.center[:dimension])


def density(measure, u):
    if not isinstance(measure, Gaussian):
        return np.ones(u.shape[:-1])
    return np.exp(-0.5 * (((u - measure.center) / measure.scale) ** 2).sum(-1))


def by_quad(formula, x, y, measure):
    """int k(x - u) k(u - y) nu(du) in one dimension, split at the kinks."""

    def integrand(u):
        u = np.array([u])
        return float(formula(x - u) * formula(u - y) * density(measure, u))

    low, high = sorted([x[0], y[0]])
    cuts = [-np.inf, low - 4.0, low, 0.5 * (low + high), high, high + 4.0, np.inf]
    options = {"epsabs": 1e-13, "epsrel": 1e-11, "limit": 200}
    return sum(integrate.quad(integrand, a, b, **options)[0] for a, b in itertools.pairwise(cuts))


def by_grid(formula, x, y, measure, step, reach=9.0):
    """The same for smooth kernels in any dimension; the trapezoid rule converges exponentially."""
    axis = np.arange(-reach, reach, step)
    u = np.stack(np.meshgrid(*[axis + 0.5 * (a + b) for a, b in zip(x, y, strict=True)]), -1)
    return (formula(x - u) * formula(u - y) * density(measure, u)).sum() * step ** len(x)


def by_spheroids(radial, c, dimension, reach):
    """int k(|u - x|) k(|u - y|) du for |x - y| = 2 c > 0 in D >= 2, spheroidal coordinates.

    With foci x and y the distances are c (cosh m +- cos a), so that a kink at either is no kink.
    """
    nodes, weights = np.polynomial.legendre.leggauss(40)
    edges = np.linspace(0.0, reach, 13)
    half = np.diff(edges)[:, None] / 2
    m = (edges[:-1, None] + half * (nodes + 1)).ravel()[:, None]
    w_m = (half * weights).ravel()[:, None]
    a, w_a = np.pi / 2 * (nodes + 1), np.pi / 2 * weights
    ch, co = np.cosh(m), np.cos(a)
    volume = c**dimension * (ch**2 - co**2) * (np.sinh(m) * np.sin(a)) ** (dimension - 2)
    sphere = 2 * np.pi ** ((dimension - 1) / 2) / math.gamma((dimension - 1) / 2)
    return sphere * (radial(c * (ch + co)) * radial(c * (ch - co)) * volume * w_m * w_a).sum()


MEASURES = {"lebesgue": lambda D: "lebesgue", "Gaussian": measure_on}


@pytest.mark.one_in(6)
def test_a_single_dimension(smoothable):
    for measure in ["lebesgue"] + [measure_on(1)] * smoothable.gaussian:
        r = smoothable.kernel(1).smoothed(measure, 1)
        for x, y in [(0.2, 0.2), (-0.6, 0.5), (1.4, -0.7)]:
            x, y = np.array([x]), np.array([y])
            expected = by_quad(smoothable.formula, x, y, measure)
            np.testing.assert_allclose(r(x, y)[0, 0], expected, rtol=1e-9, atol=1e-11)


@pytest.mark.one_in(25)
@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize(("D", "step"), [(2, 0.05), (3, 0.2)])
def test_gaussian_family_in_more_dimensions(gaussian_case, measure, D, step):
    nu = MEASURES[measure](D)
    r = gaussian_case.kernel(D).smoothed(nu, D)
    X = np.array([[0.2, 0.5, 0.3], [-0.6, 0.1, 0.7]])[:, :D]
    Y = np.array([[0.2, 0.5, 0.3], [0.4, -0.3, 0.2]])[:, :D]
    for x, y in [(X[0], Y[0]), (X[1], Y[1])]:
        # In three dimensions the grid is as fine as the narrow products need.
        fine = (0.1, 5.0) if D == 3 and gaussian_case.name == "Gaussian product" else (step,)
        expected = by_grid(gaussian_case.formula, x, y, nu, *fine)
        np.testing.assert_allclose(r(x[None], y[None])[0, 0], expected, rtol=1e-9, atol=1e-11)
    assert not r.numerical


@pytest.mark.parametrize("D", [2, 3])
def test_laplace_is_a_product_over_columns(D):
    lengthscale = np.array([0.7, 1.3, 0.4])[:D]
    x, y = np.array([0.2, -0.6, 1.0])[:D], np.array([0.9, 0.3, 0.8])[:D]
    expected = 1.0
    for d in range(D):
        column = by_quad(
            lambda u, d=d: np.exp(-np.abs(u[..., 0]) / lengthscale[d]), x[d:][:1], y[d:][:1], None
        )
        expected *= column
    r = bk.Laplace(lengthscale).smoothed("lebesgue", D)
    np.testing.assert_allclose(r(x[None], y[None])[0, 0], expected, rtol=1e-10)
    assert not r.numerical


RADIAL = {
    0.5: lambda t: np.exp(-t),
    1.5: lambda t: (1 + t) * np.exp(-t),
    2.5: lambda t: (1 + t + t**2 / 3) * np.exp(-t),
}


@pytest.mark.one_in(5)
@pytest.mark.parametrize("nu", RADIAL)
@pytest.mark.parametrize("D", range(2, 11))
def test_matern(nu, D):
    """Different lengthscales reduce to equal ones by a change of variables."""
    lengthscale = np.linspace(0.6, 1.5, D)
    kernel = bk.Matern(nu, lengthscale)
    r = kernel.smoothed("lebesgue", D)
    direction = np.random.default_rng(D).normal(size=D)
    direction /= np.linalg.norm(direction)

    def radial(rho):
        return RADIAL[nu](np.sqrt(2 * nu) * rho)

    for distance in (1e-3, 0.3, 2.0, 8.0):
        reach = np.arccosh(1.0 + 90.0 / distance)
        expected = by_spheroids(radial, distance / 2, D, reach) * lengthscale.prod()
        result = r(np.zeros((1, D)), (distance * lengthscale * direction)[None])[0, 0]
        np.testing.assert_allclose(result, expected, rtol=1e-9)
    sphere = 2 * np.pi ** (D / 2) / math.gamma(D / 2)
    radius = lambda rho: radial(rho) ** 2 * rho ** (D - 1)  # noqa: E731
    at_zero = sphere * integrate.quad(radius, 0, 80, epsrel=1e-12, limit=400)[0]
    np.testing.assert_allclose(r(np.zeros((1, D)))[0, 0], at_zero * lengthscale.prod(), rtol=1e-10)
    assert r.numerical == (D % 2 == 0)


def rational_quadratic_by_integration(alpha, distance, D):
    def radial(rho):
        return (1 + rho**2 / (2 * alpha)) ** -alpha

    if D > 1:
        reach = min(40.0 / (4 * alpha - D) + 10.0, 300.0)
        return by_spheroids(radial, distance / 2, D, reach)
    step = 2e-3
    v = np.arange(-6.0, 6.0 + step / 2, step)  # sinh-sinh rule: both tails are powers
    u = np.sinh(np.pi / 2 * np.sinh(v))
    jacobian = np.pi / 2 * np.cosh(v) * np.cosh(np.pi / 2 * np.sinh(v))
    return (radial(u - distance / 2) * radial(u + distance / 2) * jacobian).sum() * step


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("alpha", "D"),
    [
        *[(0.4, 1), (0.5, 1), (1.0, 1), (3.0, 1), (50.0, 1)],
        *[(0.75, 2), (1.0, 2), (4.0, 2), (1.0, 3), (1.5, 3), (2.0, 4)],
    ],
)
def test_rational_quadratic(alpha, D):
    lengthscale = np.linspace(0.6, 1.5, D)
    r = bk.RationalQuadratic(alpha, lengthscale).smoothed("lebesgue", D)
    assert r.numerical
    direction = np.random.default_rng(D).normal(size=D)
    direction /= np.linalg.norm(direction)
    for distance in (0.1, 1.0, 4.0):
        expected = rational_quadratic_by_integration(alpha, distance, D) * lengthscale.prod()
        result = r(np.zeros((1, D)), (distance * lengthscale * direction)[None])[0, 0]
        np.testing.assert_allclose(result, expected, rtol=1e-8)


@pytest.mark.parametrize("measure", ["unit", "lebesgue"])
def test_rational_quadratic_with_too_heavy_tails(measure):
    with pytest.raises(bk.SmoothingError, match=r"alpha > D/4 = 1, got alpha = 1"):
        bk.RationalQuadratic().smoothed(measure, 4)
    with jax.enable_x64(True):
        value = jax.jit(lambda a: bk.RationalQuadratic(a).smoothed(measure, 4)(np.zeros((1, 4))))
        assert np.isnan(value(1.0)).all()
        assert np.isfinite(value(1.1)).all()


@pytest.mark.one_in(40)
def test_symmetric_positive_and_unit(smoothable, dimension, points):
    X, Y = points
    kernel = smoothable.kernel(dimension)
    lebesgue, unit = (kernel.smoothed(m, dimension) for m in ("lebesgue", "unit"))
    covariances = [lebesgue, unit]
    if smoothable.gaussian:
        covariances.append(kernel.smoothed(measure_on(dimension), dimension))
    for r in covariances:
        np.testing.assert_allclose(r(X, Y), r(Y, X).T, rtol=1e-12, atol=1e-15)
        gram = r(X)
        assert gram.dtype == np.float64
        assert np.linalg.eigvalsh(gram)[0] > -1e-12 * np.trace(gram)
    at_zero = np.diag(lebesgue(X))
    np.testing.assert_allclose(unit(X, Y), lebesgue(X, Y) / at_zero, rtol=1e-12, atol=1e-16)
    np.testing.assert_allclose(np.diag(unit(X)), 1.0, rtol=1e-13)
    assert unit.numerical == lebesgue.numerical


@pytest.mark.parametrize("ell", [1e-3, 1e3])
def test_no_cancellation_at_large_coordinates(ell):
    """r of nearby points 1e6 lengthscales away, against the stationary part."""
    x, y = np.array([[1e6 * ell]]), np.array([[1e6 * ell + 0.5 * ell]])
    nu = Gaussian(1e9 * ell, 0.0)
    delta = (y - x)[0, 0]
    for kernel in (bk.GaussianMixture([ell]), bk.SpectralMixture([ell], [0.3 / ell])):
        ratio = kernel.smoothed(nu, 1)(x, y) / kernel.smoothed(nu, 1)(x, x)
        unit = kernel.smoothed("unit", 1)(np.zeros((1, 1)), np.array([[delta]]))
        np.testing.assert_allclose(ratio, unit, rtol=1e-8)


@pytest.mark.one_in(16)
@pytest.mark.parametrize("dimension", [2])
def test_parameter_gradients_are_finite(smoothable, dimension, points):
    """With coincident points, and lengthscales of 1e-3 to 1e3 times the spread of the data."""
    X = np.concatenate([points[0][:3], points[0][:2]])
    kernel = smoothable.kernel(dimension)
    measures = ["unit", "lebesgue"] + [measure_on(dimension)] * smoothable.gaussian

    def total(kernel, X):
        return sum((kernel.smoothed(measure, dimension)(X) ** 2).sum() for measure in measures)

    with jax.enable_x64(True):
        gradient = jax.jit(jax.grad(total))
        for factor in (1e-3, 1.0, 1e3):
            leaves = jax.tree.leaves(gradient(kernel, jnp.asarray(X * factor)))
            assert all(np.all(np.isfinite(leaf)) for leaf in leaves)
            assert any(np.any(np.asarray(leaf) != 0.0) for leaf in leaves)


@pytest.mark.one_in(16)
def test_derivative_in_the_parameters(smoothable):
    """Reverse and forward mode against finite differences of the eager values, D = 2."""
    X = np.random.default_rng(8).normal(size=(4, 2))
    kernel = jax.tree.map(np.asarray, smoothable.kernel(2))
    leaves, structure = jax.tree.flatten(kernel)
    rng = np.random.default_rng(9)
    directions = [rng.normal(size=leaf.shape) * 0.1 for leaf in leaves]
    directions = [d + d.T if d.shape == (2, 2) else d for d in directions]
    measures = ["lebesgue"] + [measure_on(2)] * smoothable.gaussian
    for measure in measures:

        def total(kernel, measure=measure):
            return (kernel.smoothed(measure, 2)(X) ** 2).sum()

        def along(step, total=total):
            moved = [a + step * b for a, b in zip(leaves, directions, strict=True)]
            return total(jax.tree.unflatten(structure, moved))

        with jax.enable_x64(True):
            gradient = jax.tree.leaves(jax.jit(jax.grad(total))(kernel))
            reverse = float(sum((g * d).sum() for g, d in zip(gradient, directions, strict=True)))
            if measure == "lebesgue":
                forward = float(jax.jit(jax.jacfwd(along))(0.0))
                assert forward == pytest.approx(reverse, rel=1e-10)
        step = 1e-4
        difference = (along(step) - along(-step)) / (2 * step)
        assert reverse == pytest.approx(difference, rel=1e-5)


@pytest.mark.one_in(16)
@pytest.mark.parametrize("dimension", [2])
def test_jit_and_vmap(smoothable, dimension, points):
    X, Y = points
    kernel = smoothable.kernel(dimension)
    expected = kernel.smoothed("lebesgue", dimension)(X, Y)
    with jax.enable_x64(True):
        r = kernel.smoothed("lebesgue", dimension)
        inside = jax.jit(lambda r, X: r(X, Y))(r, jnp.asarray(X))
        run = jax.jit(jax.vmap(lambda k: k.smoothed("lebesgue", dimension)(X, Y)))
        batched = run(jax.tree.map(lambda leaf: jnp.stack([jnp.asarray(leaf)] * 2), kernel))
    np.testing.assert_allclose(inside, expected, rtol=1e-11, atol=1e-15)
    np.testing.assert_allclose(batched[1], expected, rtol=1e-11, atol=1e-15)


@pytest.mark.parametrize(
    "kernel",
    [bk.Matern(0.5), bk.Laplace(), bk.RationalQuadratic(), 2.0 * bk.Laplace()],
    ids=repr,
)
def test_missing_form_names_the_measures(kernel):
    with pytest.raises(bk.SmoothingError, match=r"'unit'.*'lebesgue'"):
        kernel.smoothed(Gaussian(1.0), 1)


COMBINATIONS = [
    bk.Matern(1.5, 0.7) + bk.SquaredExponential(1.3),
    2.0 * bk.Matern(1.5) * bk.Laplace(0.4),
    bk.RationalQuadratic(1.0) + 0.5 * bk.SquaredExponential(),
]


@pytest.mark.parametrize("measure", ["unit", "lebesgue", Gaussian(1.0)], ids=str)
@pytest.mark.parametrize("kernel", COMBINATIONS, ids=repr)
def test_combination_without_a_form(kernel, measure):
    with pytest.raises(bk.SmoothingError, match=r"nor for any other.*have r for every measure"):
        kernel.smoothed(measure, 2)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", COMBINATIONS, ids=repr)
def test_combination_in_1d_is_the_integral(kernel):
    lebesgue, unit = kernel.smoothed("lebesgue", 1), kernel.smoothed("unit", 1)
    X, origin = np.array([[0.0], [0.3], [1.7]]), np.zeros((1, 1))
    assert lebesgue.numerical
    assert unit.numerical
    with jax.enable_x64(True):
        nodes, step = np.linspace(-400.0, 400.0, 400001, retstep=True)
        products = kernel(X, nodes[:, None]) * kernel(origin, nodes[:, None])
    expected = integrate.simpson(products, dx=step)[:, None]  # whose even nodes hold the kinks
    np.testing.assert_allclose(lebesgue(X, origin), expected, rtol=1e-6)
    np.testing.assert_allclose(unit(X, origin), expected / expected[0], rtol=1e-6)
    with pytest.raises(bk.SmoothingError, match="use measure='unit'"):
        kernel.smoothed(Gaussian(1.0), 1)


@pytest.mark.slow
def test_combination_without_an_integral():
    kernel = bk.SquaredExponential() + bk.RationalQuadratic(0.2)
    with pytest.raises(bk.SmoothingError, match="does not exist"):
        kernel.smoothed("unit", 1)


@pytest.mark.slow
def test_every_plain_kernel_has_a_form_at_default_settings():
    for name in bk.__all__:
        kernel = getattr(bk, name)
        if not (inspect.isclass(kernel) and issubclass(kernel, bk.Covariance)):
            continue
        if kernel in (bk.Covariance, bk.Kernel, bk.Stationary, bk.Radial):
            continue
        if kernel in (bk.Sum, bk.Product, bk.Scaled):  # of given kernels
            continue
        if kernel in (bk.Dirac, bk.Distance, bk.Polynomial, bk.Rotation):  # not of the model
            assert not issubclass(kernel, bk.Kernel)
            continue
        kernel = kernel(1.5) if kernel is bk.Matern else kernel()
        assert dataclasses.is_dataclass(kernel)
        for D in (1, 2, 3):
            assert np.isfinite(kernel.smoothed("unit", D)(np.zeros((2, D)))).all()


@pytest.mark.slow
def test_extreme_ratio_of_lengths_gives_nan():
    kernel = 2.0 * bk.SquaredExponential(1e-5) + bk.RationalQuadratic()
    assert np.isnan(kernel.smoothed("unit", 1)(np.array([0.0, 0.5]))).all()
