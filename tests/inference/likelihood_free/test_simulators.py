"""Equal results of plain, vectorized and JAX simulators; failed simulations."""

from __future__ import annotations

import importlib
import json
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from bke.inference import InputError, jax_simulator, k2_abc, vectorize
from bke.models import SquaredExponential

GRID = np.linspace(-1.0, 1.0, 8)
Y = 0.5 + 1.5 * GRID
SINGLE_PRIOR = {"a": dist.Uniform(0.0, 1.0)}
PRIOR = {"b": dist.Normal(np.zeros(2), 1.0), "a": dist.Uniform(0.0, 1.0)}
QUICK = {
    "kernel": SquaredExponential(1.0),
    "num_simulations": 60,
    "batch_size": 25,
    "progress": False,
}


def plain(rng, theta):
    assert isinstance(theta["a"], float)
    return theta["a"] + theta["b"][0] * GRID + theta["b"][1] * GRID**2


def test_simulator_types_agree():
    @vectorize
    def arrays(rng, theta):
        line = theta["a"][:, None] + theta["b"][:, :1] * GRID + theta["b"][:, 1:] * GRID**2
        return line[:, :, None]

    @jax_simulator
    def compiled(key, theta):
        return theta["a"] + theta["b"][0] * jnp.array(GRID) + theta["b"][1] * jnp.array(GRID) ** 2

    runs = [
        k2_abc(Y, simulate, PRIOR, epsilon=0.1, **QUICK) for simulate in (plain, arrays, compiled)
    ]
    for run in runs[1:]:
        for name in ("a", "b"):
            np.testing.assert_array_equal(run["posterior"][name], runs[0]["posterior"][name])
        for name in ("squared_distance", "weight"):
            first, other = (tree["sample_stats"][name] for tree in (runs[0], run))
            np.testing.assert_allclose(other, first, rtol=1e-9)
    assert runs[0]["posterior"]["b"].shape == (1, 60, 2)


def test_random_numbers_differ_and_repeat():
    @jax_simulator
    def noise(key, theta):
        return jax.random.normal(key, (8,)) + theta["a"]

    first, second, other = (
        k2_abc(Y, noise, SINGLE_PRIOR, epsilon=0.1, seed=seed, **QUICK)["sample_stats"]
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first["squared_distance"], second["squared_distance"])
    assert len(np.unique(first["squared_distance"])) == 60
    assert not np.intersect1d(first["squared_distance"], other["squared_distance"]).size


def test_processes_give_the_same_results(tmp_path, monkeypatch):
    source = """
        def simulate(rng, theta):
            if theta["a"] > 0.9:
                raise ZeroDivisionError("too large")
            return theta["a"] + rng.normal(size=8)

        def broken(rng, theta):
            raise KeyError("gone")
    """
    (tmp_path / "of_processes.py").write_text(textwrap.dedent(source))
    monkeypatch.syspath_prepend(tmp_path)
    model = importlib.import_module("of_processes")
    with pytest.warns(UserWarning, match="with ZeroDivisionError: too large"):
        single, pooled = (
            k2_abc(Y, model.simulate, SINGLE_PRIOR, epsilon=0.1, workers=workers, **QUICK)
            for workers in (1, 2)
        )
    for group, name in (("posterior", "a"), ("sample_stats", "squared_distance")):
        np.testing.assert_array_equal(single[group][name], pooled[group][name])
    assert single.attrs["failures"] == pooled.attrs["failures"]
    for workers in (1, 2):
        with pytest.raises(KeyError, match="gone") as caught:
            k2_abc(Y, model.broken, SINGLE_PRIOR, workers=workers, **QUICK)
        assert "simulated for a = 0." in caught.value.__notes__[0]


