"""The spectral route under the ways to a posterior."""

import numpy as np
import numpyro.distributions as dist
import pytest
from bke.inference import InputError, Quadrature, diagnose, fit, learn_kernel
from bke.inference.sampling.run import units_of
from bke.inference.sampling.target import Target
from bke.models import Matern, SquaredExponential
from bke.models.likelihood.spectral import spectral_index
from bke.models.likelihood.spectral.base import SpectralIndex

X = np.random.default_rng(0).gamma(2.0, size=320)


def integrated(X, likelihood, *, tolerance=1e-3, **options):
    method = Quadrature(tolerance, num_samples=64)
    run = fit(X, method=method, likelihood=likelihood, progress=False, **options)
    return run["quadrature"].attrs["log_normalizer"], run


@pytest.mark.slow
@pytest.mark.parametrize("X", [X, (X[:40] + 0.5, X)], ids=["one", "two"])
def test_the_posterior_is_that_of_the_matrices(X):
    samples = "product" if isinstance(X, tuple) else "pooled"
    (by_waves, run), (by_matrices, other) = (
        integrated(X, likelihood, samples=samples) for likelihood in ("auto", "dense")
    )
    assert by_waves == pytest.approx(by_matrices, abs=1e-6)
    draws = [each["posterior"]["lengthscale"].values for each in (run, other)]
    np.testing.assert_allclose(*draws, rtol=1e-6)


@pytest.mark.slow
def test_rounded_rows_that_sums_do_not_take_are_dithered_before_they_are_prepared():
    """2000 rows of 60 values: as they are they would need matrices."""
    rounded = np.round(np.random.default_rng(0).normal(size=2000), 1)
    with pytest.raises(ValueError, match="far nearer each other"):
        spectral_index(rounded[:, None], SquaredExponential())
    run = integrated(rounded, "spectral", tolerance=0.1)[1]
    assert units_of(run).dither == [0.1]


@pytest.mark.slow
def test_rounded_rows_of_heavy_tails_are_dithered():
    """Over their standard deviation the unit is a millionth; most have values of others."""
    rows = (np.random.default_rng(0).pareto(1.2, size=6000) * 100.0).round()
    assert units_of(integrated(rows, "auto", tolerance=1.0)[1]).dither == [1.0]


@pytest.mark.slow
def test_the_posterior_of_a_matern_kernel():
    found, exact = (
        integrated(X, likelihood, kernel=Matern(1.5))[0] for likelihood in ("spectral", "dense")
    )
    assert found == pytest.approx(exact, abs=1e-6)


@pytest.mark.slow
def test_the_learned_kernel_is_that_of_the_matrices():
    found = [
        learn_kernel(X, likelihood=likelihood, progress=False).peaks[0]
        for likelihood in ("spectral", "dense")
    ]
    values = [peak.log_marginal_likelihood for peak in found]
    assert values[0] == pytest.approx(values[1], rel=1e-9)


@pytest.mark.slow
def test_more_rows_than_matrices_could_hold():
    """10^5 rows: an n x n matrix would take 75 GiB."""
    many = np.random.default_rng(1).gamma(2.0, size=100_000)
    _, run = integrated(many, "auto", tolerance=0.1)
    draws = run["posterior"]["lengthscale"].values
    assert run["observed_data"]["X"].shape == (100_000, 1)
    assert draws.std() < 0.05 * draws.mean()


@pytest.mark.slow
def test_two_columns_of_more_rows_than_matrices_are_taken_for():
    many = np.random.default_rng(1).gamma(2.0, size=(6000, 2))
    _, run = integrated(many, "auto", tolerance=0.1)
    draws = run["posterior"]["lengthscale"].values
    assert np.all(draws.reshape(64, -1).std(axis=0) < 0.1 * draws.mean())


def test_a_lengthscale_for_each_column_goes_to_the_matrices():
    points = np.random.default_rng(1).normal(size=(1000, 2))
    for shape, index in (((), True), ((2,), False)):
        prior = dist.Gamma(np.ones(shape), 1.0)
        target = Target.checked(SquaredExponential, prior, 0.1, "unit", "auto")
        assert isinstance(target.prepared(points), SpectralIndex) == index


@pytest.mark.slow
def test_a_mode_narrower_than_the_grid_of_its_profile():
    """0.1 % wide, on a grid of steps of 4 %, whose smoothed top is 20 widths off."""
    many = np.random.default_rng(0).gamma(3.0, size=20_000)
    _, run = integrated(many, "auto")
    (mode,) = diagnose(run).modes.modes
    draws = run["posterior"]["lengthscale"].values
    assert mode.draws == draws.size
    assert abs(mode.location["lengthscale"] - draws.mean()) < 0.1 * draws.std()


def test_what_cannot_be_spectral_is_refused_before_anything_is_computed():
    with pytest.raises(InputError, match=r"cannot be used here: .* 4 columns"):
        fit(np.column_stack([X, X[::-1]] * 2), likelihood="spectral", progress=False)
