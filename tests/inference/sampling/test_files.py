"""Runs are read if they are complete, whoever wrote them, and modules only with consent."""

import contextlib
import importlib
import json
import random
import sys

import numpy as np
import numpyro.distributions as dist
import pytest
import xarray as xr
from bke.inference import InputError, diagnose, fit, load_run, save_run
from bke.inference.core.netcdf import CHECKSUM_ATTRIBUTE
from bke.inference.diagnostics.summary import run_summary
from bke.inference.sampling.record import RECORD, read_record
from bke.models import Gaussian, kernel_from_function

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
    """Remove a group, a variable or an attribute."""

    def change(run):
        *groups, name = path
        group = run[groups[0]] if groups else run
        del (group.attrs if name in group.attrs else group)[name]

    return change


def attribute(name, value, group="/"):
    return lambda run: run[group].attrs.update({name: value})


def entry(*path, value=None):
    """Change an entry of the record, or remove it."""

    def change(run):
        record = part = read_record(run.attrs)
        *parts, name = path
        for key in parts:
            part = part[key]
        if value is None:
            del part[name]
        else:
            part[name] = value
        run.attrs[RECORD] = json.dumps(record)

    return change


def variable(group, name, change):
    """Replace a group by ``change(dataset, name)``."""

    def changed(run):
        run[group] = xr.DataTree(change(run[group].to_dataset(), name))

    return changed


def values(function):
    """Replace the values of a variable."""

    def change(dataset, name):
        return dataset.assign({name: (dataset[name].dims, function(dataset[name].values))})

    return change


def with_nan(array):
    changed = array.astype(float)
    changed.flat[3] = np.nan
    return changed


def renamed(dataset, name):
    return dataset.rename({name: "other"})


def fewer(dataset, name):
    return dataset.isel({name: slice(0, -1)})


def transposed(dataset, name):
    return dataset.assign({name: dataset[name].transpose(*dataset[name].dims[::-1])})


text, larger, moved = (
    values(function)
    for function in (lambda x: x.astype(str), lambda x: x * 100.0, lambda x: x + 1e-9)
)
TYPES = ["U8", "f4", "i2"]
NO_MODEL = "its record does not describe a model"
CHANGES = [
    (without("posterior"), "this is not a run"),
    (without(RECORD), "this is not a run"),
    (without("unconstrained_posterior"), "it has no group unconstrained_posterior"),
    (without("sample_stats"), "it has no group sample_stats"),
    (without("observed_data"), "it has no group observed_data"),
    (without("profile", "value"), "its group profile has no value"),
    (without("profile", "site"), "its group profile has no site"),
    (without("quadrature", "log_normalizer_error"), "quadrature has no log_normalizer_error"),
    (variable("posterior", "lengthscale", values(with_nan)), "has values that are not finite"),
    (variable("posterior", "lengthscale", text), "is not a number or an array of numbers"),
    (variable("posterior", "lengthscale", renamed), "unconstrained_posterior has no other"),
    (variable("posterior", "lengthscale", transposed), "has no chains of draws"),
    (variable("unconstrained_posterior", "draw", fewer), "4000 along draw, and unconstrained"),
    (variable("sample_stats", "chain", fewer), "along chain, and sample_stats has"),
    (variable("observed_data", "X", values(with_nan)), "X in its group observed_data has values"),
    (variable("observed_data", "X", moved), "are not those that it was made of"),
    (variable("observed_data", "X", renamed), "has no X, and has no rows"),
    (variable("quadrature", "weight", text), "weight in its group quadrature is not a number"),
    (attribute(RECORD, "[]"), "its attribute bke is not a record of a run: '[]'"),
    (attribute(RECORD, "{"), "its attribute bke is not a record of a run: '{'"),
    (attribute(RECORD, 7), "its attribute bke is not a record of a run"),
    (entry("version", value=1), "its record has version 1"),
    (entry("model", value=7), NO_MODEL),
    (entry("model", "kernel", value="SquaredExponential"), "no record of its kernel"),
    (entry("model", "prior", value={}), "of lengthscale, but its model is of nothing"),
    (entry("model", "measure", value={"no": 1}), NO_MODEL),
    (entry("units", "scale", value="wide"), NO_MODEL),
    (entry("units", "scale", value=[1.0, -1.0]), "units in its record are not positive"),
    (entry("units", "dither", value=[np.nan, 0.0]), "units in its record are not positive"),
    (entry("model", "noise_variance", value=-1.0), "noise_variance must be"),
    (variable("posterior", "lengthscale", larger), "is not what unconstrained_posterior makes it"),
    (variable("quadrature", "weight", larger), "are not probabilities with sum 1"),
    (attribute("log_normalizer", np.nan, "quadrature"), "has values that are not finite"),
    (attribute("log_normalizer", "x", "quadrature"), "is not a number or an array"),
    (entry("units", "scale", value=[1.0, 2.0, 3.0]), "one for each column"),
    *((entry(name), f"no {name}") for name in ("units", "packages", "method", "seed")),
    (entry("data_sha256"), "are not those that it was made of"),
    *((entry("model", n), NO_MODEL) for n in ("prior", "noise_variance", "measure", "likelihood")),
    *((entry("units", name), "does not describe a model") for name in ("scale", "dither_seed")),
]


