"""Synthetic likelihood: one point against SciPy, the posterior of a normal mean exactly."""

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
    vectorize,
)
from bke.inference.likelihood_free.pseudo_marginal import (
    MetropolisSampler,
    log_synthetic_likelihood,
)
from bke.inference.likelihood_free.simulators import Stream, seed_sequence
from scipy.stats import chi2, multivariate_normal, norm

Y = np.random.default_rng(0).normal(1.0, 1.0, size=20)
PRIOR = {"mu": dist.Normal(0.0, 2.0)}
pytestmark = pytest.mark.filterwarnings("ignore:The chains have NOT mixed")
QUICK = {"num_warmup": 50, "num_samples": 20, "simulations_per_point": 10, "progress": False}


@vectorize
def normal(rng, theta):
    return theta["mu"][:, None] + rng.normal(size=(len(theta["mu"]), 20))


def test_a_single_point_is_a_gaussian_density():
    summaries = Summaries(Y, lambda x: [x.mean(), 1e3 * x.std(), x.max()])
    values = np.random.default_rng(1).normal(0.5, 1.0, size=(40, 20, 1))
    good = np.arange(40) % 4 != 0
    s = summaries.compute(values[good])
    expected = multivariate_normal(s.mean(axis=0), np.cov(s.T)).logpdf(summaries.statistics)
    result, cause = log_synthetic_likelihood(summaries, values, good)
    assert result == pytest.approx(expected + np.log(30 / 40))
    assert cause == ""


@pytest.mark.parametrize(
    ("function", "cause"),
    [
        (lambda x: [x.mean(), 1.0], "singular"),
        (lambda x: [x.mean(), 2.0 * x.mean()], "singular"),
        (lambda x: [x.mean(), 3.0 if x[0] == Y[0] else np.inf], "not finite"),
    ],
)
def test_points_without_a_likelihood(function, cause):
    values = np.random.default_rng(1).normal(size=(40, 20, 1))
    result, reported = log_synthetic_likelihood(Summaries(Y, function), values, np.full(40, True))
    assert result == -np.inf
    assert cause in reported
    with pytest.raises(InputError, match=f"known at none of 40 draws of the prior, .*{cause}"):
        synthetic_likelihood(Y, normal, PRIOR, summaries=function, **QUICK)


@pytest.mark.slow
def test_an_informative_prior_by_quadrature():
    """A log-normal prior and the expectation of the estimates, both in closed form, on a grid.

    Mean m and variance v of N simulated means are N(theta, sigma^2 / N) and sigma^2 / (N - 1) of a
    chi-squared number: the expected N(s; m, v) is that of N(s; theta, v + sigma^2 / N) over v. Seed
    0, 4 chains of 1000 draws: 4.5 standard errors of the mean and the standard deviation of log
    theta (ArviZ's effective sample size), false failures in 1 of 70 000 seeds.
    """

    @vectorize
    def simulate(rng, theta):
        return theta["theta"][:, None] + 3.0 * rng.normal(size=(len(theta["theta"]), 20))

    options = {"num_warmup": 200, "num_samples": 1000, "simulations_per_point": 10}
    prior = {"theta": dist.LogNormal(0.0, 0.5)}
    run = synthetic_likelihood(Y + 1.0, simulate, prior, summaries=np.mean, **QUICK | options)
    assert run["posterior"]["theta"].shape == (4, 1000)
    assert 0.1 < run.attrs["acceptance_rate"] < 0.35
    assert run.attrs["rhat"] < 1.05
    z = np.linspace(-3.0, 3.0, 2001)
    variance = 9.0 / 20.0
    v = variance * chi2(9).ppf((np.arange(500) + 0.5) / 500) / 9.0
    spread = np.sqrt(v + variance / 10.0)[:, None]
    likelihood = norm.pdf(Y.mean() + 1.0, np.exp(z), spread).mean(axis=0)
    weight = likelihood * norm.pdf(z, 0.0, 0.5)
    weight /= weight.sum()
    mean = weight @ z
    sd = np.sqrt(weight @ (z - mean) ** 2)
    result = np.log(run["posterior"]["theta"].values)
    ess = posterior_table(run).iloc[0]["ess"]
    assert ess > 200
    assert result.mean() == pytest.approx(mean, abs=4.5 * sd / ess**0.5)
    assert result.std() == pytest.approx(sd, abs=4.5 * sd / (2.0 * ess) ** 0.5)


def test_estimates_are_stored_until_a_move():
    """The chain is pseudo-marginal only where the estimate of the current point is not renewed."""
    run = synthetic_likelihood(Y, normal, PRIOR, summaries=np.mean, **{**QUICK, "num_samples": 60})
    stats = run["sample_stats"]
    moved = stats["accepted"].values[:, 1:]
    assert 0 < moved.sum() < moved.size
    for values in (stats["log_likelihood"].values, run["posterior"]["mu"].values):
        np.testing.assert_array_equal(np.diff(values, axis=1) != 0.0, moved)


def test_proposals_are_adapted_during_warmup():
    """Steps over their normal deviates are constant after warmup; random numbers are used once."""
    proposed, noise = [], []

    @vectorize
    def simulate(rng, theta):
        proposed.append(theta["mu"][:: QUICK["simulations_per_point"]])
        noise.append(rng.normal(size=(len(theta["mu"]), 20)))
        return theta["mu"][:, None] + noise[-1]

    interval = MetropolisSampler.adaptation_interval
    draws = 2 * interval + 10
    options = {**QUICK, "num_warmup": 2 * interval, "num_samples": draws}
    run = synthetic_likelihood(Y, simulate, PRIOR, summaries=np.mean, **options)
    rng = np.random.default_rng(seed_sequence(0, Stream.MOVES))
    deviates = []
    for _ in range(options["num_warmup"] + draws):
        deviates.append(rng.standard_normal((4, 1))[:, 0])
        rng.random(4)
    assert len(proposed) == MetropolisSampler.starts_per_chain + options["num_warmup"] + draws
    steps = np.array(proposed[1 - draws :]) - run["posterior"]["mu"].values.T[:-1]
    factors = steps / np.array(deviates[1 - draws :])
    np.testing.assert_allclose(factors, factors[0, 0], rtol=1e-6)
    assert np.unique(noise).size == np.size(noise)


def test_chains_that_have_not_mixed_warn():
    with pytest.warns(UserWarning, match="have NOT mixed: R-hat"):
        run = synthetic_likelihood(Y, normal, PRIOR, summaries=np.mean, **QUICK)
    assert not run.attrs["mixed"]
    with pytest.raises(InputError, match="not a run of k2_abc"):
        resample(run)


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
        ({"num_warmup": 10}, "num_warmup must be"),
        ({"num_samples": 1}, "num_samples must be"),
        ({"num_chains": 0}, "num_chains must be"),
        ({"prior": {"k": dist.Poisson(2.0)}}, "the prior of k is discrete"),
        ({"summaries": "mean"}, "summaries must be a function"),
        ({"summaries": Summaries(Y + 1.0, np.mean)}, "other observed data"),
    ],
)
def test_bad_input(changed, message):
    options = {"prior": PRIOR, "simulate": normal, "summaries": np.mean, **QUICK}
    with pytest.raises(InputError, match=message):
        synthetic_likelihood(Y, **{**options, **changed})
