"""Weighted simulations against a loop and a closed form; checkpoints; invalid input."""

from __future__ import annotations

from functools import partial

import numpy as np
import numpyro.distributions as dist
import pytest
from bke.inference import (
    MMD,
    InputError,
    Summaries,
    abc,
    k2_abc,
    load_run,
    posterior_table,
    resample,
    save_run,
    vectorize,
    with_epsilon,
)
from bke.inference.likelihood_free import abc as importance_sampling
from bke.inference.likelihood_free.problem import Prior
from bke.inference.likelihood_free.results import (
    default_epsilon,
    default_ess_fractions,
    effective_sample_size,
)
from bke.inference.likelihood_free.simulators import Stream, fingerprint
from bke.inference.sampling.run import target_of
from bke.models import Polynomial, SquaredExponential, squared_mmd

Y = np.random.default_rng(0).normal(1.0, 1.0, size=20)
PRIOR = {"mu": dist.Normal(0.0, 2.0)}
KERNEL = SquaredExponential(1.0)
QUICK = {"num_simulations": 50, "batch_size": 20, "progress": False}
pytestmark = pytest.mark.filterwarnings("ignore:The effective sample size")


@vectorize
def normal(rng, theta):
    return theta["mu"][:, None] + rng.normal(size=(len(theta["mu"]), 20))


@vectorize
def shifted(rng, theta):
    return theta["mu"][:, None] + np.linspace(-1.0, 1.0, 20)


def by_kernel(**options):
    """A run of K2-ABC with few simulations."""
    arguments = {"observed": Y, "simulate": normal, "prior": PRIOR, "kernel": KERNEL}
    return k2_abc(**arguments | QUICK | options)


def by_mean(function=np.mean, **options):
    """A run that compares a summary."""
    return abc(Y, normal, PRIOR, distance=Summaries(Y, function), **QUICK | options)


@pytest.fixture(scope="module")
def run():
    return by_kernel(epsilon=[0.5, 0.1])


def exact(epsilon):
    """Mean and sd of the posterior with weights exp(-(mean X - mean Y)^2 / epsilon)."""
    variance = 1.0 / 20.0 + epsilon / 2.0
    precision = 1.0 / 4.0 + 1.0 / variance
    return Y.mean() / variance / precision, precision**-0.5


def test_weights_equal_a_loop():
    run = by_kernel(simulate=shifted, epsilon=[0.02, 0.5])
    base = np.linspace(-1.0, 1.0, 20)
    weights = []
    for mu in run["posterior"]["mu"].values[0]:
        squared = float(squared_mmd(mu + base, Y, KERNEL, estimator="biased"))
        weights.append([np.exp(-squared / 0.5), np.exp(-squared / 0.02)])
    weights = np.array(weights) / np.sum(weights, axis=0)
    stats = run["sample_stats"]
    np.testing.assert_array_equal(stats["epsilon"], [0.5, 0.02])
    np.testing.assert_allclose(stats["weight"][0], weights, rtol=1e-8)
    np.testing.assert_allclose(stats["ess"], 1.0 / np.sum(weights**2, axis=0), rtol=1e-8)


def test_rejection_weights():
    run = by_mean(acceptance="indicator", epsilon=[1.0, 0.3])
    stats = run["sample_stats"]
    near = np.sqrt(stats["squared_distance"].values[0]) <= 0.3
    np.testing.assert_allclose(stats["weight"][0, :, 1], near / near.sum())
    assert stats["ess"][1] == pytest.approx(near.sum())


def test_posterior_in_closed_form():
    """The linear kernel's MMD is the difference of the means; 20 000 simulations.

    Within 4.5 standard errors of either moment: false failures in 1 of 30 000 seeds.
    """
    run = by_kernel(kernel=Polynomial(1, 0.0), epsilon=[1.0, 0.1], num_simulations=20_000)
    for line in posterior_table(run).itertuples():
        mean, sd = exact(line.epsilon)
        assert line.mean == pytest.approx(mean, abs=4.5 * sd / line.ess**0.5)
        assert line.sd == pytest.approx(sd, abs=4.5 * sd / (2.0 * line.ess) ** 0.5)
        low, high = mean - 1.645 * sd, mean + 1.645 * sd  # errors 2.1 sd / sqrt(ess)
        assert line.q05 == pytest.approx(low, abs=4.5 * 2.1 * sd / line.ess**0.5)
        assert line.q95 == pytest.approx(high, abs=4.5 * 2.1 * sd / line.ess**0.5)


