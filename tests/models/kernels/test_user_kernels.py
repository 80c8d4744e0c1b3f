"""User-defined kernels: classes, functions and import paths, smoothed numerically."""

import dataclasses
import pickle
import re
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from bke.models import (
    Gaussian,
    Kernel,
    Matern,
    Radial,
    RationalQuadratic,
    SmoothingError,
    SquaredExponential,
    Stationary,
    kernel_from_function,
    kernel_from_path,
    log_jacobian,
    log_marginal_likelihood,
    parameter,
    register_dataclass,
)
from bke.models.kernels.base import invalid_kernel_message
from bke.models.kernels.smoothing import NodesCovariance, TabulatedCovariance, autocorrelation
from bke.models.priors import assign, sites, template

X1 = np.random.default_rng(0).normal(size=(12, 1))
X2 = np.random.default_rng(1).normal(size=(12, 2)) * [1.0, 3.0]


pytestmark = pytest.mark.usefixtures("x64")


@register_dataclass
@dataclasses.dataclass(frozen=True)
class OnLine(Stationary):
    width: Any = parameter(1.0, unit="length")

    def log_evaluate(self, x, y):
        return -0.5 * jnp.sum(((x - y) / self.width) ** 2)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Ball(Radial):
    lengthscale: Any = 1.0

    def evaluate_distance(self, rho):
        return jnp.exp(-0.5 * rho**2)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Kinked(Stationary):
    lengthscale: Any = 1.0

    def evaluate(self, x, y):
        return jnp.exp(-jnp.sqrt(jnp.sum(((x - y) / self.lengthscale) ** 2)))


def gaussian_plus_linear(x, y, *, lengthscale=1.5, slope=0.5):
    """Not stationary: its gradient at x itself is not zero."""
    return jnp.exp(-jnp.sum(((x - y) / lengthscale) ** 2)) + slope * jnp.dot(x, y)


def rows(distances, dimension):
    return np.asarray(distances)[:, None] * np.eye(dimension)[:1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "dimension", "tolerance"),
    [
        (SquaredExponential(1.0), 1, 1e-12),
        (Matern(0.5), 1, 1e-12),
        (RationalQuadratic(2.0), 1, 1e-7),
        (SquaredExponential(1.0), 2, 1e-7),
        (Matern(1.5), 3, 1e-7),
    ],
)
@pytest.mark.parametrize("unit", [1e-3, 200.0])
def test_table_matches_the_closed_form(kernel, dimension, tolerance, unit):
    """The kernel may decay on any scale, since the rule adapts its scale."""

    def of_distance(distance):
        terms = kernel.value_and_decay((distance / unit) ** 2)
        return jnp.exp(terms.log_scale) * terms.value

    distances = np.concatenate([[0.0], np.geomspace(1e-3, 30.0, 40)])
    origin = jnp.zeros((1, dimension))
    table = jax.jit(lambda: autocorrelation(of_distance, dimension, relative=False))()
    covariance = TabulatedCovariance(*table, jnp.ones(1))
    result = covariance.matrix(unit * jnp.asarray(rows(distances, dimension)), origin)[:, 0]
    exact = kernel.smoothed("lebesgue", dimension)(rows(distances, dimension), origin)[:, 0]
    np.testing.assert_allclose(result / unit**dimension, exact, rtol=0, atol=tolerance * exact[0])


@pytest.mark.parametrize(
    ("lengthscale", "dimension", "tolerance"),
    [(0.1, 1, 1e-12), (0.7, 2, 1e-12), (1.0, 3, 2.5e-3), (1.0, 5, 1e-2)],
)
def test_fixed_nodes_match_the_closed_form(lengthscale, dimension, tolerance):
    X = 2.0 * np.random.default_rng(0).normal(size=(30, dimension)) + 1.0
    kernel, measure = SquaredExponential(2.0 * lengthscale), Gaussian(2.0, 1.0)
    exact = np.asarray(kernel.smoothed(measure, dimension)(X))
    result = np.asarray(NodesCovariance(kernel, measure)(X))
    np.testing.assert_allclose(result, exact, rtol=0, atol=tolerance * exact.max())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("user_kernel", "closed_form", "X", "tolerance"),
    [
        (OnLine, SquaredExponential, X1, 1e-9),
        (Ball, SquaredExponential, X1, 1e-9),
        (Ball, SquaredExponential, X2, 1e-6),
        # With a kink at equal rows, where the gradient is zero.
        (Kinked, lambda scale: Matern(0.5, scale), np.append(X1, X1[:1]), 1e-6),
    ],
)
def test_user_kernel_has_the_likelihood_and_gradient_of_the_closed_form(
    user_kernel, closed_form, X, tolerance
):
    def value(family, scale):
        return log_marginal_likelihood(X, family(scale), likelihood="dense")

    result = jax.value_and_grad(lambda s: value(user_kernel, s))(0.4)
    expected_kernel = jax.value_and_grad(lambda s: value(closed_form, s))(0.4)
    np.testing.assert_allclose(result, expected_kernel, rtol=tolerance)


