"""Modes are found once for all who ask, and anew where the numbers have changed."""

import itertools
from collections import Counter

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest
from bke.inference import (
    Nuts,
    diagnose,
    find_modes,
    fit,
    open_run,
    plot_profile,
    plot_rank,
    plot_trace,
    plot_witness,
    reweight,
    sample_witness,
)
from bke.inference.report.words import run_summary, witness_summary

#: Of data that no earlier test had, whose results would be known already.
SEEDS = itertools.count()
WORK = {
    "modes": "bke.inference.diagnostics.modes._modes_of_profile",
    "masses": "bke.inference.diagnostics.modes.mode_masses",
    "target": "bke.inference.sampling.open_run.target_of",
    "quadrature": "bke.inference.diagnostics.reweight.integral",
}


@pytest.fixture
def pair():
    rng = np.random.default_rng(next(SEEDS))
    return rng.normal(size=(12, 1)), rng.normal(1.0, 1.0, size=(12, 1))


@pytest.fixture
def run(pair):
    return fit(np.concatenate(pair), method=Nuts(2, 20, 10), progress=False)


@pytest.fixture
def work(run, monkeypatch):
    """How often each part of the work was done, from after the fit on."""
    done = Counter()

    def counted(name, function):
        def counting(*arguments):
            done[name] += 1
            return function(*arguments)

        return counting

    for name, path in WORK.items():
        module, function = path.rsplit(".", 1)
        whole = __import__(module, fromlist=[function])
        monkeypatch.setattr(path, counted(name, getattr(whole, function)))
    return done


def everything(run, pair):
    """What ``bke run`` does after the fit."""
    weighed = reweight(run, progress=False)
    diagnosis = diagnose(weighed)
    run_summary(weighed, diagnosis)
    witness = sample_witness(weighed, *pair, [0.0, 1.0], progress=False)
    witness_summary(witness, diagnosis.modes, 0.8)
    for plot in (plot_trace, plot_rank, plot_profile):
        plot(weighed)
    plot_witness(witness, run=weighed)
    return weighed


@pytest.mark.slow
def test_everything_is_computed_once(run, pair, work):
    everything(run, pair)
    assert work == {"modes": 1, "masses": 1, "target": 1, "quadrature": 1}
    everything(run, pair)
    sample_witness(run, *pair, [0.0, 1.0], progress=False)
    diagnose(open_run(run))
    # The run without masses asks for its own once, and finds none.
    assert work == {"modes": 1, "masses": 2, "target": 1, "quadrature": 1}


def test_a_copy_shares_and_a_changed_copy_does_not(run, work):
    modes = find_modes(run)
    copy = run.copy(deep=True)
    assert find_modes(copy).of_draws is modes.of_draws
    assert work["modes"] == 1
    z = copy["unconstrained_posterior"]["lengthscale"].values
    z[...] = z + 0.1
    find_modes(copy)
    assert work["modes"] == 2
    assert find_modes(copy).modes[0].location != modes.modes[0].location
    assert find_modes(run).modes[0].location == modes.modes[0].location
    assert work["modes"] == 2


def test_an_open_run_sees_what_is_written_into_its_tree(run, work):
    opened = open_run(run)
    assert find_modes(opened).crossings is not None
    run.attrs["independent"] = 1
    assert find_modes(opened).crossings is None
    assert work["modes"] == 2


def test_masses_are_found_anew_and_the_modes_of_draws_are_not(run, work):
    before = find_modes(run)
    after = find_modes(reweight(run, progress=False))
    assert before.modes[0].mass is None
    assert after.modes[0].mass is not None
    assert after.of_draws is before.of_draws
    assert work["modes"] == 1


def test_what_is_shared_cannot_be_written_into(run, work):
    with pytest.raises(ValueError, match="read-only"):
        find_modes(run).of_draws[0, 0] = 7
    first = reweight(run, progress=False)
    weight = first["quadrature"]["weight"].values.copy()
    first["quadrature"]["weight"].values[...] = 0.0
    second = reweight(run, progress=False)
    np.testing.assert_array_equal(second["quadrature"]["weight"], weight)
    assert work["quadrature"] == 1
    reweight(run, tolerance=1e-2, progress=False)
    assert work["quadrature"] == 2
