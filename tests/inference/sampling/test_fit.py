"""NUTS runs: contents, reproducibility, and correctness of draws."""

import types

import arviz_base
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from bke.inference import InputError, Nuts, fit, load_run, save_run
from bke.inference.sampling.no_u_turn import NutsProgram, nuts_program
from bke.inference.sampling.record import read_record
from bke.inference.sampling.run import target_of
from bke.models import (
    Gaussian,
    GaussianMixture,
    Matern,
    SquaredExponential,
    log_marginal_likelihood,
)

SHORT = {"method": Nuts(num_chains=2, num_warmup=20, num_samples=10), "progress": False}


def sample(n: int, seed: int, dimension: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).gamma(2.0, 1.0, size=(n, dimension))


@pytest.fixture
def run(nuts_run):
    return nuts_run


def test_a_run_has_the_groups_of_arviz(run):
    assert run["posterior"]["lengthscale"].dims == ("chain", "draw")
    assert run["posterior"]["lengthscale"].shape == (2, 10)
    assert run["warmup_posterior"]["lengthscale"].shape == (2, 20)
    stats = run["sample_stats"]
    for name in ("diverging", "step_size", "tree_depth", "energy", "acceptance_rate", "lp"):
        assert stats[name].shape == (2, 10)
    np.testing.assert_array_equal(run["observed_data"]["X"].values, sample(40, 0))
    assert (run["posterior"]["lengthscale"] > 0).all()
    assert not target_of(run)[1].dither.any()  # the data are continuous


def test_lp_is_the_log_density_of_the_draws(run):
    _target, units = target_of(run)
    points = units.transform_data(run["observed_data"]["X"].values)
    for chain, draw in [(0, 3), (1, 9)]:
        lengthscale = float(run["posterior"]["lengthscale"][chain, draw]) / units.scale[0]
        expected = (
            log_marginal_likelihood(points, SquaredExponential(lengthscale))
            - lengthscale  # Gamma(1, 1)
            + np.log(lengthscale)  # NUTS moves in log lengthscale
        )
        assert float(run["sample_stats"]["lp"][chain, draw]) == pytest.approx(expected, rel=1e-10)


def test_a_second_fit_of_another_seed_compiles_no_program(run):
    target, _ = target_of(run)
    with jax.enable_x64(True):
        sampler = nuts_program(target, 20, 0.8, 10, False)
    before = sampler._advance._cache_size()
    assert before >= 1
    setting = jax.config.jax_enable_x64
    other = fit(sample(40, 0), **SHORT, seed=6)
    assert jax.config.jax_enable_x64 == setting
    assert not np.array_equal(other["posterior"]["lengthscale"], run["posterior"]["lengthscale"])
    assert sampler._advance._cache_size() == before


def test_chains_start_at_different_points_of_finite_density():
    method = Nuts(num_chains=8, num_warmup=20, num_samples=4)
    run = fit(sample(40, 2), method=method, progress=False)
    starts = np.exp(run["initial"]["lengthscale"].values)
    assert len(np.unique(starts)) == 8
    # One from each eighth of the prior: Gamma(1, 1) has 1/8 of its mass below 0.13.
    assert (np.diff(starts) > 0).all()
    assert starts.min() < 0.3
    assert starts.max() > 1.0


def test_feet_and_meters_give_the_same_posterior_in_their_units():
    feet = sample(40, 8) * 1000
    in_feet, in_meters = (
        fit(X, **SHORT)["posterior"]["lengthscale"].values for X in (feet, feet * 0.3048)
    )
    # Rounding differs in the last digit and NUTS amplifies it slowly: ten draws stay together.
    np.testing.assert_allclose(in_feet * 0.3048, in_meters, rtol=1e-4)


def test_a_run_survives_netcdf(run, tmp_path):
    path = tmp_path / "run.nc"
    save_run(run, path)
    back = load_run(path)
    for group in ("posterior", "sample_stats", "profile", "observed_data", "warmup_posterior"):
        np.testing.assert_array_equal(
            back[group].to_dataset().to_array(), run[group].to_dataset().to_array()
        )
    assert target_of(back)[0].describe() == target_of(run)[0].describe()
    arviz_base.convert_to_datatree(back)