def test_random_numbers_are_used_once(monkeypatch):
    """Batches, parameters and data have different streams of random numbers."""
    seeds, noise = [], []
    draw, run_simulations = Prior.draw, importance_sampling.run_simulations

    def recording_draw(self, seed, count):
        seeds.append(seed)
        return draw(self, seed, count)

    def recording_run_simulations(theta, run, distance, seed):
        seeds.append(seed)
        return run_simulations(theta, run, distance, seed)

    @vectorize
    def simulate(rng, theta):
        noise.append(rng.normal(size=(len(theta["mu"]), 20)))
        return theta["mu"][:, None] + noise[-1]

    monkeypatch.setattr(Prior, "draw", recording_draw)
    monkeypatch.setattr(importance_sampling, "run_simulations", recording_run_simulations)
    run = by_kernel(simulate=simulate, epsilon=0.5)
    assert Stream.PRIOR != Stream.DATA
    assert len(seeds) == 2 * 3
    # The first word is JAX's key.
    assert len({int(seed.generate_state(1)[0]) for seed in seeds}) == len(seeds)
    together = np.concatenate(noise)
    assert together.shape == (50, 20)
    assert np.unique(together).size == together.size
    assert np.unique(run["posterior"]["mu"]).size == 50


def test_weights_do_not_underflow():
    with pytest.warns(UserWarning, match=r"only 1\.0 at epsilon = 1e-09, .* use a larger"):
        run = by_kernel(epsilon=1e-9)
    weight = run["sample_stats"]["weight"].values[0, :, 0]
    assert weight.sum() == pytest.approx(1.0)
    assert weight.argmax() == run["sample_stats"]["squared_distance"].values[0].argmin()


def test_default_bandwidths():
    options = {"num_simulations": 1000, "batch_size": 1000}
    run = by_kernel(estimator="unbiased", **options)
    squared = run["sample_stats"]["squared_distance"].values[0]
    np.testing.assert_allclose(run["sample_stats"]["ess"], [200, 50, 10], rtol=1e-6)
    assert run.attrs["epsilon_choice"] == "effective sample sizes"
    # A constant added to all distances, and one much smaller distance, change little.
    np.testing.assert_allclose(
        default_epsilon(squared + 7.0, "exponential", 1), run["sample_stats"]["epsilon"], rtol=1e-6
    )
    outlier = np.append(squared, squared.min() - 0.01 * np.ptp(squared))
    assert default_epsilon(outlier, "exponential", 1)[0] == pytest.approx(
        run["sample_stats"]["epsilon"].values[0], rel=0.2
    )
    distance = MMD(Y, KERNEL, "unbiased")
    again = abc(Y, normal, PRIOR, distance=distance, acceptance="indicator", **QUICK | options)
    # The quantile of an unbiased estimate may be negative, and then stands for none.
    assert again["sample_stats"]["ess"].values[0] == pytest.approx(200)
    squared = np.concatenate([np.random.default_rng(0).exponential(size=990), np.full(10, 1e14)])
    sizes = [
        effective_sample_size(-squared / epsilon)
        for epsilon in default_epsilon(squared, "exponential", 1)
    ]
    np.testing.assert_allclose(sizes, [200, 50, 10], rtol=1e-6)  # with huge distances


def test_other_epsilons_from_the_same_simulations(run):
    first, second = (tree["sample_stats"]["weight"] for tree in (run, with_epsilon(run, 0.1)))
    np.testing.assert_array_equal(second[:, :, 0], first[:, :, 1])
    assert run["sample_stats"].sizes["epsilon"] == 2


def test_draws_of_equal_weight(run):
    drawn = resample(run, 0.5, num_samples=10_000)
    mu, weight = run["posterior"]["mu"].values[0], run["sample_stats"]["weight"].values[0, :, 0]
    counts = np.array([np.sum(drawn["posterior"]["mu"].values == value) for value in mu])
    assert np.all(np.abs(counts - 10_000 * weight) < 1.0)  # systematic: rounded up or down
    assert drawn.attrs["epsilon"] == 0.5
    with pytest.raises(InputError, match=r"has no epsilon 0\.2, but 0\.5, 0\.1"):
        resample(run, 0.2)
    with pytest.warns(UserWarning, match="only 0.0"):
        none = by_mean(acceptance="indicator", epsilon=1e-12)
    with pytest.raises(InputError, match="no simulation is accepted"):
        resample(none)
    assert np.isnan(posterior_table(none)["mean"][0])