def test_a_logarithm_does_not_underflow():
    distant = np.array([0.0, 100.0, 250.0])
    np.testing.assert_allclose(
        log_jacobian(distant, OnLine(1.0)), log_jacobian(distant, SquaredExponential())
    )


@pytest.mark.slow
def test_nonstationary_kernel_has_gradient_at_equal_points():
    kernel = kernel_from_function(gaussian_plus_linear)

    def embedding(x):
        return jnp.mean(jax.vmap(lambda y: gaussian_plus_linear(x, y))(jnp.asarray(X2)))

    gradients = jax.vmap(jax.grad(embedding))(jnp.asarray(X2))  # with the sample itself
    expected = np.log(np.linalg.norm(gradients, axis=1))
    np.testing.assert_allclose(log_jacobian(X2, kernel), expected, rtol=1e-12)


def test_any_kernel_has_r_for_a_gaussian_measure():
    value = log_marginal_likelihood(
        X2, kernel_from_function(gaussian_plus_linear), measure=Gaussian(3.0)
    )
    assert np.isfinite(value)
    with pytest.raises(SmoothingError, match="measure=Gaussian"):
        log_marginal_likelihood(X2, kernel_from_function(gaussian_plus_linear))


def test_functions_by_their_path():
    kernel = kernel_from_function(gaussian_plus_linear, units={"slope": "1/length"})
    again = pickle.loads(pickle.dumps(kernel))
    assert again == kernel
    assert type(again) is type(kernel)
    assert {name: site.unit for name, site in sites(kernel).items()} == {
        "lengthscale": "length",
        "slope": "1/length",
    }
    with pytest.raises(ValueError, match=r"missing a required .*'width'"):
        kernel_from_function(lambda x, y, *, width: 1.0)
    with pytest.raises(ValueError, match="units names"):
        kernel_from_function(gaussian_plus_linear, units={"width": "length"})


def test_kernels_by_their_path(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "kernels_by_path.py").write_text(
        "from bke.models import SquaredExponential, Matern\n"
        "kernel = 2.0 * Matern(1.5)\n"
        "def product(x, y, *, lengthscale=0.5):\n    return 1.0\n"
        "number = 3\n"
    )
    try:
        assert kernel_from_path("kernels_by_path:SquaredExponential") is SquaredExponential
        assert kernel_from_path("kernels_by_path:kernel") == 2.0 * Matern(1.5)
        assert kernel_from_path("kernels_by_path:product").lengthscale == 0.5
        for path, message in (
            ("kernels_by_path:number", "is no kernel"),
            ("kernels_by_path:other", "has no 'other'"),
            ("no_such_module:Kernel", "'no_such_module' cannot be imported"),
            ("SquaredExponential", "form module:name"),
        ):
            with pytest.raises(ValueError, match=message):
                kernel_from_path(path)
    finally:
        sys.modules.pop("kernels_by_path", None)


def test_random_parameters_by_default():
    @register_dataclass
    @dataclasses.dataclass(frozen=True)
    class Several(Kernel):
        width: Any = parameter(1.0, unit="length")
        shape: Any = parameter(1.0, prior=dist.Beta(2.0, 2.0))
        height: Any = parameter(1.0)

    result = assign(None, Several())
    assert set(result) == {"width", "shape"}
    assert (result["width"].concentration, result["width"].rate) == (1.0, 1.0)
    assert isinstance(result["shape"], dist.Beta)
    assert isinstance(assign(dist.LogNormal(), Several())["shape"], dist.Beta)
    assert set(assign({"height": dist.Gamma(1.0)}, Several())) == {"height"}
    with pytest.raises(ValueError, match="positive support"):
        assign({"width": dist.Normal()}, Several())
    with pytest.raises(ValueError, match="unit must be one of"):
        parameter(1.0, unit="meter")


def test_unregistered_class_is_refused():
    @dataclasses.dataclass(frozen=True)
    class Forgotten(Kernel):
        lengthscale: Any = 1.0

    with pytest.raises(ValueError, match="register_dataclass"):
        template(Forgotten)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Tailed(Radial):
    """(1 + rho^2)^(-power): its square has an integral where power > D/4."""

    power: Any = 1.0
    lengthscale: Any = 1.0

    def evaluate_distance(self, rho):
        return (1.0 + rho**2) ** -self.power


def slow(x, y, *, lengthscale=1.0):
    return (1.0 + jnp.sum(((x - y) / lengthscale) ** 2)) ** -0.2


def periodic(x, y, *, lengthscale=1.0):
    return jnp.exp(-2.0 * jnp.sum(jnp.sin((x - y) / lengthscale) ** 2) / lengthscale**2)


def wave(x, y, *, lengthscale=1.0):
    return jnp.cos(jnp.sum((x - y) / lengthscale))


