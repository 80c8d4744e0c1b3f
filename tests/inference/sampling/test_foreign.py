"""Draws of other programs with their model give the run of ``fit``."""

from functools import partial

import arviz_base
import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import xarray as xr
from bke.inference import (
    InputError,
    Nuts,
    diagnose,
    find_modes,
    fit,
    load_run,
    normal_laplace,
    open_run,
    plot_profile,
    plot_rank,
    plot_trace,
    plot_witness,
    reweight,
    sample_witness,
    save_run,
)
from bke.inference.core.errors import PosteriorWarning
from bke.inference.sampling import open_run as opening
from bke.inference.sampling.foreign import Foreign
from bke.models import Gaussian, Landmark, Laplace, SquaredExponential, bke_model
from matplotlib import pyplot as plt
from numpyro.infer import MCMC, NUTS, init_to_value

P, Q = normal_laplace(0, 20)
X = np.concatenate([P, Q])
#: Lengthscales in both modes of these data, near 0.4 and 3.
VALUES = np.stack([np.linspace(0.35, 0.45, 8), np.linspace(2.8, 3.4, 8)])


RENAMED = {"X": X, "var_names": {"rho": "lengthscale"}}
OTHER_DATA = "log likelihood that bke_model recorded"


def stan_like(values=VALUES, name="lengthscale", lp=None):
    draws = arviz_base.from_dict({"posterior": {name: values}})
    if lp is not None:
        draws["sample_stats"] = xr.DataTree(xr.Dataset({"lp": (("chain", "draw"), lp)}))
    return draws


def densities(draws, **model):
    """The log densities of draws as opened with a model."""
    return open_run(draws, **model).tree["sample_stats"]["lp"].values


@pytest.fixture(scope="module")
def mcmc():
    """The program of the README: plain NumPyro, two chains, one from either mode."""
    with jax.enable_x64(True):
        kernel = NUTS(bke_model, init_strategy=init_to_value(values={"lengthscale": 0.4}))
        sampler = MCMC(
            kernel,
            num_warmup=20,
            num_samples=20,
            num_chains=2,
            chain_method="sequential",
            progress_bar=False,
        )
        start = {"lengthscale": np.log([0.4, 3.0])}
        sampler.run(jax.random.key(0), X, init_params=start, extra_fields=("potential_energy",))
    return sampler


@pytest.fixture(scope="module")
def tree(mcmc):
    with jax.enable_x64(True):
        return arviz_base.from_numpyro(mcmc)


def test_plain_numpyro_is_diagnosed_weighted_and_drawn(mcmc, tree):
    """The literal pipeline: NUTS, ArviZ's tree, diagnosis, masses, witness, plots."""
    diagnosis = diagnose(tree, X=X)
    low, high = (float(mode.location["lengthscale"]) for mode in diagnosis.modes.modes)
    assert 0.3 < low < 0.5
    assert 2.5 < high < 3.7
    assert open_run(mcmc).tree.attrs["method_in_words"] == "draws of numpyro"
    assert str(diagnose(mcmc)) == str(diagnosis)
    masses = [mode.mass for mode in find_modes(reweight(tree, X=X, progress=False)).modes]
    assert sum(masses) == pytest.approx(1.0)
    witness = sample_witness(mcmc, P, Q, progress=False)
    assert witness["witness"].sizes["chain"] == 2
    assert np.isfinite(witness["witness"]).all()
    for figure in (plot_trace(mcmc), plot_rank(tree, X=X), plot_profile(tree, X=X)):
        assert figure.axes
    assert len(plot_witness(witness, P=P, Q=Q, run=mcmc).axes) == 3
    plt.close("all")


def test_the_density_that_numpyro_recorded_is_used(mcmc, tree):
    lp = densities(mcmc)
    np.testing.assert_allclose(lp, -tree["sample_stats"]["lp"].values, rtol=1e-9)
    plain = stan_like(mcmc.get_samples(group_by_chain=True)["lengthscale"])
    np.testing.assert_allclose(densities(plain, X=X), lp, rtol=1e-9)


def test_a_file_of_the_tree_suffices(tree, tmp_path, monkeypatch):
    expected = str(diagnose(tree, X=X))
    tree.to_netcdf(tmp_path / "tree.nc")
    monkeypatch.setattr(opening, "_SHARED", opening.Cache(8))  # as in another process
    assert str(diagnose(xr.open_datatree(tmp_path / "tree.nc"), X=X.copy())) == expected


def test_it_is_the_run_of_fit():
    """Density, modes and masses agree with those of the run of the same draws."""
    run = fit(X, method=Nuts(2, 20, 6), standardize=None, progress=False)
    foreign = open_run(stan_like(run["posterior"]["lengthscale"].values, "rho"), **RENAMED).tree
    np.testing.assert_allclose(foreign["sample_stats"]["lp"], run["sample_stats"]["lp"], rtol=1e-9)
    ours, theirs = (find_modes(reweight(tree, progress=False)) for tree in (run, foreign))
    np.testing.assert_array_equal(ours.of_draws, theirs.of_draws)
    masses = [[mode.mass for mode in modes.modes] for modes in (ours, theirs)]
    np.testing.assert_allclose(*masses, atol=3e-3)