def same(first, second):
    for group in ("posterior", "sample_stats"):
        for name, values in first[group].data_vars.items():
            np.testing.assert_array_equal(second[group][name], values)
    assert first.attrs == second.attrs


def test_interrupted_run_resumes(tmp_path):
    calls = []

    def interrupted(rng, theta):
        calls.append(theta)
        if len(calls) == 45:
            raise KeyboardInterrupt
        return theta["mu"] + rng.normal(size=20)

    options = {"simulate": interrupted, "epsilon": 0.3}
    folder = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        by_kernel(folder=folder, **options)
    names = sorted(path.name for path in folder.iterdir())
    assert names == [".lock", "batch-00000.npz", "batch-00001.npz", "settings.json"]
    calls.append(None)  # no more interruptions
    resumed = by_kernel(folder=folder, **options)
    assert len(calls) == 46 + 10  # the last batch only
    calls.extend([None] * 45)
    uninterrupted = by_kernel(**options)
    same(uninterrupted, resumed)
    # The number of simulations may be increased; the short last batch is simulated again.
    longer = by_kernel(folder=folder, num_simulations=70, **options)
    same(longer, by_kernel(num_simulations=70, **options))


@pytest.mark.parametrize(
    ("changed", "setting"),
    [
        ({"seed": 1}, "seed"),
        ({"batch_size": 10}, "batch_size"),
        ({"kernel": SquaredExponential(2.0)}, "distance"),
        ({"estimator": "unbiased"}, "distance"),
        ({"prior": {"mu": dist.Normal(0.0, 1.0)}}, "prior"),
        ({"observed": Y + 1.0}, "observed data"),
        ({"simulate": shifted}, "simulator"),
    ],
)
def test_the_folder_of_another_run_is_refused(tmp_path, changed, setting):
    by_kernel(epsilon=0.5, folder=tmp_path)
    with pytest.raises(InputError, match=f"another run, with a different .*{setting}"):
        by_kernel(**changed, epsilon=0.5, folder=tmp_path)


def test_damaged_batch_is_refused(tmp_path):
    by_kernel(epsilon=0.5, folder=tmp_path)
    (tmp_path / "batch-00001.npz").write_bytes(b"PK\x03\x04")
    with pytest.raises(InputError, match=r"batch-00001\.npz is not a part of a run"):
        by_kernel(epsilon=0.5, folder=tmp_path)


def test_saved_and_loaded(run, tmp_path):
    save_run(run, tmp_path / "run.nc")
    loaded = load_run(tmp_path / "run.nc")
    np.testing.assert_array_equal(loaded["sample_stats"]["weight"], run["sample_stats"]["weight"])
    np.testing.assert_array_equal(loaded["observed_data"]["X"][:, 0], Y)
    same(with_epsilon(run, 0.1), with_epsilon(loaded, 0.1))
    with pytest.raises(InputError, match="this is a run of k2_abc"):
        target_of(loaded)


def test_discrete_parameters_are_weighted_and_batches_are_vectors():
    @vectorize
    def counts(rng, theta):
        rate = theta["k"] + 0.0 * theta["b"].sum(axis=1)
        return rate[:, None] + np.linspace(-1.0, 1.0, 20)

    prior = {"k": dist.Poisson(2.0), "b": dist.Uniform(np.zeros(3), np.ones(3))}
    table = posterior_table(by_kernel(simulate=counts, prior=prior, epsilon=0.01))
    assert list(table["parameter"]) == ["b[0]", "b[1]", "b[2]", "k"]
    assert table["q50"][3] == 1.0


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"epsilon": 0.0}, "epsilon must be positive and finite"),
        ({"epsilon": [0.1, -1.0]}, "epsilon must be positive and finite"),
        ({"epsilon": np.inf}, "epsilon must be positive and finite"),
        ({"epsilon": []}, "epsilon must be a number or several"),
        ({"epsilon": "small"}, "epsilon must be positive and finite"),
        ({"epsilon": [0.1, 0.2, 0.1]}, "epsilon has a number twice"),
        ({"prior": dist.Normal()}, "prior must be a dict of distributions"),
        ({"prior": {}}, "prior must be a dict of distributions"),
        ({"prior": {"mu": 1.0}}, "the prior of mu must be a distribution"),
        ({"prior": {1: dist.Normal()}}, "names of parameters must be texts"),
        ({"prior": {"mu": dist.Normal(0.0, np.inf)}}, "the prior of mu: scale must be finite"),
        ({"prior": {"mu": dist.LKJ(3)}}, "a number or a vector"),
        ({"prior": {"mu": dist.ImproperUniform(dist.constraints.real, (), ())}}, "drawn from"),
        ({"observed": np.where(Y > 1.5, np.nan, Y)}, "observed has a missing value"),
        ({"observed": Y[:1]}, "at least two rows"),
        ({"num_simulations": 0}, "num_simulations must be"),
        ({"batch_size": 0}, "batch_size must be"),
        ({"rows": 0}, "rows must be"),
        ({"rows": 1, "estimator": "unbiased"}, "at least 2 rows"),
        ({"rows": 7, "estimator": "linear"}, "as many rows"),
        ({"seed": -1}, "seed must be"),
        ({"estimator": "best"}, "estimator must be"),
    ],
)
def test_bad_input(changed, message):
    with pytest.raises(InputError, match=message):
        by_kernel(**changed)