def loaded(run, path):
    """Write a run as another program does and read it; a refusal is one sentence that names it."""
    run.to_netcdf(path, engine="h5netcdf")
    try:
        return load_run(path)
    except InputError as error:
        message = str(error)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message


@pytest.mark.parametrize("index", range(len(CHANGES)))
@pytest.mark.one_in(4)
def test_a_run_that_another_program_wrote_is_complete_or_refused(run, tmp_path, index):
    change, message = CHANGES[index]
    changed = run.copy(deep=True)
    change(changed)
    assert message in loaded(changed, tmp_path / "run.nc")


@pytest.mark.slow
def test_random_changes_are_refused_or_do_no_harm(run, tmp_path):
    """Sixty groups, variables or attributes less, of another name, type or content; seed 2."""
    rng = random.Random(2)
    changes = [
        lambda dataset, name: dataset.drop_vars(name),
        renamed,
        lambda dataset, name: dataset.assign({name: dataset[name].astype(rng.choice(TYPES))}),
        lambda dataset, name: dataset.isel({dataset[name].dims[-1]: slice(0, 2)}),
        values(lambda array: np.full_like(array, rng.choice([np.nan, np.inf]), dtype=float)),
    ]
    for _ in range(60):
        tree = run.copy(deep=True)
        group = rng.choice(list(tree.children))
        names = list(tree[group].data_vars)
        kind = rng.randrange(7)
        if kind == 0:
            tree.attrs[rng.choice(list(tree.attrs))] = rng.choice(["", "no", 7, "{}", "null", "[]"])
        elif kind == 1 or not names:
            del tree[group]
        else:
            variable(group, rng.choice(names), changes[kind - 2])(tree)
        tree.attrs.pop(CHECKSUM_ATTRIBUTE, None)
        restored = loaded(tree, tmp_path / "run.nc")
        if not isinstance(restored, str):
            with contextlib.suppress(InputError):
                run_summary(restored, diagnose(restored))


def test_a_run_that_was_thinned_or_extended_is_read(run, tmp_path):
    thinned = run.copy(deep=True)
    for name in ("posterior", "unconstrained_posterior", "sample_stats"):
        thinned[name] = xr.DataTree(thinned[name].to_dataset().isel(draw=slice(0, None, 5)))
    thinned["mine"] = xr.DataTree(xr.Dataset({"note": ("row", ["a", "b"])}))
    del thinned["prior"]
    restored = loaded(thinned, tmp_path / "run.nc")
    assert restored["posterior"].sizes["draw"] == 800
    assert len(diagnose(restored).modes.modes) == len(diagnose(run).modes.modes)


def test_log_density_is_the_only_statistic_that_is_needed(run, tmp_path):
    """Other samplers, and other programs, record other statistics, and no checksum."""
    changed = run.copy(deep=True)
    for name in ("warmup_sample_stats", "warmup_posterior", "initial"):
        if name in changed.children:
            del changed[name]
    changed["sample_stats"] = xr.DataTree(changed["sample_stats"].to_dataset()[["lp"]])
    restored = loaded(changed, tmp_path / "run.nc")
    assert str(diagnose(restored)) == str(diagnose(run))
    np.testing.assert_array_equal(
        restored["posterior"]["lengthscale"], run["posterior"]["lengthscale"]
    )
    changed["sample_stats"] = xr.DataTree(xr.Dataset({"energy": ("chain", [1.0])}))
    assert "sample_stats" in loaded(changed, tmp_path / "run.nc")


@pytest.fixture
def stranger(tmp_path, monkeypatch):
    """A folder with a module, and with a run that was made with its kernel."""
    folder = tmp_path / "received"
    folder.mkdir()
    (folder / f"{NAME}.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(folder))
    module = importlib.import_module(NAME)
    kernel = kernel_from_function(module.heat, stationary=True)
    X = np.random.default_rng(0).normal(size=12)
    run = fit(X, kernel=kernel, measure=Gaussian(2.0), progress=False)
    save_run(run, folder / "run.nc")
    load_run(folder / "run.nc")  # its module is imported
    del sys.modules[NAME]
    (folder / "was_run").unlink()
    importlib.invalidate_caches()
    yield folder
    sys.modules.pop(NAME, None)


@pytest.mark.parametrize("location", ["beside", "elsewhere"])
def test_a_module_is_not_run_without_consent(stranger, tmp_path, location):
    path = stranger / "run.nc"
    if location == "elsewhere":
        path = path.rename(tmp_path / "run.nc")
    with pytest.raises(InputError, match=f"of the module '{NAME}', which would be run"):
        load_run(path)
    with pytest.raises(InputError, match="the module 'no_such_module' cannot be imported"):
        load_run(path, modules=["no_such_module"])
    assert not (stranger / "was_run").exists()
    load_run(path, modules=[NAME])
    assert (stranger / "was_run").exists()
    load_run(path)


def test_a_prior_that_cannot_be_rebuilt_leaves_its_draws(tmp_path):
    class UserGamma(dist.Gamma):
        pass

    original = fit(
        np.random.default_rng(0).normal(size=12), prior=UserGamma(2.0, 2.0), progress=False
    )
    save_run(original, tmp_path / "run.nc")
    restored = load_run(tmp_path / "run.nc")["posterior"]["lengthscale"]
    np.testing.assert_array_equal(restored, original["posterior"]["lengthscale"])
