"""Posterior predictive checks, of draws and of a fitted NumPyro model."""

import arviz_base
import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from bke.inference import InputError, posterior_predictive_check
from bke.inference.testing import predictive
from bke.inference.testing.predictive import Scorer, squared_mmds
from bke.models import SquaredExponential, squared_mmd
from numpyro.infer import MCMC, NUTS, Predictive

RNG = np.random.default_rng(0)


def tree_of(observed, predicted, name="y"):
    """``predicted``: (chain, draw, n, ...)."""
    return arviz_base.from_dict(
        {"posterior_predictive": {name: predicted}, "observed_data": {name: observed}}
    )


def test_distances_and_witness():
    """The distance is the MMD up to a constant; the witness is compared with loops."""
    Z, R = RNG.normal(size=(9, 2)), RNG.normal(size=(14, 2))
    kernel = SquaredExponential(0.8)
    gram = np.asarray(kernel(R))
    shared = (gram.sum() - np.trace(gram)) / (14 * 13)
    expected = float(squared_mmd(Z, R, kernel))
    assert squared_mmds(Z, R, [2.0, 0.8])[1] + shared == pytest.approx(expected, rel=1e-9)
    witness, error = Scorer(R, 0.8).witness(Z)
    observed, predicted = (np.asarray(kernel(A, Z[3:4]))[:, 0] for A in (Z, R))
    assert witness[3] == pytest.approx(observed.mean() - predicted.mean(), rel=1e-9)
    variance = max(predicted.var(ddof=1), 1 / 14) * (1 / 9 + 1 / 14)
    assert error[3] == pytest.approx(np.sqrt(variance), rel=1e-9)


def test_rare_observations_are_compared_with_more_predictions(monkeypatch):
    """Where few predictions are near, with all of them; elsewhere with the first."""
    monkeypatch.setattr(predictive, "MAX_PREDICTIONS", 500)
    rng = np.random.default_rng(2)
    Z, R = rng.normal(size=(40, 1)), rng.normal(size=(4000, 1))
    Z[5] = 30.0
    scorer = Scorer(R, 0.5)
    witness, error = scorer.witness(Z)
    assert witness[5] / error[5] == pytest.approx(scorer.max_score(40), rel=1e-9)
    assert error[5] == pytest.approx(np.sqrt(1 / 4000 * (1 / 40 + 1 / 4000)), rel=1e-9)
    gram = np.asarray(SquaredExponential(0.5)(np.concatenate([Z, R])))
    observed, first, all_predictions = (
        gram[:40, :40].mean(axis=1),
        gram[:40, 40:540],
        gram[:40, 40:],
    )
    is_rare = first.var(axis=1, ddof=1) * 500 < predictive.MIN_NEARBY
    assert 3 < is_rare.sum() < 20
    expected = np.where(is_rare, all_predictions.mean(axis=1), first.mean(axis=1))
    np.testing.assert_allclose(observed - witness, expected, rtol=1e-9)
    rows = np.where(is_rare, 4000, 500)
    variance = np.where(is_rare, all_predictions.var(axis=1, ddof=1), first.var(axis=1, ddof=1))
    expected = np.sqrt(np.maximum(variance, 1 / rows) * (1 / 40 + 1 / rows))
    np.testing.assert_allclose(error, expected, rtol=1e-9)


@pytest.mark.slow
def test_an_impossible_value_in_a_large_sample_is_detected():
    """Fifty standard deviations out, in more rows than the test takes."""
    rng = np.random.default_rng(9)
    data = rng.normal(size=1200)
    data[7] = 50.0
    tree = tree_of(data, rng.normal(size=(2, 150, 1200)))
    check = posterior_predictive_check(tree, rows=100, replicates=39, progress=False)
    assert check.worst(1) == [7]
    assert check.score[7] > 1.5 * check.reach
    assert np.sum(np.abs(check.score) > check.reach) == 1
    assert "(1 of 1200 beyond" in str(check)
    assert "[7] at 50: more than predicted" in str(check)
    assert len(repr(check)) < 200
    small_tree = tree_of(data[:400], rng.normal(size=(1, 45, 400)))
    check = posterior_predictive_check(small_tree, replicates=39, progress=False)
    assert ("more predictive draws increase it" in str(check)) == (check.score.max() < check.reach)