def test_it_can_be_saved(tmp_path):
    opened = open_run(stan_like(name="rho"), **RENAMED)
    for run in (opened, opened.tree):
        save_run(run, tmp_path / "run.nc")
        assert str(diagnose(load_run(tmp_path / "run.nc"))) == str(diagnose(run))


def test_it_is_computed_once(monkeypatch):
    computed = []

    def as_run(self, original=Foreign.as_run):
        computed.append(self)
        return original(self)

    monkeypatch.setattr(Foreign, "as_run", as_run)
    arguments = {"X": X, "noise_variance": 0.15}
    for _ in range(2):
        open_run(stan_like(), **arguments)
    assert len(computed) == 1
    open_run(stan_like(VALUES * 1.01), **arguments)
    open_run(stan_like(), **{**arguments, "X": X + 1e-3})
    open_run(stan_like(), **{**arguments, "noise_variance": 0.2})
    assert len(computed) == 4


def test_other_models_and_shapes():
    """A tree as of PyMC: further variables, a vector with a named dimension, a noise prior."""
    rng = np.random.default_rng(2)
    plane = rng.gamma(2.0, size=(24, 2))
    scales = rng.gamma(2.0, size=(3, 5, 2)) + 0.2
    noise = rng.uniform(0.1, 0.2, size=(3, 5))
    tree = arviz_base.from_dict(
        {"posterior": {"ell": scales, "sigma2": noise, "ell_log__": np.log(scales)}},
        dims={"ell": ["input"]},
        coords={"input": ["a", "b"]},
    )
    arguments = {
        "X": plane,
        "kernel": SquaredExponential,
        "prior": dist.Gamma(2.0, 2.0).expand([2]),
        "noise_variance": dist.Uniform(0.05, 1.0),
        "measure": Gaussian(2.0),
        "likelihood": "dense",
        "var_names": {"ell": "lengthscale", "sigma2": "noise_variance"},
    }
    opened = open_run(tree, **arguments)
    np.testing.assert_allclose(opened.tree["posterior"]["lengthscale"].values, scales, rtol=1e-12)
    assert set(opened.tree["posterior"].data_vars) == {"lengthscale", "noise_variance"}
    model = {name: value for name, value in arguments.items() if name not in ("X", "var_names")}
    with jax.enable_x64(True):
        uniform = dist.biject_to(dist.Uniform(0.05, 1.0).support)
        z = {"lengthscale": np.log(scales[1, 2]), "noise_variance": uniform.inv(noise[1, 2])}
        energy = numpyro.infer.util.potential_energy(bke_model, (plane,), model, z)
    lp = opened.tree["sample_stats"]["lp"].values[1, 2]
    assert lp == pytest.approx(-float(energy), rel=1e-9)
    assert len(opened.tree["paths"]["draw"]) == 3


def test_a_partial_model_has_its_arguments():
    model = partial(bke_model, noise_variance=0.3)
    sampler = MCMC(NUTS(model), num_warmup=1, num_samples=1, progress_bar=False)
    sampler._args, sampler._kwargs = (X,), {"kernel": Laplace}
    sampler._states = {"z": {"lengthscale": VALUES[:, :4]}}
    sampler._states_flat = {"z": {"lengthscale": VALUES[:, :4].ravel()}}
    target = open_run(sampler).target
    assert (target.noise_variance, type(target.kernel)) == (0.3, Laplace)


def test_a_density_of_another_model_is_noted():
    with pytest.warns(PosteriorWarning, match="up to a constant: they are of other data"):
        open_run(stan_like(lp=VALUES), X=X)


@pytest.mark.parametrize(
    ("draws", "arguments", "message"),
    [
        (stan_like(), {}, "give the data and the model"),
        (stan_like(name="rho"), {"X": X}, "have no 'lengthscale', only rho: var_names="),
        (stan_like(), {"X": X, "kernl": Laplace}, "did you mean 'kernel'"),
        (stan_like(name="rho"), {"X": X, "var_names": {"rho": "scale"}}, "to 'scale', but the"),
        (stan_like(), {"X": X, "var_names": {"r": "lengthscale"}}, "which the group posterior has"),
        (stan_like(-VALUES), {"X": X}, "outside of its prior"),
        (stan_like(VALUES * np.nan), {"X": X}, "not finite or outside"),
        (stan_like(VALUES[..., None] * [1.0, 2.0]), {"X": X}, r"shape \(2,\)"),
        (stan_like(), {"X": X, "likelihood": Landmark(4)}, "give the landmarks"),
        (stan_like(), {"X": np.append(X, np.nan)}, "X"),
        (xr.DataTree(), {"X": X}, "no group posterior"),
        (object(), {"X": X}, "ArviZ cannot read"),
        (
            MCMC(NUTS(bke_model), num_warmup=5, num_samples=5),
            {},
            r"has not run yet: call its run\(\)",
        ),
    ],
)
def test_inconsistent_arguments_are_refused(draws, arguments, message):
    with pytest.raises(InputError, match=message):
        open_run(draws, **arguments)


