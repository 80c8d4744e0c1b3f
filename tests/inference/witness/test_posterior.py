"""The witness: exact posterior for a known lengthscale, joint draws, bands that cover the truth."""

import importlib
import warnings
from pathlib import Path

import arviz_base
import numpy as np
import pytest
import xarray as xr
from bke.inference import InputError, Nuts, compare, credible_band, fit, sample_witness
from bke.inference.core.errors import PosteriorWarning
from bke.inference.sampling.run import target_of
from bke.inference.witness.draws import evaluation_points
from bke.models import SquaredExponential, embedding_posterior

SHORT = {"method": Nuts(num_chains=2, num_warmup=20, num_samples=10), "progress": False}


RNG = np.random.default_rng(0)
P, Q = DATA = RNG.normal(size=(40, 1)), RNG.laplace(0.5, 1.0, size=(30, 1))


@pytest.fixture(scope="module")
def run():
    return fit(np.concatenate(DATA), **SHORT)


def with_constant_lengthscale(run, chains: int, draws: int) -> xr.DataTree:
    """The run with all draws replaced by its first one, many of them."""
    z = float(run["unconstrained_posterior"]["lengthscale"][0, 0])
    constant = xr.Dataset({"lengthscale": (("chain", "draw"), np.full((chains, draws), z))})
    groups = {name: node.to_dataset() for name, node in run.children.items()}
    groups["unconstrained_posterior"] = constant
    copied = xr.DataTree.from_dict({f"/{name}": dataset for name, dataset in groups.items()})
    copied.attrs.update(run.attrs)
    return copied


@pytest.mark.parametrize("noise", ["clt", 0.1])
def test_draws_have_the_exact_mean_and_joint_covariance(run, noise):
    """4000 draws, seed 1: each of 5 means and 15 covariances within 5 standard errors
    (false-failure rate about 1e-5)."""
    at = np.array([-2.0, -0.5, 0.0, 1.0, 3.0])
    constant = with_constant_lengthscale(run, 2, 2000)
    witness = sample_witness(constant, *DATA, at, noise=noise, weights="chains", seed=1)
    draws = witness["witness"].values.reshape(-1, 5)
    _, units = target_of(run)
    z = float(run["unconstrained_posterior"]["lengthscale"][0, 0])
    kernel = SquaredExponential(np.exp(z))
    first, second = (
        embedding_posterior(units.to_model(X), kernel, at / units.scale, noise=noise) for X in DATA
    )
    covariance = first.covariance + second.covariance
    deviations = np.sqrt(np.diag(covariance))
    count = len(draws)
    assert np.all(
        np.abs(draws.mean(0) - (first.mean - second.mean)) < 5 * deviations / np.sqrt(count)
    )
    allowed = 5 * np.sqrt((np.outer(deviations, deviations) ** 2 + covariance**2) / count)
    assert np.all(np.abs(np.cov(draws.T) - covariance) < allowed)


def test_the_number_of_distinct_lengthscales_is_recorded(run):
    distinct = len(np.unique(run["unconstrained_posterior"]["lengthscale"].values))
    assert sample_witness(run, *DATA, [0.0], thin=1).attrs["num_lengthscales"] == distinct
    assert sample_witness(run, *DATA, [0.0], thin=5).attrs["num_lengthscales"] == 4  # of 2 x 10
    constant = with_constant_lengthscale(run, 2, 10)
    witness = sample_witness(constant, *DATA, [0.0], weights="chains")
    assert witness.attrs["num_lengthscales"] == 1


def test_samples_that_are_not_the_rows_of_the_run_are_noted(run):
    options = {"at": [0.0], "weights": "chains", "progress": False}
    with warnings.catch_warnings():
        warnings.simplefilter("error", PosteriorWarning)
        assert "note" not in sample_witness(run, Q, P, **options).attrs
    with pytest.warns(PosteriorWarning, match="30 rows of them in neither"):
        witness = sample_witness(run, P[:10], Q, **options)
    assert "0 rows of P and Q not among them" in witness.attrs["note"]
    with pytest.raises(InputError, match=r"40 rows of P \(40 in all\) and 30 rows of Q"):
        sample_witness(run, P + 1.0, Q + 1.0, **options)


def test_draws_of_another_program_are_compared_with_the_rows_of_the_user(run):
    lengthscale = np.exp(run["unconstrained_posterior"]["lengthscale"].values)
    tree = arviz_base.from_dict({"posterior": {"lengthscale": lengthscale}})
    options = {"at": [0.0], "weights": "chains", "progress": False, "X": np.concatenate(DATA)}
    assert "note" not in sample_witness(tree, P, Q, **options).attrs
    with pytest.warns(PosteriorWarning, match="40 rows of P and Q not among them"):
        sample_witness(tree, P + 1.0, Q, **options)
    with pytest.raises(InputError, match="not among the 70 rows"):
        sample_witness(tree, P / 2.0, Q / 2.0, **options)


def test_draws_are_smooth_functions_not_independent_points(run):
    line = np.linspace(-2, 2, 100)
    draws = sample_witness(run, *DATA, line)["witness"].values.reshape(-1, 100)
    steps = np.abs(np.diff(draws, axis=1)).max(axis=1)
    ranges = np.ptp(draws, axis=1)
    assert np.median(steps / ranges) < 0.3  # 0.8 for independent points