@pytest.mark.slow
def test_rounded_data_and_smooth_predictions():
    rng = np.random.default_rng(10)
    tree = tree_of(rng.normal(10.0, 2.0, size=300).round(), rng.normal(10.0, 2.0, (2, 150, 300)))
    check = posterior_predictive_check(tree, replicates=99, progress=False)
    assert check.pvalue <= 0.05
    assert "one sample is rounded to 1 and the other not at all" in str(check)


@pytest.mark.slow
def test_the_level_if_the_data_are_a_further_draw():
    """60 data sets, seed 1, level 0.1: 1 to 15 rejections but for 1 in 500.

    As many at most have a row beyond the reach.
    """
    rng = np.random.default_rng(1)
    checks = [
        posterior_predictive_check(
            tree_of(rng.gamma(2.0, size=8), rng.gamma(2.0, size=(2, 30, 8))),
            replicates=39,
            alpha=0.1,
            seed=seed,
            progress=False,
        )
        for seed in range(60)
    ]
    assert 1 <= sum(check.result.reject for check in checks) <= 15
    beyond = [np.abs(check.score).max() > check.reach for check in checks]
    assert sum(beyond) <= 15
    assert "(0 of" in str(checks[beyond.index(False)])


@pytest.mark.slow
def test_a_numpyro_model_that_misses_a_second_mode():
    """A normal model of data with two modes; the worst rows are where the model puts too many."""
    data = np.concatenate([RNG.normal(-2.0, 0.5, size=60), RNG.normal(2.0, 0.5, size=60)])

    def model(y=None):
        mean = numpyro.sample("mean", dist.Normal(0.0, 5.0))
        deviation = numpyro.sample("deviation", dist.HalfNormal(5.0))
        with numpyro.plate("rows", len(data)):
            numpyro.sample("y", dist.Normal(mean, deviation), obs=y)

    mcmc = MCMC(NUTS(model), num_warmup=100, num_samples=300, progress_bar=False)
    mcmc.run(jax.random.key(0), data)
    predicted = Predictive(model, mcmc.get_samples())(jax.random.key(1))
    tree = arviz_base.from_numpyro(mcmc, posterior_predictive=predicted)
    check = posterior_predictive_check(tree, replicates=99, progress=False)
    assert check.pvalue == 0.01
    assert check.variable == "y"
    text = str(check)
    assert "the data do not look like the model's predictions" in text
    assert "more than predicted" in text
    middle = np.abs(data) < 0.8
    crowded = np.abs(np.abs(data) - 2.0) < 0.3
    assert check.score[crowded].mean() > 2.0
    assert not middle.any() or check.score[middle].mean() < 0.0
    assert np.mean(crowded[check.worst()]) >= 0.8
    assert len(check.plot().axes) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tree": 3}, "a DataTree with the groups"),
        ({"variable": "z"}, "there is no 'z' in both groups"),
        ({"replicates": 100}, "102 are needed, replicates=100 and at least 2"),
        ({"replicates": 5}, "5 replicates cannot reject"),
        ({"tree": tree_of(RNG.normal(size=8), RNG.normal(size=(1, 50, 9)))}, "predicted in"),
        ({"tree": tree_of(RNG.normal(size=8), np.full((1, 50, 8), np.nan))}, "are not finite"),
    ],
)
def test_bad_input(arguments, message):
    tree = tree_of(RNG.normal(size=8), RNG.normal(size=(1, 50, 8)))
    with pytest.raises(InputError, match=message):
        posterior_predictive_check(
            **{"tree": tree, "replicates": 30, "progress": False, **arguments}
        )
