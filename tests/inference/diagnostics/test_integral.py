"""Bridge sampling against known integrals; its standard error against the deviation of repeats."""

import numpy as np
import pytest
from bke.inference import InputError, SamplingError
from bke.inference.diagnostics.integral import bridge_sampling
from scipy.stats import multivariate_t


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dimension", [1, 5])
def test_the_integral_of_a_student_t(dimension):
    """Eight chains of 200 draws, 40 repeats from seed 0.

    The mean error is within four standard errors of zero (fails in 1 of 1e4 otherwise), and the
    reported error within a factor of two of the deviation, which has a standard error of a tenth.
    """
    scale = np.diag(np.geomspace(0.01, 4.0, dimension))
    target = multivariate_t(np.arange(dimension, dtype=float), scale, df=8)
    logs, errors = [], []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        z = target.rvs((8, 200), random_state=rng).reshape(8, 200, dimension)
        lp = -7.0 + target.logpdf(z).reshape(8, 200)
        result = bridge_sampling(z, lambda x: -7.0 + target.logpdf(x), rng, "mode 1", lp=lp)
        logs.append(result.log)
        errors.append(result.error)
    deviation = np.std(logs, ddof=1)
    assert deviation < 0.1
    assert abs(np.mean(logs) + 7.0) < 4 * deviation / np.sqrt(40)
    assert 0.5 < np.mean(errors) / deviation < 2.0


def normal(x):
    return -0.5 * x[:, 0] ** 2


def test_half_a_mode_has_half_the_integral():
    rng = np.random.default_rng(0)
    z = np.abs(rng.normal(size=(8, 200, 1)))
    result = bridge_sampling(z, lambda x: np.where(x[:, 0] > 0, normal(x), -np.inf), rng, "mode 1")
    assert result.log == pytest.approx(0.5 * np.log(np.pi / 2), abs=4 * result.error)
    assert result.error < 0.05


@pytest.mark.filterwarnings("ignore:invalid value")
def test_bridge_sampling_refuses_small_samples_and_invalid_densities():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(2, 20, 1))

    assert np.isfinite(bridge_sampling(z, normal, rng, "mode 2").log)
    for draws in (z[:, :7], z[:, :18], z[:1]):  # 7 of a chain; 18 and 10 to fit, of 20
        with pytest.raises(InputError, match=r"mode 2 has .* too few for bridge sampling"):
            bridge_sampling(draws, normal, rng, "mode 2")
    with pytest.raises(SamplingError, match="bridge sampling failed for mode 2"):
        bridge_sampling(z, normal, rng, "mode 2", lp=np.full((2, 20), np.nan))


def test_unknown_log_densities_of_draws_are_evaluated():
    z = np.random.default_rng(0).normal(size=(2, 40, 1))
    lp = -0.5 * z[..., 0] ** 2
    known, evaluated = (
        bridge_sampling(z, normal, np.random.default_rng(1), "mode 1", lp=values)
        for values in (lp, None)
    )
    assert known == evaluated
