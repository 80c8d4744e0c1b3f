"""Posterior masses compared with a fine grid, by quadrature, SMC, NUTS and bridge sampling."""

import re

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from bke.inference import (
    InputError,
    Nuts,
    Smc,
    credible_band,
    diagnose,
    find_modes,
    fit,
    open_run,
    reweight,
    sample_witness,
)
from bke.inference.diagnostics.modes import draw_weights, unconstrained_draws
from bke.inference.diagnostics.reweight import bridge_masses
from bke.inference.sampling.run import target_of
from bke.models import SquaredExponential, log_marginal_likelihood
from scipy.special import logsumexp
from scipy.stats import kstest

#: Spacing of the centers at which both modes of these data hold mass.
SPACING = 3.6


def stretched_pair(per_component: int = 15, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Normal and Laplace mixtures as in BKE Figure 3, with the outer components further out."""
    rng = np.random.default_rng(seed)
    centers = np.repeat([-SPACING, 0.0, SPACING], per_component)
    return rng.normal(centers, 1.0), rng.laplace(centers, np.sqrt(0.5))


PAIR = stretched_pair()
DATA = np.concatenate(PAIR)


@pytest.fixture(scope="module")
def grid():
    """Log density of log lengthscale on a fine grid, computed only with functions of the model."""
    z = np.arange(-6.0, 3.5, 5e-4)
    with jax.enable_x64(True):

        def log_likelihood(z):
            return log_marginal_likelihood(DATA, SquaredExponential(jax.numpy.exp(z)))

        likelihood = np.asarray(jax.jit(lambda z: jax.lax.map(log_likelihood, z))(z))
    return z, likelihood + z - np.exp(z)


@pytest.fixture(scope="module")
def by_quadrature():
    return fit(DATA, method="quadrature", standardize=None, progress=False)


@pytest.fixture(scope="module")
def by_nuts():
    method = Nuts(num_chains=8, num_warmup=60, num_samples=60)
    return fit(DATA, standardize=None, method=method, progress=False)


@pytest.fixture(scope="module")
def reweighted(by_nuts):
    return reweight(by_nuts, progress=False)


@pytest.mark.slow
def test_quadrature_and_its_draws_agree_with_a_fine_grid(by_quadrature, grid):
    """4000 draws, seed 0: a test of level 1e-4 against the grid's distribution function."""
    z, log_density = grid
    log_integral = logsumexp(log_density) + np.log(z[1] - z[0])
    attrs = by_quadrature["quadrature"].attrs
    assert attrs["log_normalizer_error"] <= attrs["tolerance"] == 1e-3
    assert attrs["log_normalizer"] == pytest.approx(log_integral, abs=1e-3)
    weight = np.exp(log_density - logsumexp(log_density))
    modes = find_modes(by_quadrature).modes
    assert len(modes) >= 2
    assert sum(mode.mass for mode in modes) == pytest.approx(1.0, abs=1e-6)
    for mode in modes:
        inside = (z >= mode.interval[0]) & (z < mode.interval[1])
        assert mode.mass == pytest.approx(weight[inside].sum(), abs=mode.mass_error + 1e-4)
    masses = sorted(mode.mass for mode in modes)
    assert masses[-2] > 0.05  # otherwise a wrong weight would not show
    draws = unconstrained_draws(by_quadrature)
    assert draws.shape == (1, 4000, 1)
    cumulative = np.cumsum(weight)
    assert kstest(draws.ravel(), lambda x: np.interp(x, z, cumulative)).pvalue > 1e-4


@pytest.mark.slow
def test_reweighted_nuts_has_the_masses_of_quadrature(by_nuts, reweighted, by_quadrature):
    plain = find_modes(by_nuts)
    assert not plain.has_masses
    assert "quadrature" not in by_nuts.children  # the argument does not change
    modes = find_modes(reweighted).modes
    nodes = by_quadrature["quadrature"].to_dataset()
    z = nodes["unconstrained"].values[:, 0]
    for mode in modes:
        inside = (z >= mode.interval[0]) & (z < mode.interval[1])
        assert mode.mass == pytest.approx(nodes["weight"].values[inside].sum(), abs=2e-3)
    proportions = np.array(find_modes(reweighted).draw_proportions)
    assert np.abs(proportions - [mode.mass for mode in modes]).max() > 0.02


@pytest.mark.slow
def test_draw_weights_of_a_mode_sum_to_its_mass(reweighted):
    modes = find_modes(reweighted)
    weights = draw_weights(reweighted, modes)
    assert weights.sum() == pytest.approx(1.0)
    assert not weights[list(modes.stuck)].any()
    visited = np.array([mode.mass if mode.draws else 0.0 for mode in modes.modes])
    for index in range(len(modes.modes)):
        proportion = weights[modes.of_draws == index].sum()
        assert proportion == pytest.approx(visited[index] / visited.sum(), abs=1e-9)
    unweighted = draw_weights(reweighted, modes, "chains")
    assert np.unique(unweighted[unweighted > 0]).size == 1
    with pytest.raises(InputError, match="weights must be one of"):
        draw_weights(reweighted, modes, "equal")


def test_the_witness_weights_modes_by_mass_by_default(by_nuts, reweighted):
    at = np.linspace(-4.0, 4.0, 9)
    by_mass = sample_witness(by_nuts, *PAIR, at, progress=False)
    by_chain = sample_witness(by_nuts, *PAIR, at, weights="chains", progress=False)
    np.testing.assert_array_equal(by_mass["witness"], by_chain["witness"])
    modes = find_modes(reweighted)
    means = {
        index: credible_band(by_mass, mode=index).mean
        for index, mode in enumerate(modes.modes)
        if mode.draws
    }
    total = sum(modes.modes[index].mass for index in means)
    expected = sum(modes.modes[index].mass * mean for index, mean in means.items()) / total
    np.testing.assert_allclose(credible_band(by_mass).mean, expected, rtol=1e-9)
    assert np.abs(credible_band(by_chain).mean - expected).max() > 1e-4


def test_diagnosis_before_and_after_reweight(by_nuts, reweighted, by_quadrature):
    before = diagnose(by_nuts)
    assert before.integral is None
    assert "do not pool" in before.verdict
    after = diagnose(reweighted)
    assert re.search(r"Mode \d has posterior mass 0\.\d+", after.verdict)
    assert "% of the draws of chains" in after.verdict
    assert after.integral.within_tolerance
    summary = after.summary()["modes"]
    assert sum(mode["draw_proportion"] for mode in summary) == pytest.approx(1.0)
    independent = diagnose(by_quadrature)
    assert "independent draws by quadrature" in independent.verdict
    assert "R-hat" not in str(independent)
    assert "ESS" not in str(independent)
    assert independent.convergence is None
    assert independent.per_mode == (None,) * len(independent.modes.modes)
    assert np.isnan([independent.rhat, independent.ess_bulk]).all()
    assert {independent.summary()[name] for name in ("rhat", "ess_bulk", "mixed")} == {None}


def independent_draws_in_modes(run, exact):
    """Put independent draws in place of a run's: half of its chains in either of two modes.

    NUTS itself is slow to cross the smaller peaks within a mode of these data, and which chain has
    crossed which depends on how the processor rounds; bridge sampling of such draws gives no
    integral.
    """
    result, draws = run.copy(deep=True), run["posterior"].sizes["draw"]
    (name,) = exact["unconstrained_posterior"].data_vars
    mode = find_modes(exact).of_draws.ravel()
    count = run["posterior"].sizes["chain"] // 2
    chosen = np.concatenate(
        [np.flatnonzero(mode == label)[: count * draws].reshape(count, draws) for label in (0, 1)]
    )
    for group, variable in (("unconstrained_posterior", name), ("posterior", "lengthscale")):
        result[group][variable][:] = exact[group][variable].values.ravel()[chosen]
    points = {name: result["unconstrained_posterior"][name].values.ravel()}
    result["sample_stats"]["lp"][:] = np.reshape(open_run(exact).log_density(points), chosen.shape)
    return result


def test_bridges_agree_with_quadrature(by_nuts, by_quadrature):
    """Two modes, 60 draws of each chain; within four standard errors."""
    result = bridge_masses(open_run(independent_draws_in_modes(by_nuts, by_quadrature)), 0).attrs
    exact = by_quadrature["quadrature"].attrs["log_normalizer"]
    assert result["log_normalizer_error"] < 0.1
    assert result["log_normalizer"] == pytest.approx(exact, abs=4 * result["log_normalizer_error"])


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_two_hyperparameters_against_a_grid_and_bridge_sampling(seed):
    """Noise variance and lengthscale; bridge sampling within four standard errors."""
    X = np.random.default_rng(seed).gamma(3.0, size=40)
    prior = dist.Uniform(0.02, 0.5)
    arguments = {"noise_variance": prior, "standardize": None, "progress": False}
    run = fit(X, method="quadrature", **arguments)
    target, units = target_of(run)
    with jax.enable_x64(True):
        points = jax.numpy.asarray(units.transform_data(run["observed_data"]["X"].values))
        names = list(run["unconstrained_posterior"].data_vars)
        axes = [np.linspace(-4.0, 3.5, 400), np.linspace(-12.0, 12.0, 120)]
        log_density = jax.jit(
            jax.vmap(lambda a, b: target.log_density({names[0]: a, names[1]: b}, points))
        )
        values = np.stack([log_density(np.full(120, a), axes[1]) for a in axes[0]])
    step = (axes[0][1] - axes[0][0]) * (axes[1][1] - axes[1][0])
    exact = logsumexp(values[np.isfinite(values)]) + np.log(step)
    attrs = run["quadrature"].attrs
    assert attrs["log_normalizer_error"] <= 1e-3
    assert attrs["log_normalizer"] == pytest.approx(exact, abs=5e-3)  # the grid's own error

    chains = fit(X, method=Nuts(num_chains=4, num_warmup=100, num_samples=400), **arguments)
    result = bridge_masses(open_run(chains), seed).attrs
    assert result["log_normalizer_error"] < 0.1
    assert result["log_normalizer"] == pytest.approx(exact, abs=4 * result["log_normalizer_error"])


@pytest.mark.slow
def test_a_run_without_draws_of_the_heavy_mode_is_refused():
    """Pairs of near ties: the mass is at a lengthscale of 0.006, and this chain stays at 0.6."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=15)
    X = np.concatenate([x, x + 0.01 * rng.normal(size=15)])
    noise = dist.Uniform(0.05, 0.2)
    short = Nuts(num_chains=1, num_warmup=60, num_samples=60)
    run = fit(X, noise_variance=noise, method=short, progress=False)
    assert run["posterior"]["lengthscale"].min() > 0.1
    reweighted = reweight(run, tolerance=1e-2, progress=False)
    assert find_modes(reweighted).visited_mass < 0.01
    assert "NOT THE POSTERIOR" in diagnose(reweighted).verdict
    with pytest.raises(InputError, match="run more chains"):
        sample_witness(run, X[:15], X[15:], progress=False)
    naive = sample_witness(run, X[:15], X[15:], weights="chains", progress=False)
    assert np.isfinite(naive["witness"]).all()


@pytest.mark.slow
def test_a_single_repeat_of_smc_has_no_standard_error():
    X = np.random.default_rng(0).normal(size=20)
    report = str(diagnose(fit(X, method=Smc(num_particles=200, num_repeats=1), progress=False)))
    assert "there is one repeat" in report
    assert "nan" not in report


def test_a_prior_that_cannot_be_drawn_from_is_refused():
    prior = dist.ImproperUniform(dist.constraints.positive, (), ())
    for method in ("nuts", "quadrature", "smc"):
        with pytest.raises(InputError, match="cannot be drawn from"):
            fit(np.arange(9.0) ** 2, prior=prior, method=method, progress=False)
