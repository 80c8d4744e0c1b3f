"""Mutated runs: each is refused in one sentence, or gives the answer of the run as it was."""

import contextlib
import random

import numpy as np
import pytest
import xarray as xr
from bke.inference import InputError, Nuts, diagnose, fit, load_run, save_run
from bke.inference.core.netcdf import SEALED
from bke.inference.diagnostics.summary import run_summary

#: Of each kind and method; the study that is told of has 500.
EACH = 60


@pytest.fixture(scope="module", params=["quadrature", "nuts"])
def saved(request, tmp_path_factory):
    X = np.random.default_rng(0).normal(size=(12, 2))
    method = (
        Nuts(num_samples=40, num_chains=2, num_warmup=60)
        if request.param == "nuts"
        else "quadrature"
    )
    run = fit(X, method=method, progress=False)
    path = tmp_path_factory.mktemp("saved") / "run.nc"
    save_run(run, path)
    return path


def answer(run):
    """What `bke diagnose` tells of a run."""
    diagnosis = diagnose(run)
    return str(diagnosis), run_summary(run, diagnosis)["posterior"]


def same(one, other):
    text, posterior = one
    assert text == other[0]
    assert posterior == other[1]


@pytest.mark.slow
def test_changed_bytes(saved, damaged, tmp_path):
    """Flipped bits, cuts and noise, seed 0; what is read in spite of them is as it was."""
    rng, whole, path = random.Random(0), saved.read_bytes(), tmp_path / "run.nc"
    expected, read = answer(load_run(saved)), 0
    for _ in range(EACH):
        path.write_bytes(damaged(whole, rng))
        if (found := loaded(path)) is not None:
            read += 1
            same(answer(found), expected)
    assert read < 0.1 * EACH


def loaded(path):
    try:
        return load_run(path)
    except InputError as error:
        told = str(error)
    assert "\n" not in told
    assert str(path) in told
    return None


def tree_changed(tree, rng):
    """One group, variable, dimension or attribute less, of another name, type or content."""
    group = rng.choice([None, *tree.children])
    if group is None:
        name = rng.choice(list(tree.attrs))
        tree.attrs[name] = rng.choice(["", "nonsense", 7, [1.0, 2.0], "{}", "null", "[]"])
        return
    kind = rng.randrange(6)
    if kind == 0:
        del tree[group]
        return
    dataset = tree[group].to_dataset()
    if not dataset.data_vars:
        return
    name = rng.choice(list(dataset.data_vars))
    values = dataset[name]
    if kind == 1:
        dataset = dataset.drop_vars(name)
    elif kind == 2:
        dataset = dataset.rename({name: "renamed"})
    elif kind == 3:
        dataset = dataset.assign({name: values.astype(rng.choice(["U8", "f4", "i2"]))})
    elif kind == 4:
        dataset = dataset.isel({values.dims[-1]: slice(0, max(1, values.shape[-1] // 2))})
    else:
        other = values.values.astype(float)
        other.flat[rng.randrange(other.size)] = rng.choice([np.nan, np.inf])
        dataset = dataset.assign({name: (values.dims, other)})
    tree[group] = xr.DataTree(dataset)


def changed(saved, rng):
    with xr.open_datatree(saved, engine="h5netcdf") as opened:
        tree = opened.load()
    tree_changed(tree, rng)
    return tree


@pytest.mark.slow
def test_changed_trees(saved, tmp_path):
    """Written anew by another program, unsealed: whole runs are read, whatever they say now."""
    rng, path = random.Random(2), tmp_path / "run.nc"
    for _ in range(EACH):
        tree = changed(saved, rng)
        tree.attrs.pop(SEALED, None)
        try:
            tree.to_netcdf(path, engine="h5netcdf")
        except (TypeError, ValueError):
            continue
        if (found := loaded(path)) is not None:
            with contextlib.suppress(InputError):
                answer(found)
