"""Pictures of likelihood-free inference show what is in the run."""

from __future__ import annotations

import numpy as np
import numpyro.distributions as dist
import pytest
from bke.inference import (
    InputError,
    Summaries,
    abc,
    plot_abc,
    plot_ess,
    plot_stages,
    sequential_abc,
    synthetic_likelihood,
    vectorize,
)
from matplotlib import pyplot as plt

Y = np.random.default_rng(0).normal(1.0, 1.0, size=20)
PRIOR = {"b": dist.Normal(0.0, 1.0).expand([3]), "a": dist.Uniform(0.0, 1.0)}


@vectorize
def simulate(rng, theta):
    return (theta["a"] + theta["b"].sum(axis=1))[:, None] + rng.normal(size=(len(theta["a"]), 20))


DISTANCE = Summaries(Y, np.mean)


@pytest.fixture(scope="module")
def weighted():
    return abc(
        Y,
        simulate,
        PRIOR,
        distance=DISTANCE,
        epsilon=[1.0, 0.1],
        num_simulations=800,
        progress=False,
    )


@pytest.fixture(scope="module")
def stages():
    return sequential_abc(
        Y, simulate, PRIOR, distance=DISTANCE, epsilon=0.3, num_particles=100, progress=False
    )


def test_marginals(weighted):
    figure = plot_abc(weighted, truth={"a": 0.5})
    visible = [ax for ax in figure.axes if ax.get_visible()]
    assert [ax.get_xlabel() for ax in visible] == ["a", "b[0]", "b[1]", "b[2]"]
    prior, wide, narrow = visible[0].patches
    assert [patch.get_label() for patch in (prior, wide, narrow)] == [
        "prior",
        "epsilon 1",
        "epsilon 0.1",
    ]
    values, edges, _ = narrow.get_data()
    a, weight = weighted["posterior"]["a"].values[0], weighted["sample_stats"]["weight"][0, :, 1]
    inside = (a >= edges[3]) & (a < edges[4])
    assert values[3] * (edges[4] - edges[3]) == pytest.approx(float(weight.values[inside].sum()))
    assert len(visible[0].lines) == 1  # the truth
    assert len(visible[1].lines) == 0


def test_a_single_parameter_on_axes_of_the_user(weighted):
    _, ax = plt.subplots()
    assert plot_abc(weighted, "b[1]", axes=ax) is ax.figure
    assert ax.get_xlabel() == "b[1]"
    plt.close("all")
    with pytest.raises(InputError, match="parameter must be one of"):
        plot_abc(weighted, "c")


def test_effective_sample_sizes(weighted):
    line, dots = plot_ess(weighted).axes[0].lines
    np.testing.assert_allclose(dots.get_ydata(), weighted["sample_stats"]["ess"])
    at = np.interp(np.log(1.0), np.log(line.get_xdata()), line.get_ydata())
    assert at == pytest.approx(weighted["sample_stats"]["ess"].values[0], rel=0.01)


def test_stages(stages):
    top, bottom = plot_stages(stages).axes
    np.testing.assert_allclose(top.lines[0].get_ydata(), stages["stages"]["epsilon"])
    np.testing.assert_allclose(bottom.lines[0].get_ydata(), stages["stages"]["acceptance_rate"])
    prior = plot_abc(stages, "a").axes[0].patches[0].get_data()
    assert np.sum(prior.values * np.diff(prior.edges)) == pytest.approx(1.0, abs=0.05)


@pytest.mark.filterwarnings("ignore:The chains have NOT mixed")
def test_chains():
    run = synthetic_likelihood(
        Y, simulate, PRIOR, summaries=np.mean, num_warmup=50, num_samples=20, progress=False
    )
    labels = [patch.get_label() for patch in plot_abc(run, "a").axes[0].patches]
    assert labels == ["prior", "synthetic likelihood"]


def test_other_runs_are_refused(weighted, stages):
    for draw, run, message in (
        (plot_ess, stages, "plot_stages is for sequential runs"),
        (plot_stages, weighted, "plot_ess is for weighted simulations"),
        (plot_ess, weighted["posterior"], "this is not a run"),
        (plot_abc, weighted["posterior"], "this is not a run"),
    ):
        with pytest.raises(InputError, match=message):
            draw(run)
