"""Synthetic likelihood: one point against SciPy, of a normal mean the exact posterior."""

from __future__ import annotations

import json

import numpy as np
import numpyro.distributions as dist
import pytest
from bke.inference import (
    InputError,
    Summaries,
    posterior_table,
    resample,
    synthetic_likelihood,
    vectorised,
)
from bke.inference.likelihood_free.synthetic_likelihood import log_synthetic_likelihood
from scipy.stats import multivariate_normal

Y = np.random.default_rng(0).normal(1.0, 1.0, size=20)
PRIOR = {"mu": dist.Normal(0.0, 2.0)}
QUICK = {"warmup": 50, "draws": 20, "simulations_per_point": 10, "progress": False}


@vectorised
def normal(rng, theta):
    return theta["mu"][:, None] + rng.normal(size=(len(theta["mu"]), 20))


def test_one_point_is_a_gaussian_density():
    summaries = Summaries(Y, lambda x: [x.mean(), 1e3 * x.std(), x.max()])
    values = np.random.default_rng(1).normal(0.5, 1.0, size=(40, 20, 1))
    good = np.arange(40) % 4 != 0
    s = summaries.of(values[good])
    expected = multivariate_normal(s.mean(axis=0), np.cov(s.T)).logpdf(summaries.statistics)
    found, why = log_synthetic_likelihood(summaries, values, good)
    assert found == pytest.approx(expected + np.log(30 / 40))
    assert why == ""


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda x: [x.mean(), 1.0], "singular"),
        (lambda x: [x.mean(), 2.0 * x.mean()], "singular"),
        (lambda x: [x.mean(), 3.0 if x[0] == Y[0] else np.inf], "not finite"),
    ],
)
def test_points_without_a_likelihood(function, why):
    values = np.random.default_rng(1).normal(size=(40, 20, 1))
    found, cause = log_synthetic_likelihood(Summaries(Y, function), values, np.full(40, True))
    assert found == -np.inf
    assert why in cause
    with pytest.raises(InputError, match=f"known at none of 40 draws of the prior, .*{why}"):
        synthetic_likelihood(Y, normal, PRIOR, summaries=function, **QUICK)


@pytest.mark.filterwarnings("ignore:The chains have NOT mixed")
def test_posterior_in_closed_form():
    """Mean of 20 normal numbers: sufficient, and Gaussian.

    Errors of 4.5 standard errors (ArviZ's effective sample size, 1 seed in 70 000 for both) and, as
    the variance is estimated from 50 simulations, 2 % of the standard deviation.
    """
    run = synthetic_likelihood(
        Y, normal, PRIOR, summaries=np.mean, warmup=200, draws=500, progress=False
    )
    precision = 1.0 / 4.0 + 20.0
    mean, sd = 20.0 * Y.mean() / precision, precision**-0.5
    line = posterior_table(run).iloc[0]
    assert run["posterior"]["mu"].shape == (4, 500)
    assert line["mean"] == pytest.approx(mean, abs=4.5 * sd / line["ess"] ** 0.5)
    assert line["sd"] == pytest.approx(sd, abs=4.5 * sd / (2 * line["ess"]) ** 0.5 + 0.02 * sd)
    assert 0.1 < run.attrs["acceptance_rate"] < 0.35
    assert run.attrs["rhat"] < 1.05


def test_chains_that_have_not_mixed_say_so():
    with pytest.warns(UserWarning, match="have NOT mixed: R-hat"):
        run = synthetic_likelihood(Y, normal, PRIOR, summaries=np.mean, **QUICK)
    assert not run.attrs["mixed"]
    with pytest.raises(InputError, match="not a run of k2_abc"):
        resample(run)


@pytest.mark.filterwarnings("ignore:The chains have NOT mixed")
def test_failures_lower_the_likelihood_and_the_same_seed_repeats():
    """Above mu = 1 no simulation succeeds, below 0.9 all do: no draw is above."""

    def simulate(rng, theta):
        if theta["mu"] > 1.0 or (theta["mu"] > 0.9 and rng.random() < 0.5):
            raise FloatingPointError("no")
        return theta["mu"] + rng.normal(size=20)

    first, second = (
        synthetic_likelihood(Y, simulate, PRIOR, summaries=np.mean, **QUICK) for _ in range(2)
    )
    mu = first["posterior"]["mu"].values
    np.testing.assert_array_equal(mu, second["posterior"]["mu"])
    assert mu.max() <= 1.0
    assert json.loads(first.attrs["points_without_likelihood"])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"simulations_per_point": 3}, "simulations_per_point must be at least 4"),
        ({"warmup": 10}, "warmup must be"),
        ({"draws": 1}, "draws must be"),
        ({"chains": 0}, "chains must be"),
        ({"prior": {"k": dist.Poisson(2.0)}}, "the prior of k is discrete"),
        ({"summaries": "mean"}, "summaries must be a function"),
        ({"summaries": Summaries(Y + 1.0, np.mean)}, "other observed data"),
    ],
)
def test_bad_input(changed, message):
    options = {"prior": PRIOR, "simulate": normal, "summaries": np.mean, **QUICK}
    with pytest.raises(InputError, match=message):
        synthetic_likelihood(Y, **{**options, **changed})
