"""Binary labels, compared with integrals, and with Gaussian labels where both agree."""

import numpy as np
import pytest
from bke.inference import InputError, compare
from bke.inference.comparison import difference_posterior as module
from bke.inference.comparison.difference_posterior import (
    BinaryLabelPosterior,
    BinaryLabels,
    binary_label_posterior,
    difference_posterior,
)
from bke.inference.permutation.pool import pool_rows
from bke.inference.permutation.samples import TwoSamples
from scipy.integrate import dblquad
from scipy.special import expit
from scipy.stats import norm

QUIET = {"progress": False, "n_resamples": 99}


@pytest.mark.parametrize("variance", [0.05, 2.0])
@pytest.mark.slow
def test_the_log_marginal_likelihood_is_nearly_the_integral(variance):
    """Of 150 points with counts and two coefficients; Laplace is within 0.02 nats there."""
    rng = np.random.default_rng(0)
    features, counts = rng.normal(size=(150, 2)), rng.integers(1, 4, size=150)
    first = rng.binomial(counts, expit(-0.4 + features @ [0.3, -0.2]))
    labels = BinaryLabels(features, first, counts, -0.4)
    mode, log = labels.laplace_approximation(variance, np.zeros(2))

    def density(b, a):
        x = np.array([a, b])
        prior = norm.pdf(x, scale=variance**0.5).prod()
        return np.exp(labels.log_likelihood(x) - labels.log_likelihood(np.zeros(2))) * prior

    exact = dblquad(density, mode[0] - 1.0, mode[0] + 1.0, mode[1] - 1.0, mode[1] + 1.0)[0]
    assert log == pytest.approx(np.log(exact), abs=0.02)
    gradient, curvature = labels.gradient_and_information(mode)
    np.testing.assert_allclose(gradient, mode / variance, atol=1e-5)
    step = 1e-5
    for axis in np.eye(2):
        up, down = (labels.log_likelihood(mode + sign * step * axis) for sign in (1, -1))
        assert gradient @ axis == pytest.approx((up - down) / (2 * step), abs=1e-5)
        up, down = (
            labels.gradient_and_information(mode + sign * step * axis)[0] for sign in (1, -1)
        )
        np.testing.assert_allclose(curvature @ axis, (down - up) / (2 * step), rtol=1e-5)


@pytest.mark.slow
def test_gaussian_and_logit_labels_agree_on_small_differences():
    rng = np.random.default_rng(0)
    P, Q = rng.normal(size=400), rng.normal(0.3, size=250)
    gaussian, logit = (compare(P, Q, labels=labels, **QUIET) for labels in ("gaussian", "logit"))
    assert gaussian.log_bayes_factor > 3.0
    assert logit.log_bayes_factor == pytest.approx(gaussian.log_bayes_factor, rel=0.1)
    assert logit.pvalue == gaussian.pvalue
    at = np.linspace(-2.0, 2.0, 9)
    first, second = (comparison.witness(at, scale=1.0) for comparison in (gaussian, logit))
    width = first.upper - first.lower
    assert (np.abs(first.mean - second.mean) < 0.25 * width).all()
    assert gaussian.prob_mmd2_exceeds(0.01) == pytest.approx(logit.prob_mmd2_exceeds(0.01), abs=0.1)


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.one_in(2)
def test_the_ratio_is_positive_and_that_of_the_densities(swapped):
    """N(0, 1) and N(1, 1) of 600 and 300 rows: log p/q = 1/2 - x; seed 0."""
    rng = np.random.default_rng(0)
    samples = rng.normal(size=600), rng.normal(1.0, size=300)
    result = compare(*samples[:: -1 if swapped else 1], labels="logit", **QUIET)
    at = np.linspace(-1.5, 2.5, 9)
    bands = result.density_ratio(at)
    log = (0.5 - at) * (-1 if swapped else 1)
    assert (bands.wide_lower > 0.0).all()
    assert (np.abs(np.log(bands.mean) - log) < 0.5).all()
    assert np.mean((np.log(bands.wide_lower) < log) & (log < np.log(bands.wide_upper))) > 0.8
    # A density of Gaussian labels may be negative: these are cut off.
    rough = compare(*samples, **QUIET).density_ratio([-3.0, 4.0])
    assert (rough.upper <= 1000.0 * (1 + 1e-9)).all()
    assert (rough.lower >= 0.001 * (1 - 1e-9)).all()


def test_bad_input_is_named(monkeypatch):
    P, Q = np.random.default_rng(0).normal(size=(2, 30))
    with pytest.raises(InputError, match="labels must be 'auto', 'gaussian' or 'logit', got 'yes'"):
        compare(P, Q, labels="yes", **QUIET)
    with pytest.raises(InputError, match="for independent rows"):
        compare(P, Q, labels="logit", paired=True, **QUIET)
    monkeypatch.setattr(module, "MAX_BINARY_POINTS", 50)
    with pytest.raises(InputError, match="at most 50 different rows, and there are 60"):
        compare(P, Q, labels="logit", **QUIET)


@pytest.mark.slow
def test_very_unequal_samples_have_binary_labels():
    """Of 5 of 2005 rows, seeds 6 to 11, Gaussian labels once find odds of 8 by chance."""
    rough, fair = [], []
    for seed in range(6, 12):
        rng = np.random.default_rng(seed)
        rows = pool_rows(TwoSamples.checked(rng.normal(size=5), rng.normal(size=2000)), 1, rng)
        rough.append(difference_posterior(rows).log_bayes_factor)
        fair.append(binary_label_posterior(difference_posterior(rows), rows).log_bayes_factor)
    assert max(rough) > 2.0
    assert max(fair) < 1.0
    rng = np.random.default_rng(0)
    result = compare(rng.normal(5.0, size=8), rng.normal(size=9000), **QUIET)
    assert isinstance(result.posterior, BinaryLabelPosterior)
    assert result.reject
    assert 5.0 < result.log_bayes_factor < 100.0


def test_a_sample_without_rows_in_a_region_has_an_unlimited_ratio():
    result = compare(np.zeros(40), np.ones(60), **QUIET)
    region = next(candidate for candidate in result.regions if candidate.sign == 1)
    assert region.ratio == np.inf
    assert 3.0 < region.ratio_interval[0] < 60.0
    assert "no rows from Q, at least" in str(result)
    assert "inf" not in str(result)
