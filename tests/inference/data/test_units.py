"""Units of the prior, and rounded data."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from bke.inference.core.errors import InputError
from bke.inference.data.units import choose_scale, choose_units, with_dither
from bke.inference.sampling.densities import cancelled_rows
from bke.inference.sampling.run import in_data_units
from bke.inference.sampling.target import Target
from bke.models import (
    Gaussian,
    GaussianMixture,
    SquaredExponential,
    Unit,
    log_marginal_likelihood,
)
from bke.models.linalg.rows import PaddedRows


def gamma_sample(n=30, D=3, seed=0):
    return np.random.default_rng(seed).gamma(2.0, size=(n, D)) * np.array([1.0, 40.0, 0.2])[:D]


def integers(seed=1):
    """Integers with many ties, balanced around 7: the volume at 7 is zero at every lengthscale."""
    half = np.round(np.random.default_rng(seed).gamma(2.0, 3.0, size=20))
    return 7.0 + np.concatenate([half, -half, [0.0]])[:, None]


def default_target(prior=None):
    return Target.checked(SquaredExponential, prior, 0.1, "unit", "auto")


def draws_of(target):
    """Unconstrained prior draws, by site; needs 64-bit JAX."""
    return target.prior_draws(np.random.default_rng(7), 60)


def prepared(data, *, scale="column", dither="auto", seed=3, target=None):
    with jax.enable_x64(True):
        target = target or default_target()
        units = choose_units(data, scale, None)
        return with_dither(units, data, dither, seed, draws_of(target), cancelled_rows(target))


# Scale


def test_scales_are_standard_deviations_of_columns_or_of_all():
    X = gamma_sample()
    squares = (X - X.mean(axis=0)) ** 2
    deviations = np.sqrt(squares.mean(axis=0))
    np.testing.assert_allclose(choose_scale(X, "column"), deviations, rtol=1e-13)
    points = choose_units(X, "column", None).transform_data(X)
    np.testing.assert_allclose(points * deviations, X, rtol=1e-13)  # not centered
    pooled = np.full(3, np.sqrt(squares.mean()))
    np.testing.assert_allclose(choose_scale(X, "pooled"), pooled, rtol=1e-13)
    np.testing.assert_array_equal(choose_units(X, None, None).transform_data(X), X)


def test_other_scales_are_refused():
    with pytest.raises(InputError, match=r"standardize must be one of .*'columns'"):
        choose_scale(gamma_sample(), "columns")


def test_names_of_columns():
    X = gamma_sample()
    assert choose_units(X, "column", None).columns == ("x0", "x1", "x2")
    assert choose_units(X[:, :1], "column", None).columns == ("x",)
    assert choose_units(X, "column", ["a", "b", "c"]).columns == ("a", "b", "c")
    with pytest.raises(InputError, match="columns has 2 names, but the data have 3 columns"):
        choose_units(X, "column", ["a", "b"])


# Back to the units of the data


def same_kernel(X, units, in_model_units, in_data_units):
    """The Gram matrices in both units agree."""
    np.testing.assert_allclose(
        SquaredExponential(in_model_units)(units.to_model(X)),
        SquaredExponential(in_data_units)(X),
        rtol=1e-12,
    )


@pytest.mark.parametrize("scale", ["column", "pooled", None])
@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("shape", [(2, 3), (2, 5, 3)], ids=["shared", "per column"])
def test_a_lengthscale_is_converted(scale, columns, shape):
    """A shared lengthscale becomes one per column if columns have separate scales."""
    X = gamma_sample()[:, -columns:]
    units = choose_units(X, scale, None)
    draws = np.random.default_rng(2).gamma(2.0, size=(*shape[:2], columns)[: len(shape)])
    if len(shape) == 2:  # as many draws as columns
        draws = np.array([[0.3, 1.2, 0.9], [0.7, 2.0, 0.1]])
    converted = units.to_data("length", draws, 2)
    assert (
        converted.shape
        == (*draws.shape[:2], columns)[
            : 3 if draws.ndim == 3 or (scale == "column" and columns > 1) else 2
        ]
    )
    for chain, draw in np.ndindex(*draws.shape[:2]):
        same_kernel(X, units, draws[chain, draw], converted[chain, draw])


def test_frequency_covariance_and_numbers_without_a_unit():
    X = gamma_sample(D=2)
    units = choose_units(X, "column", None)
    frequency = units.to_data("1/length", np.array([[[0.3, 0.7]]]), 2)[0, 0]
    np.testing.assert_allclose(X @ frequency, units.to_model(X) @ [0.3, 0.7])
    C = np.array([[1.0, 0.4], [0.4, 2.0]])
    converted = units.to_data("length^2", C[None, None], 2)[0, 0]
    x, y = X[0] - X[1], units.to_model(X[0] - X[1])
    assert x @ np.linalg.solve(converted, x) == pytest.approx(y @ np.linalg.solve(C, y))
    np.testing.assert_array_equal(units.to_data("none", C, 2), C)


def test_lengthscales_of_mixture_components_are_not_columns():
    """As many components as columns: entry q belongs to component q, not to column q."""
    X = gamma_sample(D=2)
    units = choose_units(X, "column", None)
    draw = np.array([0.5, 2.0])
    target = Target.checked(
        GaussianMixture([1.0, 1.0]), dist.Gamma(1.0, 1.0).expand([2]), 0.1, "unit", "auto"
    )
    assert target.sites["lengthscale"].event_shape == (2,)
    with jax.enable_x64(True):
        z = target.unconstrain({"lengthscale": jnp.asarray(draw[None, None])})
        converted = in_data_units(target, units, z)["lengthscale"].values[0, 0]
    gram = GaussianMixture(draw)(units.to_model(X))
    by_component = [SquaredExponential(converted[q])(X) for q in range(2)]
    np.testing.assert_allclose(np.mean(by_component, axis=0), gram, rtol=1e-10)


def test_a_gaussian_measure_has_the_units_of_the_data():
    X, kernel = gamma_sample(D=2), SquaredExponential([0.6, 1.3])
    units = choose_units(X, "column", None)
    measure = Gaussian(np.array([2.0, 50.0]), np.array([1.0, 70.0]))
    here = SquaredExponential(kernel.lengthscale * units.scale).smoothed(measure, 2)(X)
    scaled = kernel.smoothed(units.measure_to_model(measure), 2)(units.to_model(X))
    np.testing.assert_allclose(scaled * np.prod(units.scale), here, rtol=1e-11)
    assert units.measure_to_model("unit") == Unit()


# Rounded data


def zero_rows(points):
    target = default_target()
    with jax.enable_x64(True):
        rows = PaddedRows(jnp.asarray(points))
        return np.flatnonzero(cancelled_rows(target)(draws_of(target), rows))


def test_rows_without_volume_are_detected():
    data = np.array([[1.0], [1.0], [2.0], [3.0], [3.0]])
    for divisor in (1.0, 3.7, 1 / 3):  # the lattice need not be exact in floating point
        np.testing.assert_array_equal(zero_rows(data / divisor), [2])
    data[2] += 0.1
    assert zero_rows(data).size == 0
    lattice = np.array([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [0.0, 2.0], [0.0, -2.0]])
    assert 0 in zero_rows(lattice)
    lattice[1, 1] = 0.2  # both coordinates must cancel
    assert 0 not in zero_rows(lattice)


def test_rounded_data_are_dithered_within_their_unit():
    data = integers()
    units = prepared(data)
    np.testing.assert_array_equal(units.dither, [1.0])
    moved = units.transform_data(data) * units.scale - data
    assert np.all(np.abs(moved) <= 0.5)
    assert np.abs(moved).max() > 0.4
    assert len(np.unique(moved)) == len(data)
    np.testing.assert_array_equal(units.transform_data(data), prepared(data).transform_data(data))
    assert not np.array_equal(
        units.transform_data(data), prepared(data, seed=4).transform_data(data)
    )
    assert zero_rows(units.transform_data(data)).size == 0


def test_the_dithered_density_is_finite_if_the_rounded_density_is_zero():
    data = np.array([[1.0], [1.0], [2.0], [3.0], [3.0]])
    units = prepared(data)
    kernel = SquaredExponential(0.8)
    assert log_marginal_likelihood(units.to_model(data), kernel) < -60.0  # log of rounding error
    assert log_marginal_likelihood(units.transform_data(data), kernel) > -30.0


def test_dither_none_refuses_and_names_the_rows():
    data = np.array([[1.0], [1.0], [2.0], [3.0], [3.0]])
    with pytest.raises(InputError, match=r"exactly zero at row 3, .*dither='auto'"):
        prepared(data, dither=None)
    repeated = np.concatenate([data + 100 * shift for shift in range(8)])
    with pytest.raises(InputError, match=r"exactly zero at row \d+(, \d+){4} and \d+ more"):
        prepared(repeated, dither=None)


@pytest.mark.parametrize("dither", ["auto", None])
def test_continuous_data_are_not_dithered(dither):
    X = gamma_sample()
    units = prepared(X, dither=dither)
    assert not units.dither.any()
    np.testing.assert_array_equal(units.transform_data(X), X / X.std(axis=0))


def test_a_unit_of_the_user_is_used():
    data = integers()
    np.testing.assert_array_equal(prepared(data, dither=0.5).dither, [0.5])
    X = gamma_sample()
    units = prepared(X, dither=[0.0, 2.0, 0.0])
    np.testing.assert_array_equal(units.dither, [0.0, 2.0, 0.0])
    moved = units.transform_data(X) * units.scale - X
    np.testing.assert_allclose(moved[:, [0, 2]], 0.0, atol=1e-12)
    assert 0.8 < np.abs(moved[:, 1]).max() <= 1.0


@pytest.mark.parametrize("dither", ["on", -1.0, np.nan, np.inf, [1.0, -1.0, 0.0]])
def test_invalid_dither_is_refused(dither):
    with pytest.raises(InputError, match="dither must be"):
        prepared(gamma_sample(), dither=dither)
    with pytest.raises(InputError, match="dither has 2 rounding units, but the data have 3 col"):
        prepared(gamma_sample(), dither=[1.0, 2.0])


# Feet and meters


@pytest.mark.one_in(4)
@pytest.mark.parametrize("scale", ["column", "pooled"])
@pytest.mark.parametrize("prior", [None, dist.Gamma(1.0, 1.0).expand([2])], ids=["shared", "ARD"])
def test_feet_and_meters_give_the_same_answer(prior, scale):
    rng = np.random.default_rng(5)
    feet = np.round(rng.gamma(2.0, [300.0, 900.0], size=(30, 2)))
    feet[0] = feet[1] = feet[2] + [7.0, 0.0]
    meters = feet * 0.3048
    target = default_target(prior)
    in_feet, in_meters = (
        prepared(feet, scale=scale, target=target),
        prepared(meters, scale=scale, target=target),
    )
    np.testing.assert_allclose(in_feet.scale * 0.3048, in_meters.scale, rtol=1e-13)
    np.testing.assert_allclose(
        in_meters.transform_data(meters), in_feet.transform_data(feet), rtol=1e-12
    )
    same_density(target, in_feet.transform_data(feet), in_meters.transform_data(meters))


def test_rounded_feet_and_meters_are_dithered_equally():
    feet = 100.0 * integers()  # to the hundred
    meters = feet * 0.3048
    in_feet, in_meters = prepared(feet), prepared(meters)
    np.testing.assert_array_equal(in_feet.dither, [100.0])
    np.testing.assert_allclose(in_meters.dither, [30.48], rtol=1e-12)
    np.testing.assert_allclose(
        in_meters.transform_data(meters), in_feet.transform_data(feet), rtol=1e-12, atol=1e-13
    )
    same_density(default_target(), in_feet.transform_data(feet), in_meters.transform_data(meters))


def same_density(target, X, Y):
    with jax.enable_x64(True):
        density = jax.jit(target.log_density)
        draws = target.prior_draws(np.random.default_rng(0), 4)
        for index in range(4):
            z = {name: values[index] for name, values in draws.items()}
            a, b = float(density(z, jnp.asarray(X))), float(density(z, jnp.asarray(Y)))
            assert np.isfinite(a)
            assert b == pytest.approx(a, rel=1e-10)