def test_attributes_let_the_run_be_repeated(run):
    attrs = run.attrs
    record = read_record(attrs)
    target, _units = target_of(run)
    assert record["model"]["prior"]["lengthscale"]["distribution"] == "Gamma"
    again = fit(
        run["observed_data"]["X"].values,
        kernel=target.kernel,
        prior=dict(target.priors),
        noise_variance=target.noise_variance,
        measure=target.measure,
        method=Nuts(attrs["num_chains"], attrs["num_warmup"], attrs["num_samples"]),
        seed=attrs["seed"],
        progress=False,
    )
    np.testing.assert_array_equal(
        again["posterior"]["lengthscale"], run["posterior"]["lengthscale"]
    )
    assert read_record(again.attrs)["data_sha256"] == record["data_sha256"]


MIXTURE = {
    "kernel": GaussianMixture(np.array([0.5, 2.0]), np.array([0.5, 0.5])),
    "prior": {"lengthscale": dist.LogNormal(0.0, 1.0).expand([2])},
}


@pytest.mark.one_in(7)
@pytest.mark.parametrize(
    ("options", "shape"),
    [
        ({"noise_variance": dist.Uniform(0.01, 1.0), "standardize": None}, (2, 10)),
        ({"prior": dist.Gamma(1.0, 1.0).expand([2])}, (2, 10, 2)),  # ARD
        ({"standardize": "pooled"}, (2, 10)),
        ({"standardize": "column"}, (2, 10, 2)),  # one per column, in its own units
        ({"kernel": Matern(1.5), "standardize": None}, (2, 10)),
        ({"measure": Gaussian(5.0, 1.0), "standardize": None}, (2, 10)),
        ({**MIXTURE, "standardize": None}, (2, 10, 2)),
    ],
)
def test_options(options, shape):
    run = fit(sample(20, 9, dimension=2), **SHORT, **options)
    assert run["posterior"]["lengthscale"].shape == shape
    assert np.isfinite(run["sample_stats"]["lp"]).all()
    assert ("noise_variance" in run["posterior"]) == ("noise_variance" in options)


def test_lengthscales_are_in_the_units_of_their_columns():
    X = sample(20, 9, dimension=2) * np.array([1.0, 1000.0])
    values = fit(X, **SHORT)["posterior"]["lengthscale"].values
    ratio = X[:, 1].std() / X[:, 0].std()
    np.testing.assert_allclose(values[..., 1], values[..., 0] * ratio, rtol=1e-12)


def test_rounded_data_are_dithered_within_their_unit_and_recorded():
    X = np.array([1.0, 1, 2, 3, 3])  # gamma at the 2 is exactly zero at every lengthscale
    with pytest.raises(InputError, match="row 3"):
        fit(X, **SHORT, dither=None)
    run = fit(X, **SHORT, dither="auto")
    _, units = target_of(run)
    assert units.dither.tolist() == [1.0]
    moved = units.transform_data(X[:, None]) * units.scale - X[:, None]
    assert 0 < np.abs(moved).max() <= 0.5
    assert np.isfinite(run["sample_stats"]["lp"]).all()


# The sampler by itself, on a density whose faults are known

WARMUP, DRAWS, CHAINS = 60, 200, 2


@pytest.fixture(scope="module")
def sampled():
    """A standard normal density that is no number beyond 1.5."""

    def log_density(z, X):
        return jnp.where(z["a"] > X, jnp.nan, -0.5 * z["a"] ** 2)

    with jax.enable_x64(True):
        target = types.SimpleNamespace(log_density=log_density, shapes={"a": ()})
        sampler = NutsProgram(target, WARMUP, 0.8, 10, dense_mass=False)
        initial = {"a": jnp.array([-1.0, 0.5])}
        result = sampler.run(
            jnp.float64(1.5), initial=initial, num_samples=DRAWS, key=jax.random.key(0)
        )
    return sampler, result


def test_evaluations_without_a_value_are_counted_where_they_are(sampled):
    _, chains = sampled
    counts = chains.stats["nonfinite_evaluations"]
    assert counts.shape == (CHAINS, WARMUP + DRAWS)
    # Such a point ends its trajectory, and nothing else does in a normal density.
    later = np.s_[:, WARMUP:]
    np.testing.assert_array_equal(counts[later] > 0, chains.stats["diverging"][later])
    assert counts.max() == 1
    assert 0 < counts[later].sum() < CHAINS * DRAWS
    assert chains.z["a"].max() <= 1.5


def test_its_programs_can_be_cached_on_disk(sampled):
    """JAX's compilation cache takes no program that calls back."""
    sampler, _ = sampled
    with jax.enable_x64(True):
        start = jax.random.key(0), {"a": jnp.zeros(())}
        lowered = sampler._start.lower(*start)
        state = jax.eval_shape(sampler._start, *start)
        further = sampler._advance.lower(state, jnp.float64(1.5), 1)
    for program in (lowered, further):
        assert "callback" not in program.as_text()
