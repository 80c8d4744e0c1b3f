"""Self-tests: their reference is right, they fail where something is wrong, and are told."""

import json

import jax.numpy as jnp
import numpy as np
import pytest
from bke.inference import SelfCheck, self_check
from bke.inference.cli import app
from bke.inference.selfcheck import agreement, calibration, check, levels
from bke.inference.selfcheck.calibration import KEPT, METHODS, joint_draws, ranks, uniformity
from bke.inference.selfcheck.finding import Finding
from bke.models import SquaredExponential, log_marginal_likelihood
from scipy import integrate, stats
from typer.testing import CliRunner


def density(x, y):
    """Of two rows beside one at zero, at lengthscale one; not normalised."""
    X = jnp.array([[0.0], [x], [y]])
    return float(jnp.exp(log_marginal_likelihood(X, SquaredExponential(1.0), noise_variance=0.1)))


@pytest.mark.slow
def test_joint_draws_have_the_model_s_density():
    """2000 draws, seed 0, against a grid: rows at lengthscale one, a test at 0.001."""
    joint = joint_draws(2000)
    assert stats.kstest(joint.lengthscales, stats.gamma(2.0, scale=1 / 3.0).cdf).pvalue > 1e-3
    assert not joint.rows[:, 0].any()
    assert joint.worth > 10_000
    grid = np.linspace(-5.0, 5.0, 61)
    table = np.array([[density(x, y) for y in grid] for x in grid])
    cdf = integrate.cumulative_trapezoid(table.sum(axis=1), grid, initial=0.0)
    first = joint.rows[:, 1, 0] / joint.lengthscales
    assert stats.kstest(first, lambda x: np.interp(x, grid, cdf / cdf[-1])).pvalue > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_lengthscales_are_calibrated(name):
    """40 data sets, seed 2; fails by chance with probability 0.001."""
    found = ranks(METHODS[name], joint_draws(40, seed=2))
    assert found.min() >= 0
    assert found.max() <= KEPT
    assert uniformity(found) > 1e-3


@pytest.mark.slow
def test_a_wrong_posterior_is_found(monkeypatch):
    """Under a prior of half the lengthscale: 60 data sets, seed 0."""
    monkeypatch.setattr(calibration, "Gamma", lambda a, b: stats_gamma(a, 2.0 * b))
    told = calibration.calibration("quadrature", joint_draws(60))
    assert not told.passed
    assert "60 data sets" in told.measured


def stats_gamma(shape, rate):
    from numpyro.distributions import Gamma

    return Gamma(shape, rate)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", check.TESTS)
def test_levels(name, monkeypatch):
    told = levels.level(name, 30)
    assert told.passed
    monkeypatch.setattr(levels, "ALPHA", 0.9)  # rejects nearly always
    monkeypatch.setattr(levels.binom, "ppf", lambda q, n, p: stats.binom(n, 0.1).ppf(q))
    assert not levels.level(name, 30).passed


@pytest.mark.slow
def test_numbers_that_are_none_do_not_agree(monkeypatch):
    assert agreement.factors().passed
    assert agreement.threads().passed
    assert agreement.means().passed
    monkeypatch.setattr("jax.numpy.linalg.cholesky", lambda matrix: matrix * np.nan)
    assert not agreement.factors().passed


@pytest.mark.slow
def test_chains_that_are_elsewhere_do_not_agree(monkeypatch):
    """Draws of NUTS that are a twentieth longer, of a posterior that is a tenth wide."""
    told = agreement._log_lengthscales
    monkeypatch.setattr(
        agreement,
        "_log_lengthscales",
        lambda run: told(run) + 0.05 * (run.attrs["method"] == "nuts"),
    )
    assert not agreement.means().passed


@pytest.mark.slow
def test_all_of_it():
    found = self_check(progress=False)
    assert found.passed
    assert len(found.findings) == 9


@pytest.mark.parametrize("passed", [True, False])
def test_the_command_tells_and_ends(passed, monkeypatch):
    findings = (Finding("one", "1", "1", True), Finding("other", "nan", "0", passed))
    found = SelfCheck(findings, "a machine")
    monkeypatch.setattr("bke.inference.self_check", lambda progress: found)
    done = CliRunner().invoke(app, ["check"])
    assert done.exit_code == 1 - passed
    assert ("DOES NOT AGREE" in done.stdout) != passed
    assert ("DO NOT TRUST RESULTS ON THIS MACHINE: other came out" in done.stdout) != passed
    told = json.loads(CliRunner().invoke(app, ["check", "--json"]).stdout)
    assert told["passed"] == passed
    assert [one["passed"] for one in told["findings"]] == [True, passed]