def test_a_run_of_fit_takes_no_model():
    run = open_run(stan_like(), X=X)
    for known in (run, run.tree):
        with pytest.raises(InputError, match="which knows its model: it takes no X"):
            diagnose(known, X=X)


def test_landmarks_are_part_of_the_hash_of_a_run():
    draws, grid = stan_like(), np.linspace(-4.0, 5.0, 8)[:, None]
    near, distant = (densities(draws, X=X, likelihood=Landmark(grid + d)) for d in (0.01, 0.4))
    assert not np.isclose(near, distant).any()


def test_priors_without_a_description_are_never_confused():
    """Their descriptions contain memory addresses, which later objects may reuse."""
    likelihoods = []
    for scale in (1.0, 0.1, 0.5, 1.0):
        prior = dist.TransformedDistribution(
            dist.Normal(0.0, scale), [dist.transforms.ExpTransform()]
        )
        opened = open_run(stan_like(), X=X, prior=prior)
        lp = opened.tree["sample_stats"]["lp"].values
        likelihoods.append(lp + 0.5 * (np.log(VALUES) / scale) ** 2 + np.log(scale))
        del prior
    np.testing.assert_allclose(likelihoods, [likelihoods[0]] * 4, rtol=1e-9)
    assert find_modes(reweight(opened, progress=False)).has_masses


def test_runs_of_equal_draws_share_no_mutable_data():
    draws = stan_like()
    first = open_run(draws, X=X).tree
    first["posterior"]["lengthscale"][:] = 9.0
    np.testing.assert_allclose(open_run(draws, X=X).tree["posterior"]["lengthscale"], VALUES)


def test_the_terms_that_bke_model_recorded_refute_other_data(mcmc, tree):
    """X is twice as wide, has a column more, or is another mean; in any order it is the same."""
    order = np.random.default_rng(0).permutation(len(X))
    assert diagnose(tree, X=X[order]).multimodal
    for other in (2.0 * X, np.concatenate([X, X], axis=1), X**2):
        with pytest.raises(InputError, match=OTHER_DATA):
            diagnose(tree, X=other)
    with pytest.raises(InputError, match=OTHER_DATA):
        diagnose(mcmc, X=X, noise_variance=0.2)


def test_densities_of_other_programs_are_recognized(recwarn):
    """Densities of the lengthscale itself, as emcee's, and in single precision."""
    expected = densities(stan_like(), X=X)
    for lp in (expected - np.log(VALUES) + 5.0, (expected - 2e4).astype(np.float32)):
        draws = stan_like(lp=lp)
        np.testing.assert_allclose(densities(draws, X=X), expected, atol=5e-3)
    assert not [warning for warning in recwarn if issubclass(warning.category, PosteriorWarning)]
    draws["sample_stats"]["lp"][0, 5] = np.nan
    np.testing.assert_allclose(densities(draws, X=X), expected)


def test_the_program_is_that_of_the_draws():
    draws = stan_like()
    other = draws.copy()
    other["posterior"].attrs["inference_library"] = "stan"
    for tree, name in ((other, "stan"), (draws, "another program"), (other, "stan")):
        assert f"draws of {name})" in str(diagnose(tree, X=X))


def test_chains_and_draws_may_be_selected():
    """There are two hyperparameters, and the graph of draws uses both."""
    rng = np.random.default_rng(0)
    values = np.exp(0.1 * rng.normal(size=(3, 40, 2)) + np.log([1.0, 1.5]))
    data = rng.normal(size=(30, 2))
    prior = dist.Gamma(1.0, 1.0).expand([2]).to_event(1)
    run = open_run(stan_like(values), X=data, prior=prior).tree
    selection = run.isel(draw=slice(20, None), missing_dims="ignore")
    (mode,) = find_modes(selection).modes
    np.testing.assert_allclose(mode.location["lengthscale"], np.median(values[:, 20:], axis=(0, 1)))
    with pytest.raises(InputError, match=r"no chains of draws: select one as isel\(chain=\[0\]\)"):
        diagnose(run.isel(chain=0))


def test_terms_are_checked_if_equal_draws_without_them_are_cached(tree):
    other = 1.5 * X
    open_run(stan_like(tree["posterior"]["lengthscale"].values), X=other)
    without = tree.copy()
    del without["sample_stats"]
    with pytest.raises(InputError, match=OTHER_DATA):
        open_run(without, X=other)