def test_failures_are_counted_by_cause():
    def sometimes(rng, theta):
        a = theta["a"]
        if a < 0.1:
            return np.full(8, np.inf)
        if a < 0.2:
            return np.zeros(7)
        if a < 0.3:
            return 1.0 / np.float64(0.0) if a < 0.0 else [1.0 / 0.0]
        return a + GRID

    with pytest.warns(UserWarning, match="of 60 simulations failed and are left out") as warned:
        run = k2_abc(Y, sometimes, SINGLE_PRIOR, epsilon=0.1, **QUICK)
    assert len(warned) == 1
    with pytest.raises(InputError, match="None returned"):
        k2_abc(Y, lambda rng, theta: None, SINGLE_PRIOR, epsilon=0.1, **QUICK)
    everything = k2_abc(Y, lambda rng, theta: theta["a"] + GRID, SINGLE_PRIOR, epsilon=0.1, **QUICK)
    a = everything["posterior"]["a"].values[0]
    causes = {
        "values that are not finite": int(np.sum(a < 0.1)),
        "shape (7,) in place of (8,)": int(np.sum((a >= 0.1) & (a < 0.2))),
        "ZeroDivisionError: float division by zero": int(np.sum((a >= 0.2) & (a < 0.3))),
    }
    assert json.loads(run.attrs["failures"]) == causes
    assert run.attrs["failed"] == sum(causes.values())
    np.testing.assert_array_equal(run["posterior"]["a"].values[0], a[a >= 0.3])
    np.testing.assert_array_equal(run["sample_stats"]["simulation"][0], np.flatnonzero(a >= 0.3))
    assert f"a = {a[a < 0.3][0]:.6f}"[:10] in run.attrs["first_failure"]


def test_most_frequent_cause_of_failure_is_named():
    def never(rng, theta):
        return np.full(8 if theta["a"] > 0.3 else 5, np.nan)

    with pytest.raises(InputError, match=r"all 60 .* failed, \d+ of them with values that"):
        k2_abc(Y, never, SINGLE_PRIOR, **QUICK)


def test_run_ends_early_if_all_simulations_fail():
    calls = []

    def never(rng, theta):
        calls.append(theta)
        raise FloatingPointError("no")

    with pytest.raises(InputError, match="all 100 simulations failed"):
        k2_abc(Y, never, PRIOR, **{**QUICK, "num_simulations": 1000, "batch_size": 50})
    assert len(calls) == 100


def test_arrays_that_are_not_finite_are_left_out():
    @vectorize
    def sometimes(rng, theta):
        values = theta["a"][:, None] + GRID
        values[::3, 2] = np.nan
        return values

    with pytest.warns(UserWarning, match="values that are not finite"):
        run = k2_abc(Y, sometimes, SINGLE_PRIOR, epsilon=0.1, **QUICK)
    assert run.attrs["failed"] == 9 + 9 + 4  # of chunks of 25, 25 and 10


@pytest.mark.parametrize("decorate", [vectorize, jax_simulator])
def test_arrays_of_another_shape_are_refused(decorate):
    shape = (25, 7) if decorate is vectorize else (7,)
    with pytest.raises(InputError, match=r"shape \(25, 7\) for 25 parameters, where \(25, 8\)"):
        k2_abc(Y, decorate(lambda rng, theta: jnp.zeros(shape)), PRIOR, **QUICK)


def test_number_of_rows_may_differ():
    run = k2_abc(Y, lambda rng, t: t["a"] + np.zeros(3), PRIOR, rows=3, epsilon=0.1, **QUICK)
    assert run.attrs["rows"] == 3


@pytest.mark.parametrize(
    ("simulate", "workers", "message"),
    [
        ("model", None, "simulate must be a function"),
        (plain, 0, "workers must be"),
        (lambda rng, theta: GRID, 2, "cannot be handed to other processes"),
        (vectorize(plain), 2, "workers are for plain functions"),
        (lambda rng, theta: "words", None, "an array of numbers"),
    ],
)
def test_bad_simulators(simulate, workers, message):
    with pytest.raises(InputError, match=message):
        k2_abc(Y, simulate, PRIOR, workers=workers, **QUICK)