WITHOUT_INTEGRAL = [
    (Tailed(1.0), 4),
    (Tailed(0.5), 2),
    *((kernel_from_function(function, stationary=True), 1) for function in (slow, periodic, wave)),
]


@pytest.mark.parametrize("measure", ["unit", "lebesgue"])
@pytest.mark.parametrize(("kernel", "dimension"), WITHOUT_INTEGRAL, ids=lambda v: type(v).__name__)
@pytest.mark.one_in(6)
def test_missing_integral(kernel, dimension, measure):
    """Refused by name where the parameters are known, also inside a program, and else NaN."""
    X = np.random.default_rng(0).normal(size=(3, dimension))
    with pytest.raises(SmoothingError, match=r"does not exist .*measure=Gaussian"):
        kernel.smoothed(measure, dimension)
    with pytest.raises(SmoothingError, match="does not exist"):
        jax.eval_shape(lambda: kernel.smoothed(measure, dimension))
    traced = jax.jit(lambda kernel: kernel.smoothed(measure, dimension)(X))(kernel)
    assert np.isnan(traced).all()
    assert np.isfinite(kernel.smoothed(Gaussian(1.0), dimension)(X)).all()


@pytest.mark.parametrize("dimension", [1, 3])
@pytest.mark.slow
def test_integrable_long_tail(dimension):
    """The rational quadratic with alpha = power has the same tail."""
    power = 0.25 * dimension + 0.3
    user_kernel = Tailed(power, np.sqrt(2.0 * power)).smoothed("unit", dimension)
    expected_kernel = RationalQuadratic(power).smoothed("unit", dimension)
    X = np.random.default_rng(0).normal(size=(5, dimension))
    np.testing.assert_allclose(user_kernel(X), expected_kernel(X), rtol=1e-5)


@pytest.mark.parametrize("dimension", [1, 2])
@pytest.mark.slow
def test_sums_and_products_are_smoothed_as_any_kernel(dimension):
    """For a Gaussian measure always; in one column for the others as well."""
    X = np.random.default_rng(0).normal(size=(8, dimension))
    for user_kernel, expected_kernel in (
        (OnLine(0.9) + 2.0 * OnLine(1.4), SquaredExponential(0.9) + 2.0 * SquaredExponential(1.4)),
        (OnLine(0.9) * SquaredExponential(2.0), SquaredExponential(0.9) * SquaredExponential(2.0)),
    ):
        for measure in (Gaussian(1.0, 0.2), "unit", "lebesgue"):
            if dimension == 2 and isinstance(measure, str):
                with pytest.raises(SmoothingError, match="take measure=Gaussian"):
                    user_kernel.smoothed(measure, 2)
                continue
            r, exact = (
                user_kernel.smoothed(measure, dimension),
                expected_kernel.smoothed(measure, dimension)(X),
            )
            assert r.numerical
            np.testing.assert_allclose(r(X), exact, rtol=0, atol=1e-9 * np.max(exact))


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Rough(Kinked):
    allow_fixed_nodes = False


@pytest.mark.parametrize("measure", ["unit", "lebesgue", Gaussian(1.0)], ids=str)
def test_error_names_only_measures_that_work(measure):
    """A kernel with a kink has r in one column; in two the message names a remedy."""
    with pytest.raises(SmoothingError, match=r"no smoothed kernel.*nor for any other") as refused:
        Rough().smoothed(measure, 2)
    assert "take measure" not in str(refused.value)
    assert "use measure" not in str(refused.value)
    if isinstance(measure, str):
        jax.eval_shape(lambda: Rough().smoothed(measure, 1))  # only refusal is checked, not values
    else:
        with pytest.raises(SmoothingError, match="use measure='unit'"):
            Rough().smoothed(measure, 1)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (SquaredExponential, "give an instance, such as SquaredExponential()"),
        (lambda x, y: 1.0, "kernel_from_function makes"),
        ("rbf", "got 'rbf'$"),
    ],
    ids=["class", "function", "name"],
)
def test_invalid_kernel_message(value, message):
    assert re.search(message, invalid_kernel_message(value, "a kernel"))


def test_a_function_of_numpy_is_refused():
    kernel = kernel_from_function(lambda x, y: np.exp(-np.sum((x - y) ** 2)), stationary=True)
    with pytest.raises(TypeError, match="with those of jax"):
        kernel(np.ones((2, 1)))


def test_length_per_column_must_be_summed():
    kernel = kernel_from_function(
        lambda x, y, *, lengthscale: jnp.exp(-jnp.sum((x - y) ** 2) / lengthscale**2),
        {"lengthscale": np.array([1.0, 2.0])},
    )
    with pytest.raises(ValueError, match="divide x - y by it before the sum"):
        kernel(X2)


@pytest.mark.parametrize("parameters", [None, {}, {"v": 1.0}])
def test_a_function_that_needs_other_arguments(parameters):
    with pytest.raises(ValueError, match=r"cannot be called with x, y and .*: missing|unexpected"):
        kernel_from_function(lambda x, y, w: w * jnp.sum(x * y), parameters)
