"""Draws of other programs with their model are the run that ``fit`` would have made of them."""

import subprocess
import sys
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
from bke.models import Gaussian, Landmark, Laplace, SquaredExponential, bke_model
from matplotlib import pyplot as plt
from numpyro.infer import MCMC, NUTS, init_to_value

P, Q = normal_laplace(0, 20)
X = np.concatenate([P, Q])
#: Lengthscales in both modes of these data, near 0.4 and 3.
VALUES = np.stack([np.linspace(0.35, 0.45, 8), np.linspace(2.8, 3.4, 8)])


def stan_like(values=VALUES, name="rho", **others):
    groups = {"posterior": {name: values, **others}}
    return arviz_base.from_dict(groups)


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


@pytest.fixture
def _figures_are_closed():
    yield
    plt.close("all")


@pytest.mark.usefixtures("_figures_are_closed")
def test_plain_numpyro_is_diagnosed_weighed_and_drawn(mcmc, tree):
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


def test_the_density_that_numpyro_recorded_is_taken(mcmc, tree):
    lp = open_run(mcmc).tree["sample_stats"]["lp"].values
    recorded = tree["sample_stats"]["lp"].values
    np.testing.assert_allclose(lp, -recorded, rtol=1e-9)
    plain = stan_like(mcmc.get_samples(group_by_chain=True)["lengthscale"], "lengthscale")
    np.testing.assert_allclose(open_run(plain, X=X).tree["sample_stats"]["lp"], lp, rtol=1e-9)


def test_another_process_reads_the_tree(tree, tmp_path):
    tree.to_netcdf(tmp_path / "tree.nc")
    np.save(tmp_path / "X.npy", X)
    program = (
        "import sys, numpy as np, xarray as xr; from bke.inference import diagnose; "
        "print(diagnose(xr.open_datatree(sys.argv[1]), X=np.load(sys.argv[2])))"
    )
    names = [str(tmp_path / name) for name in ("tree.nc", "X.npy")]
    done = subprocess.run(
        [sys.executable, "-c", program, *names], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(diagnose(tree, X=X))


def test_it_is_the_run_of_fit():
    """Of the same draws: density, modes and masses agree with those of the run they are from."""
    run = fit(X, method=Nuts(2, 20, 6), standardize=None, progress=False)
    foreign = open_run(
        stan_like(run["posterior"]["lengthscale"].values), X=X, var_names={"rho": "lengthscale"}
    ).tree
    np.testing.assert_allclose(foreign["sample_stats"]["lp"], run["sample_stats"]["lp"], rtol=1e-9)
    ours, theirs = (find_modes(reweight(tree, progress=False)) for tree in (run, foreign))
    np.testing.assert_array_equal(ours.of_draws, theirs.of_draws)
    np.testing.assert_allclose(
        [mode.mass for mode in ours.modes], [mode.mass for mode in theirs.modes], atol=3e-3
    )


def test_it_can_be_saved(tmp_path):
    run = open_run(stan_like(), X=X, var_names={"rho": "lengthscale"}).tree
    save_run(run, tmp_path / "run.nc")
    assert str(diagnose(load_run(tmp_path / "run.nc"))) == str(diagnose(run))


def test_it_is_computed_once():
    arguments = {"X": X, "var_names": {"rho": "lengthscale"}}
    first = open_run(stan_like(), **arguments).tree
    assert open_run(stan_like(), **arguments).tree is first
    others = [
        open_run(stan_like(VALUES * 1.01), **arguments),
        open_run(stan_like(), **{**arguments, "X": X + 1e-3}),
        open_run(stan_like(), **arguments, noise_variance=0.2),
    ]
    assert all(other.tree is not first for other in others)


def test_other_models_and_shapes():
    """As PyMC writes it: other variables beside, a vector with its own dimension, a noise prior."""
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
        z = {"lengthscale": np.log(scales[1, 2]), "noise_variance": None}
        uniform = numpyro.distributions.biject_to(dist.Uniform(0.05, 1.0).support)
        z["noise_variance"] = uniform.inv(noise[1, 2])
        energy = numpyro.infer.util.potential_energy(bke_model, (plane,), model, z)
    lp = opened.tree["sample_stats"]["lp"].values[1, 2]
    assert lp == pytest.approx(-float(energy), rel=1e-9)
    assert len(opened.tree["paths"]["draw"]) == 3


def test_a_partial_model_knows_its_arguments():
    model = partial(bke_model, noise_variance=0.3)
    sampler = MCMC(NUTS(model), num_warmup=1, num_samples=1, progress_bar=False)
    sampler._args, sampler._kwargs = (X,), {"kernel": Laplace}
    sampler._states = {"z": {"lengthscale": VALUES[:, :4]}}
    sampler._states_flat = {"z": {"lengthscale": VALUES[:, :4].ravel()}}
    target = open_run(sampler).target
    assert (target.noise_variance, type(target.kernel)) == (0.3, Laplace)


def test_a_density_of_another_model_is_noted():
    tree = stan_like(name="lengthscale")
    tree["sample_stats"] = xr.DataTree(xr.Dataset({"lp": (("chain", "draw"), VALUES)}))
    with pytest.warns(PosteriorWarning, match="up to a constant: they are of other data"):
        open_run(tree, X=X)


@pytest.mark.parametrize(
    ("draws", "arguments", "message"),
    [
        (stan_like(), {}, "give the data and the model"),
        (stan_like(), {"X": X}, "have no 'lengthscale', only rho: var_names="),
        (stan_like(), {"X": X, "kernl": Laplace}, "did you mean 'kernel'"),
        (stan_like(), {"X": X, "var_names": {"rho": "scale"}}, "maps to 'scale', but the sites"),
        (stan_like(), {"X": X, "var_names": {"r": "lengthscale"}}, "which the group posterior has"),
        (stan_like(-VALUES, "lengthscale"), {"X": X}, "outside of its prior"),
        (stan_like(VALUES * np.nan, "lengthscale"), {"X": X}, "not finite or outside"),
        (stan_like(VALUES[..., None] * [1.0, 2.0], "lengthscale"), {"X": X}, r"shape \(2,\)"),
        (
            stan_like(name="lengthscale"),
            {"X": X, "likelihood": Landmark(4)},
            "give the landmarks",
        ),
        (stan_like(name="lengthscale"), {"X": np.append(X, np.nan)}, "X"),
        (xr.DataTree(), {"X": X}, "no group posterior"),
        (object(), {"X": X}, "ArviZ cannot read"),
    ],
)
def test_what_does_not_fit_is_refused(draws, arguments, message):
    with pytest.raises(InputError, match=message):
        open_run(draws, **arguments)


def test_a_run_of_fit_takes_no_model():
    run = open_run(stan_like(name="lengthscale"), X=X)
    for known in (run, run.tree):
        with pytest.raises(InputError, match="which knows its model: it takes no X"):
            diagnose(known, X=X)
