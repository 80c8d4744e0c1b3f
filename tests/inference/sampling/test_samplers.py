"""Samplers by name and by their options, the choice among them, and what a run records of it."""

import dataclasses
import subprocess
import sys

import numpy as np
import numpyro.distributions as dist
import pytest
from bke.inference import (
    InputError,
    Nuts,
    Quadrature,
    Smc,
    diagnose,
    fit,
    load_run,
    reweight,
    save_run,
)
from bke.inference.diagnostics.summary import posterior_summary
from bke.inference.sampling.samplers import SAMPLERS, Auto, MethodName, sampler_for
from bke.inference.sampling.target import Target

X = np.random.default_rng(0).gamma(2.0, size=(30, 1))


def target(columns: int):
    """Return a target with the given number of lengthscales."""
    prior = dist.Gamma(1.0, 1.0).expand([columns]) if columns > 1 else None
    return Target.checked(prior=prior)


AUTO = Auto(Quadrature(tolerance=0.1, num_samples=64), Smc(num_particles=100, num_repeats=5))


@pytest.mark.parametrize(
    ("columns", "expected", "custom", "dimension"),
    [
        (1, Quadrature(), AUTO.quadrature, "1 hyperparameter"),
        (2, Quadrature(), AUTO.quadrature, "2 hyperparameters"),
        (3, Smc(), AUTO.smc, "3 hyperparameters"),
        (10, Smc(), AUTO.smc, "10 hyperparameters"),
    ],
)
def test_auto_is_quadrature_in_up_to_two_dimensions_and_smc_beyond(
    columns, expected, custom, dimension
):
    chosen = f"{expected.name}, chosen automatically: {dimension}"
    for method, sampler in (("auto", expected), (AUTO, custom)):
        sampler_used, record = sampler_for(method, target(columns))
        assert sampler_used == sampler
        assert record["method"] == expected.name
        assert record["chosen"].startswith(chosen)


@pytest.mark.parametrize("kind", [Nuts, Quadrature, Smc])
def test_a_name_means_the_default_options(kind):
    assert sampler_for(kind.name, target(1)) == (kind(), {"method": kind.name})
    assert sampler_for(kind(), target(1)) == (kind(), {"method": kind.name})


def test_names_are_those_of_the_registry_and_options_are_frozen():
    assert set(MethodName.__args__) == {"auto", *SAMPLERS}
    with pytest.raises(dataclasses.FrozenInstanceError):
        Nuts().num_chains = 3


def test_a_sampler_is_refused_where_it_is_of_no_use():
    with pytest.raises(InputError, match=r"one or two hyper.*there are 3 here: use method='smc'"):
        sampler_for(Quadrature(), target(3))


@pytest.mark.slow
def test_a_run_records_its_chosen_sampler(tmp_path):
    run = fit(X, progress=False)
    save_run(run, tmp_path / "run.nc")
    for tree in (run, load_run(tmp_path / "run.nc")):
        assert tree.attrs["method"] == "quadrature"
        diagnosis = diagnose(tree)
        description = "quadrature, chosen automatically: 1 hyperparameter"
        assert diagnosis.summary()["chosen"] == description
        assert f"4000 draws of the posterior by {description}" in str(diagnosis)
    explicit = fit(X, method=Quadrature(num_samples=64), progress=False)
    assert explicit["posterior"]["lengthscale"].shape == (1, 64)
    assert explicit.attrs["num_samples"] == 64
    assert "chosen" not in explicit.attrs
    assert "64 draws of the posterior by quadrature\n" in str(diagnose(explicit))


@pytest.mark.parametrize("kind", [Quadrature, Smc])
@pytest.mark.slow
def test_a_new_sampler_is_described_by_its_run(kind, tmp_path):
    """A sampler that is not registered is described like a registered one."""

    class New(kind):
        name, words = "new", "draws of something new"

        def sample(self, task):
            chains, groups = super().sample(task)
            groups["at"] = groups.pop(kind.name)
            return chains, groups

    size = (64, 4) if kind is Smc else (1e-3, 64)
    known, new = (fit(X, method=sampler(*size), progress=False) for sampler in (kind, New))
    assert "at" in new.children
    assert new.attrs["independent"] == 1
    assert reweight(new) is new
    save_run(new, tmp_path / "run.nc")
    expected, other = (diagnose(tree) for tree in (known, load_run(tmp_path / "run.nc")))
    assert other.independent
    assert other.modes.modes[0].mass == expected.modes.modes[0].mass
    assert other.integral == expected.integral
    ours = f"draws of the posterior by {kind.name}\n", kind.words
    theirs = "draws of the posterior by new\n", New.words
    text = str(expected).replace(ours[0], theirs[0]).replace(ours[1], theirs[1])
    assert str(other) == text != str(expected)
    first, second = (posterior_summary(t, expected.modes)["overall"] for t in (known, new))
    assert first == second


def test_options_can_be_created_before_jax_is_imported():
    program = "import sys; from bke.inference import Nuts, Quadrature, Smc; Nuts(), Quadrature()"
    done = subprocess.run(
        [sys.executable, "-c", f"{program}; Smc(); print('jax' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "False"