def test_swapping_the_samples_flips_the_sign_of_the_mean(run):
    original, swapped = (
        sample_witness(run, *pair, [0.0, 1.0])["witness"] for pair in ((P, Q), (Q, P))
    )
    over = ("chain", "draw")
    # The two use the same random numbers, so their noise does not cancel: 20 draws each.
    difference = np.abs(original.mean(over) + swapped.mean(over))
    assert np.all(difference < 5 * 2 * original.std(over) / np.sqrt(20))


def test_the_draws_do_not_depend_on_the_number_of_threads(run, monkeypatch):
    several = sample_witness(run, *DATA, [0.0, 1.0])
    monkeypatch.setattr("bke.inference.witness.draws.cores", lambda: 1)
    single = sample_witness(run, *DATA, [0.0, 1.0])
    np.testing.assert_allclose(several["witness"], single["witness"], rtol=1e-9)


def test_bands_are_equal_tailed_quantiles_and_per_mode(run):
    witness = sample_witness(run, *DATA, [0.0, 1.0])
    labels = witness["mode"].values
    draws = witness["witness"].values[labels >= 0]
    half = credible_band(witness, 0.5)
    np.testing.assert_allclose(half.lower, np.quantile(draws, 0.25, axis=0))
    np.testing.assert_allclose(half.upper, np.quantile(draws, 0.75, axis=0))
    np.testing.assert_allclose(half.mean, draws.mean(axis=0))
    modes = [int(k) for k in np.unique(labels) if k >= 0]
    assert sum(credible_band(witness, 0.5, k).draws for k in modes) == len(draws)


def test_default_points():
    rng = np.random.default_rng(0)
    for dimension, shape in [(1, (200, 1)), (2, (900, 2)), (3, (12, 3))]:
        P, Q = rng.normal(size=(5, dimension)), rng.normal(size=(7, dimension))
        points = evaluation_points(None, P, Q)
        assert points.shape == shape
        pooled = np.concatenate([P, Q])
        if dimension < 3:
            np.testing.assert_array_equal(points.min(0), pooled.min(0))
            np.testing.assert_array_equal(points.max(0), pooled.max(0))
        else:
            np.testing.assert_array_equal(points, pooled)


@pytest.mark.slow
@pytest.mark.parametrize("lengthscale", [0.3, 0.5, 3.0])
def test_eighty_percent_bands_cover_the_true_witness(lengthscale, monkeypatch):
    """Shortened benchmarks/witness_coverage.py: 100 data sets of 100 iid points, seed 2.

    A data set's coverage has a standard deviation of at most 0.27, so 0.11 is four standard errors
    of the mean: false-failure rate below 1e-4 for another seed. The diagonal of C/n alone covers
    0.2 to 0.5, sigma^2 = 0.1 covers 1.
    """
    monkeypatch.syspath_prepend(Path(__file__).parents[3] / "benchmarks")
    benchmark = importlib.import_module("witness_coverage")
    center, _ = benchmark.coverage(100, lengthscale, data_sets=100, seed=2)
    assert center.mean() == pytest.approx(0.8, abs=0.11)
    if lengthscale == 0.5:
        too_wide, _ = benchmark.coverage(100, lengthscale, data_sets=20, seed=2, noise=0.1)
        assert too_wide.mean() > 0.95


def test_of_the_difference_it_is_the_witness_of_the_comparison(run):
    """2 x 2000 draws and 2000 of the comparison, seed 2: means and deviations within 6 errors."""
    at = np.array([-1.5, 0.0, 1.0])
    constant = with_constant_lengthscale(run, 2, 2000)
    witness = sample_witness(
        constant, *DATA, at, of="difference", weights="chains", seed=2, progress=False
    )
    draws = witness["witness"].values.reshape(-1, 3)
    lengthscale = np.exp(run["unconstrained_posterior"]["lengthscale"].values[0, 0])
    _, units = target_of(run)
    comparison = compare(*DATA, n_resamples=99, progress=False)
    bands = comparison.witness(at, scale=lengthscale * units.scale[0], of="posterior")
    deviation = draws.std(axis=0)
    error = deviation * (1 / 4000 + 1 / 2000) ** 0.5
    assert (np.abs(draws.mean(axis=0) - bands.mean) < 6.0 * error).all()
    np.testing.assert_allclose(
        np.quantile(draws, [0.1, 0.9], axis=0), [bands.lower, bands.upper],
        atol=0.15 * (bands.upper - bands.lower).max(),
    )  # fmt: skip
    assert witness.attrs["of"] == "difference"
    embeddings = sample_witness(constant, *DATA, at, weights="chains", seed=2, progress=False)
    assert embeddings.attrs["of"] == "embeddings"
    assert (deviation < embeddings["witness"].values.reshape(-1, 3).std(axis=0)).all()


def test_witnesses_of_the_difference_have_no_noise_and_no_landmarks(run):
    for wrong in ({"noise": 0.1}, {"landmarks": 5}):
        with pytest.raises(InputError, match="takes neither noise nor landmarks"):
            sample_witness(run, *DATA, of="difference", **wrong)
    with pytest.raises(InputError, match="of must be 'embeddings' or 'difference', got 'both'"):
        sample_witness(run, *DATA, of="both")
