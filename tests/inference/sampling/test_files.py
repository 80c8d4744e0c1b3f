"""Runs that are read: whole ones only, whoever wrote them, and no module beside them unasked."""

import json
import sys

import numpy as np
import numpyro.distributions as dist
import pytest
import xarray as xr
from bke.inference import InputError, diagnose, fit, load_run, save_run
from bke.inference.sampling.record import RECORD, read_record

NAME = "bke_kernels_of_a_stranger"
MODULE = """
import jax.numpy as jnp
from pathlib import Path

Path(__file__).with_name("was_run").touch()

def heat(x, y, *, lengthscale=1.0):
    return jnp.exp(-jnp.sum(((x - y) / lengthscale) ** 2))
"""


@pytest.fixture(scope="module")
def run():
    return fit(np.random.default_rng(0).normal(size=(12, 2)), progress=False)


def without(*path):
    def change(run):
        *groups, name = path
        group = run[groups[0]] if groups else run
        if name in group.attrs:
            del group.attrs[name]
        else:
            del group[name]

    return change


def variable(group, name, change):
    def changed(run):
        dataset = run[group].to_dataset()
        run[group] = xr.DataTree(change(dataset, name))

    return changed


def with_nan(dataset, name):
    values = dataset[name].values.copy()
    values.flat[3] = np.nan
    return dataset.assign({name: (dataset[name].dims, values)})


def format_values(dataset, name):
    return dataset.assign({name: dataset[name].astype(str)})


def renamed(dataset, name):
    return dataset.rename({name: "other"})


def fewer(dataset, name):
    return dataset.isel({name: slice(0, -1)})


def turned(dataset, name):
    return dataset.assign({name: dataset[name].transpose(*dataset[name].dims[::-1])})


def larger(dataset, name):
    return dataset.assign({name: dataset[name] * 100.0})


def of_group(group, name, value):
    def change(run):
        run[group].attrs[name] = value

    return change


def moved(dataset, name):
    return dataset.assign({name: dataset[name] + 1e-9})


def entry(*path, value=None):
    """Change an entry of the record, or remove it."""

    def change(run):
        record = part = read_record(run.attrs)
        *parts, name = path
        for each in parts:
            part = part[each]
        if value is None:
            del part[name]
        else:
            part[name] = value
        run.attrs[RECORD] = json.dumps(record)

    return change


def attribute(name, value):
    def change(run):
        run.attrs[name] = value

    return change


CHANGES = [
    (without("posterior"), "this is not a run"),
    (without(RECORD), "this is not a run"),
    (without("unconstrained_posterior"), "it has no group unconstrained_posterior"),
    (without("sample_stats"), "it has no group sample_stats"),
    (without("observed_data"), "it has no group observed_data"),
    (without("profile", "value"), "its group profile has no value"),
    (without("profile", "site"), "its group profile has no site"),
    (
        without("quadrature", "log_normalizer_error"),
        "its group quadrature has no log_normalizer_error",
    ),
    (variable("posterior", "lengthscale", with_nan), "has values that are not finite"),
    (variable("posterior", "lengthscale", format_values), "is not a number or an array of numbers"),
    (variable("posterior", "lengthscale", renamed), "unconstrained_posterior has no other"),
    (variable("posterior", "lengthscale", turned), "has no chains of draws"),
    (variable("unconstrained_posterior", "draw", fewer), "4000 along draw, and unconstrained"),
    (variable("sample_stats", "chain", fewer), "along chain, and sample_stats has"),
    (variable("observed_data", "X", with_nan), "X in its group observed_data has values"),
    (variable("observed_data", "X", moved), "are not those that it was made of"),
    (variable("observed_data", "X", renamed), "has no X, and has no rows"),
    (
        variable("quadrature", "weight", format_values),
        "weight in its group quadrature is not a number",
    ),
    (attribute(RECORD, "[]"), "its attribute bke is not a record of a run: '[]'"),
    (attribute(RECORD, "{"), "its attribute bke is not a record of a run: '{'"),
    (attribute(RECORD, 7), "its attribute bke is not a record of a run"),
    (entry("version", value=2), "its record has version 2"),
    (entry("model", value=7), "its record does not describe a model"),
    (entry("model", "kernel", value="SquaredExponential"), "no record of its kernel"),
    (entry("model", "prior", value={}), "of lengthscale, but its model is of nothing"),
    (entry("model", "measure", value={"no": 1}), "its record does not describe a model"),
    (entry("units", "scale", value="wide"), "its record does not describe a model"),
    (entry("units", "scale", value=[1.0, -1.0]), "units in its record are not positive"),
    (entry("units", "dither", value=[np.nan, 0.0]), "units in its record are not positive"),
    (entry("model", "noise_variance", value=-1.0), "noise_variance must be"),
    (variable("posterior", "lengthscale", larger), "is not what unconstrained_posterior makes it"),
    (
        variable("quadrature", "weight", larger),
        "are not probabilities with sum 1",
    ),
    (
        of_group("quadrature", "log_normalizer", np.nan),
        "has values that are not finite",
    ),
    (of_group("quadrature", "log_normalizer", "x"), "is not a number or an array"),
    (entry("units", "scale", value=[1.0, 2.0, 3.0]), "one for each column"),
    *(
        (entry(name), f"its record has no {name}")
        for name in ("units", "packages", "method", "seed")
    ),
    (entry("data_sha256"), "are not those that it was made of"),
    *(
        (entry("model", name), "its record does not describe a model")
        for name in ("prior", "noise_variance", "measure", "likelihood")
    ),
    *((entry("units", name), "does not describe a model") for name in ("scale", "dither_seed")),
]


