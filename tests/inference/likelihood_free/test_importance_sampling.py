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


@vectorize
def normal(rng, theta):
    return theta["mu"][:, None] + rng.normal(size=(len(theta["mu"]), 20))


@vectorize
def shifted(rng, theta):
    return theta["mu"][:, None] + np.linspace(-1.0, 1.0, 20)


def exact(epsilon):
    """Mean and sd of the posterior with weights exp(-(mean X - mean Y)^2 / epsilon)."""
    variance = 1.0 / 20.0 + epsilon / 2.0
    precision = 1.0 / 4.0 + 1.0 / variance
    return Y.mean() / variance / precision, precision**-0.5


@pytest.mark.filterwarnings("ignore:The effective sample size")
def test_weights_equal_a_loop():
    run = k2_abc(Y, shifted, PRIOR, kernel=KERNEL, epsilon=[0.02, 0.5], **QUICK)
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


@pytest.mark.filterwarnings("ignore:The effective sample size")
def test_rejection_weights():
    distance = Summaries(Y, np.mean)
    run = abc(
        Y, normal, PRIOR, distance=distance, acceptance="indicator", epsilon=[1.0, 0.3], **QUICK
    )
    stats = run["sample_stats"]
    near = np.sqrt(stats["squared_distance"].values[0]) <= 0.3
    np.testing.assert_allclose(stats["weight"][0, :, 1], near / near.sum())
    assert stats["ess"][1] == pytest.approx(near.sum())


def test_posterior_in_closed_form():
    """The linear kernel's MMD is the difference of the means; 20 000 simulations.

    Within 4.5 standard errors of either moment: false failures in 1 of 30 000 seeds.
    """
    run = k2_abc(
        Y,
        normal,
        PRIOR,
        kernel=Polynomial(1, 0.0),
        epsilon=[1.0, 0.1],
        num_simulations=20_000,
        progress=False,
    )
    for line in posterior_table(run).itertuples():
        mean, sd = exact(line.epsilon)
        assert line.mean == pytest.approx(mean, abs=4.5 * sd / line.ess**0.5)
        assert line.sd == pytest.approx(sd, abs=4.5 * sd / (2.0 * line.ess) ** 0.5)
        low, high = mean - 1.645 * sd, mean + 1.645 * sd  # errors 2.1 sd / sqrt(ess)
        assert line.q05 == pytest.approx(low, abs=4.5 * 2.1 * sd / line.ess**0.5)
        assert line.q95 == pytest.approx(high, abs=4.5 * 2.1 * sd / line.ess**0.5)


@pytest.mark.filterwarnings("ignore:The effective sample size")
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
    run = k2_abc(Y, simulate, PRIOR, kernel=KERNEL, epsilon=0.5, **QUICK)
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
        run = k2_abc(Y, normal, PRIOR, kernel=KERNEL, epsilon=1e-9, **QUICK)
    weight = run["sample_stats"]["weight"].values[0, :, 0]
    assert weight.sum() == pytest.approx(1.0)
    assert weight.argmax() == run["sample_stats"]["squared_distance"].values[0].argmin()


def test_default_bandwidths():
    run = k2_abc(
        Y, normal, PRIOR, kernel=KERNEL, estimator="unbiased", num_simulations=1000, progress=False
    )
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
    again = abc(
        Y,
        normal,
        PRIOR,
        distance=MMD(Y, KERNEL, "unbiased"),
        acceptance="indicator",
        num_simulations=1000,
        progress=False,
    )
    # The quantile of an unbiased estimate may be negative, and then stands for none.
    assert again["sample_stats"]["ess"].values[0] == pytest.approx(200)


def test_default_bandwidths_with_huge_distances():
    squared = np.concatenate([np.random.default_rng(0).exponential(size=990), np.full(10, 1e14)])
    for epsilon, size in zip(
        default_epsilon(squared, "exponential", 1), [200, 50, 10], strict=True
    ):
        result = effective_sample_size(-squared / epsilon)
        assert result == pytest.approx(size, rel=1e-6)


def test_other_epsilons_from_the_same_simulations():
    first = k2_abc(Y, normal, PRIOR, kernel=KERNEL, epsilon=[0.5, 0.1], **QUICK)
    second = with_epsilon(first, 0.1)
    np.testing.assert_array_equal(
        second["sample_stats"]["weight"][:, :, 0], first["sample_stats"]["weight"][:, :, 1]
    )
    assert first["sample_stats"].sizes["epsilon"] == 2