@pytest.mark.parametrize(
    ("distance", "options", "message"),
    [
        (MMD(Y + 1.0, KERNEL), {}, "other observed data"),
        (np.mean, {}, "distance must be"),
        (MMD(Y, KERNEL), {"acceptance": "hard"}, "acceptance must be"),
        (Summaries(Y, lambda x: 1.0), {}, "nearly all simulations are equal"),
    ],
)
def test_bad_distances(distance, options, message):
    with pytest.raises(InputError, match=message):
        abc(Y, normal, PRIOR, distance=distance, **QUICK, **options)


def test_a_distance_that_is_not_finite_is_a_failure():
    with pytest.warns(UserWarning, match="a distance that is not finite"):
        run = by_mean(lambda x: np.nan if x[0] > 3.0 else x.mean(), epsilon=0.5)
    assert 0 < run.attrs["failed"] < 50
    assert np.all(np.isfinite(run["sample_stats"]["squared_distance"]))


def test_fingerprints_of_simulators_and_priors_differ():
    def scaled(rng, theta, scale=1.0):
        return theta["a"] + scale * rng.normal(size=20)

    def wider(rng, theta, scale=2.0):
        return theta["a"] + scale * rng.normal(size=20)

    class Scaled:
        def __init__(self, scale):
            self.scale = scale

        def __call__(self, rng, theta):
            return theta["a"] + self.scale * rng.normal(size=20)

    def enclosed(scale):
        return lambda rng, theta: theta["a"] + scale * rng.normal(size=20)

    for first, same, different in (
        (partial(scaled, scale=1.0), partial(scaled, scale=1.0), partial(scaled, scale=5.0)),
        (Scaled(1.0), Scaled(1.0), Scaled(5.0)),
        (enclosed(np.ones(2)), enclosed(np.ones(2)), enclosed(np.zeros(2))),
    ):
        assert fingerprint(first) == fingerprint(same)
        assert fingerprint(first) != fingerprint(different)
    assert fingerprint(scaled).split()[-1] != fingerprint(wider).split()[-1]
    laws = [Prior({"k": dist.Poisson(rate)}).describe() for rate in (2.0, 2.0, 3.0)]
    assert laws[0] == laws[1] != laws[2]
    assert " at 0x" not in str(laws)


def test_bandwidths_decrease_with_the_number_of_simulations():
    """For q parameters the bandwidth is M^(-1 / (q + 4)), the ESS fraction that to the power q."""
    rng = np.random.default_rng(8)
    squared = rng.chisquare(2, size=80_000)  # for two parameters P(d < delta) is about delta^2 / 2
    small, large = (default_epsilon(part, "exponential", 2) for part in (squared[:10_000], squared))
    np.testing.assert_allclose(default_ess_fractions(10_000, 2), [0.2, 0.05, 0.01])
    np.testing.assert_allclose(default_ess_fractions(80_000, 2), [0.1, 0.025, 0.005])
    weights = -squared / large[-1]
    assert effective_sample_size(weights) == pytest.approx(400.0, rel=1e-3)
    assert large[-1] / small[-1] == pytest.approx(0.5, rel=0.1)  # delta^2