@pytest.mark.parametrize("index", range(len(CHANGES)))
@pytest.mark.one_in(4)
def test_a_run_that_another_program_wrote_is_whole_or_refused(run, tmp_path, index):
    change, told = CHANGES[index]
    changed = run.copy(deep=True)
    change(changed)
    changed.to_netcdf(tmp_path / "run.nc", engine="h5netcdf")
    with pytest.raises(InputError) as refused:
        load_run(tmp_path / "run.nc")
    assert str(refused.value).startswith(f"{tmp_path / 'run.nc'}: ")
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_run_that_was_thinned_or_extended_is_read(run, tmp_path):
    thinned = run.copy(deep=True)
    for name in ("posterior", "unconstrained_posterior", "sample_stats"):
        thinned[name] = xr.DataTree(thinned[name].to_dataset().isel(draw=slice(0, None, 5)))
    thinned["mine"] = xr.DataTree(xr.Dataset({"note": ("row", ["a", "b"])}))
    del thinned["prior"]
    thinned.to_netcdf(tmp_path / "run.nc", engine="h5netcdf")
    found = load_run(tmp_path / "run.nc")
    assert found["posterior"].sizes["draw"] == 800
    assert len(diagnose(found).modes.modes) == len(diagnose(run).modes.modes)


def test_a_run_without_a_checksum_is_read(run, tmp_path):
    run.to_netcdf(tmp_path / "run.nc", engine="h5netcdf")
    found = load_run(tmp_path / "run.nc")["posterior"]["lengthscale"]
    np.testing.assert_array_equal(found, run["posterior"]["lengthscale"])


def test_log_density_is_the_only_statistic_that_is_needed(run, tmp_path):
    """Other samplers, and other programs, record other statistics."""
    changed = run.copy(deep=True)
    for name in ("warmup_sample_stats", "warmup_posterior", "initial"):
        if name in changed.children:
            del changed[name]
    changed["sample_stats"] = xr.DataTree(changed["sample_stats"].to_dataset()[["lp"]])
    changed.to_netcdf(tmp_path / "run.nc", engine="h5netcdf")
    assert str(diagnose(load_run(tmp_path / "run.nc"))) == str(diagnose(run))
    changed["sample_stats"] = xr.DataTree(xr.Dataset({"energy": ("chain", [1.0])}))
    changed.to_netcdf(tmp_path / "run.nc", engine="h5netcdf")
    with pytest.raises(InputError, match="sample_stats"):
        load_run(tmp_path / "run.nc")


@pytest.fixture
def stranger(tmp_path, monkeypatch):
    """A folder with a module, and with a run that was made with its kernel."""
    import importlib

    from bke.models import Gaussian, kernel_from_function

    folder = tmp_path / "received"
    folder.mkdir()
    (folder / f"{NAME}.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(folder))
    module = importlib.import_module(NAME)
    kernel = kernel_from_function(module.heat, stationary=True)
    X = np.random.default_rng(0).normal(size=12)
    made = fit(X, kernel=kernel, measure=Gaussian(2.0), progress=False)
    save_run(made, folder / "run.nc")
    load_run(folder / "run.nc")  # its module is imported
    del sys.modules[NAME]
    (folder / "was_run").unlink()
    importlib.invalidate_caches()
    yield folder
    sys.modules.pop(NAME, None)


@pytest.mark.parametrize("place", ["beside", "elsewhere"])
def test_a_module_is_not_run_unasked(stranger, tmp_path, place):
    path = stranger / "run.nc"
    if place == "elsewhere":
        path = path.rename(tmp_path / "run.nc")
    with pytest.raises(InputError, match=f"of the module '{NAME}', which would be run"):
        load_run(path)
    assert not (stranger / "was_run").exists()
    load_run(path, modules=[NAME])
    assert (stranger / "was_run").exists()
    load_run(path)


def test_a_prior_that_cannot_be_rebuilt_leaves_its_draws(tmp_path):
    class Own(dist.Gamma):
        pass

    made = fit(np.random.default_rng(0).normal(size=12), prior=Own(2.0, 2.0), progress=False)
    save_run(made, tmp_path / "run.nc")
    found = load_run(tmp_path / "run.nc")["posterior"]["lengthscale"]
    np.testing.assert_array_equal(found, made["posterior"]["lengthscale"])


@pytest.mark.slow
def test_a_module_that_there_is_not(stranger):
    with pytest.raises(InputError, match="the module 'no_such_module' cannot be imported"):
        load_run(stranger / "run.nc", modules=["no_such_module"])