def test_draws_of_equal_weight():
    run = k2_abc(Y, normal, PRIOR, kernel=KERNEL, epsilon=[0.5, 0.1], **QUICK)
    drawn = resample(run, 0.5, num_samples=10_000)
    mu, weight = run["posterior"]["mu"].values[0], run["sample_stats"]["weight"].values[0, :, 0]
    counts = np.array([np.sum(drawn["posterior"]["mu"].values == value) for value in mu])
    assert np.all(np.abs(counts - 10_000 * weight) < 1.0)  # systematic: rounded up or down
    assert drawn.attrs["epsilon"] == 0.5
    with pytest.raises(InputError, match=r"has no epsilon 0\.2, but 0\.5, 0\.1"):
        resample(run, 0.2)
    with pytest.warns(UserWarning, match="only 0.0"):
        none = abc(
            Y,
            normal,
            PRIOR,
            distance=Summaries(Y, np.mean),
            acceptance="indicator",
            epsilon=1e-12,
            **QUICK,
        )
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

    options = {"kernel": KERNEL, "epsilon": 0.3, **QUICK}
    folder = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        k2_abc(Y, interrupted, PRIOR, folder=folder, **options)
    assert sorted(path.name for path in folder.iterdir()) == [
        ".lock",
        "batch-00000.npz",
        "batch-00001.npz",
        "settings.json",
    ]
    calls.append(None)  # no more interruptions
    resumed = k2_abc(Y, interrupted, PRIOR, folder=folder, **options)
    assert len(calls) == 46 + 10  # the last batch only
    calls.extend([None] * 45)
    uninterrupted = k2_abc(Y, interrupted, PRIOR, **options)
    same(uninterrupted, resumed)
    # More simulations may be asked for; the short batch at the end is simulated again.
    longer = k2_abc(Y, interrupted, PRIOR, folder=folder, **{**options, "num_simulations": 70})
    same(longer, k2_abc(Y, interrupted, PRIOR, **{**options, "num_simulations": 70}))


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
    options = {"observed": Y, "simulate": normal, "prior": PRIOR, "kernel": KERNEL, **QUICK}
    k2_abc(**options, epsilon=0.5, folder=tmp_path)
    with pytest.raises(InputError, match=f"another run, with a different .*{setting}"):
        k2_abc(**{**options, **changed}, epsilon=0.5, folder=tmp_path)


def test_damaged_batch_is_refused(tmp_path):
    k2_abc(Y, normal, PRIOR, kernel=KERNEL, epsilon=0.5, folder=tmp_path, **QUICK)
    (tmp_path / "batch-00001.npz").write_bytes(b"PK\x03\x04")
    with pytest.raises(InputError, match=r"batch-00001\.npz is not a part of a run"):
        k2_abc(Y, normal, PRIOR, kernel=KERNEL, epsilon=0.5, folder=tmp_path, **QUICK)


def test_saved_and_loaded(tmp_path):
    run = k2_abc(Y, normal, PRIOR, kernel=KERNEL, epsilon=0.5, **QUICK)
    save_run(run, tmp_path / "run.nc")
    loaded = load_run(tmp_path / "run.nc")
    np.testing.assert_array_equal(loaded["sample_stats"]["weight"], run["sample_stats"]["weight"])
    np.testing.assert_array_equal(loaded["observed_data"]["X"][:, 0], Y)
    same(with_epsilon(run, 0.1), with_epsilon(loaded, 0.1))
    with pytest.raises(InputError, match="this is a run of k2_abc"):
        target_of(loaded)


def test_discrete_parameters_are_weighted():
    @vectorize
    def counts(rng, theta):
        return theta["k"][:, None] + np.linspace(-1.0, 1.0, 20)

    run = k2_abc(Y, counts, {"k": dist.Poisson(2.0)}, kernel=KERNEL, epsilon=0.01, **QUICK)
    assert posterior_table(run)["q50"][0] == 1.0


def test_priors_that_are_batches_are_vectors():
    @vectorize
    def plane(rng, theta):
        return theta["b"].sum(axis=1)[:, None] + np.zeros(20)

    prior = {"b": dist.Uniform(np.zeros(3), np.ones(3))}
    run = k2_abc(Y, plane, prior, kernel=KERNEL, epsilon=0.5, **QUICK)
    assert list(posterior_table(run)["parameter"]) == ["b[0]", "b[1]", "b[2]"]


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
    options = {"observed": Y, "simulate": normal, "prior": PRIOR, "kernel": KERNEL, **QUICK}
    with pytest.raises(InputError, match=message):
        k2_abc(**{**options, **changed})


def test_bad_distances():
    for distance, message in (
        (MMD(Y + 1.0, KERNEL), "other observed data"),
        (np.mean, "distance must be"),
    ):
        with pytest.raises(InputError, match=message):
            abc(Y, normal, PRIOR, distance=distance, **QUICK)
    with pytest.raises(InputError, match="acceptance must be"):
        abc(Y, normal, PRIOR, distance=MMD(Y, KERNEL), acceptance="hard", **QUICK)
    with pytest.raises(InputError, match="nearly all simulations are equal"):
        abc(Y, normal, PRIOR, distance=Summaries(Y, lambda x: 1.0), **QUICK)


def test_a_distance_that_is_not_finite_is_a_failure():
    distance = Summaries(Y, lambda x: np.nan if x[0] > 3.0 else x.mean())
    with pytest.warns(UserWarning, match="a distance that is not finite"):
        run = abc(Y, normal, PRIOR, distance=distance, epsilon=0.5, **QUICK)
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
    laws = [
        Prior({"k": law}).describe()
        for law in (dist.Poisson(2.0), dist.Poisson(2.0), dist.Poisson(3.0))
    ]
    assert laws[0] == laws[1] != laws[2]
    assert " at 0x" not in str(laws)


def test_bandwidths_decrease_with_the_number_of_simulations():
    """For q parameters the bandwidth is M^(-1 / (q + 4)), the ESS fraction that to the power q."""
    rng = np.random.default_rng(8)
    squared = rng.chisquare(2, size=80_000)  # of two parameters: P(d < delta) is about delta^2 / 2
    small, large = (default_epsilon(part, "exponential", 2) for part in (squared[:10_000], squared))
    np.testing.assert_allclose(default_ess_fractions(10_000, 2), [0.2, 0.05, 0.01])
    np.testing.assert_allclose(default_ess_fractions(80_000, 2), [0.1, 0.025, 0.005])
    weights = -squared / large[-1]
    assert effective_sample_size(weights) == pytest.approx(400.0, rel=1e-3)
    assert large[-1] / small[-1] == pytest.approx(0.5, rel=0.1)  # delta^2
