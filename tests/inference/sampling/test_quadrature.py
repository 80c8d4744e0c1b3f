"""Adaptive quadrature on densities with known integrals, with zeros, narrow peaks and bad tails."""

import numpy as np
import pytest
from bke.inference.core.errors import SamplingError
from bke.inference.sampling.adaptive_quadrature import integrate
from scipy.special import gammaln, logsumexp
from scipy.stats import kstest, multivariate_normal, norm


def run(log_density, low=(-4.0,), high=(4.0,), tolerance=1e-4, max_evaluations=20_000):
    return integrate(
        log_density,
        np.array(low),
        np.array(high),
        tolerance=tolerance,
        max_evaluations=max_evaluations,
    )


def mixture(z, weights, centers, widths):
    """Log density of a mixture of isotropic Gaussians at (k, d) points."""
    d = z.shape[1]
    parts = [
        np.log(w) - 0.5 * np.sum(((z - c) / s) ** 2, axis=1) - d * np.log(s * np.sqrt(2 * np.pi))
        for w, c, s in zip(weights, centers, widths, strict=True)
    ]
    return logsumexp(parts, axis=0)


@pytest.mark.parametrize(
    ("shift", "width", "tolerance"), [(0.3, 0.5, 1e-2), (-2.0, 0.05, 1e-4), (3.1, 1e-3, 1e-6)]
)
def test_the_error_is_within_its_estimate_and_that_within_the_tolerance(shift, width, tolerance):
    result = run(lambda z: 300.0 + mixture(z, [1.0], [shift], [width]), tolerance=tolerance)
    assert result.error <= tolerance
    assert abs(result.log_normalizer - 300.0) <= result.error
    assert result.weight.sum() == pytest.approx(1.0)
    assert result.weight @ result.nodes[:, 0] == pytest.approx(shift, abs=10 * tolerance)


def test_a_narrow_peak_between_the_nodes_is_detected_by_its_flanks():
    """Width 1/400 of the grid's step: the nearest node is thousands of nats below the top."""
    result = run(lambda z: mixture(z, [1.0], [0.009], [5e-5]))
    assert result.log_normalizer == pytest.approx(0.0, abs=1e-4)


def test_zeros_of_the_density_do_not_reduce_accuracy():
    """|z - a| |z - b| exp(-z^2/2) in closed form by the moments between the zeros."""
    a, b = -0.313, 0.7071

    def density(z):
        with np.errstate(divide="ignore"):
            return np.log(np.abs(z[:, 0] - a) * np.abs(z[:, 0] - b)) - 0.5 * z[:, 0] ** 2

    def moments(low, high):
        """Integrals of (z^2 - (a + b) z + ab) exp(-z^2/2) between two limits."""
        gauss = lambda z: np.exp(-0.5 * z**2) if np.isfinite(z) else 0.0  # noqa: E731
        edge = lambda z: z * gauss(z) if np.isfinite(z) else 0.0  # noqa: E731
        zeroth = np.sqrt(2 * np.pi) * (norm.cdf(high) - norm.cdf(low))
        first = gauss(low) - gauss(high)
        second = zeroth + edge(low) - edge(high)
        return second - (a + b) * first + a * b * zeroth

    exact = moments(-np.inf, a) - moments(a, b) + moments(b, np.inf)
    for tolerance in (1e-3, 1e-5):
        result = run(density, tolerance=tolerance)
        assert abs(result.log_normalizer - np.log(exact)) <= result.error <= tolerance


def test_the_range_is_widened_until_the_density_is_negligible():
    """A Gamma(1/2, 1) density of the log has a tail exp(z / 2) to the left."""
    result = run(lambda z: 0.5 * z[:, 0] - np.exp(z[:, 0]), low=(-1.0,), high=(1.0,))
    assert result.log_normalizer == pytest.approx(gammaln(0.5), abs=1e-4)
    assert result.nodes[0, 0] < -60


def test_asymmetric_masses_of_two_modes_of_a_ridge():
    def density(z):
        rotated = np.stack([z[:, 0] + z[:, 1], z[:, 0] - z[:, 1]], axis=1)
        return mixture(rotated, [0.7, 0.3], [(-1.0, 0.5), (2.0, 0.0)], [0.2, 0.5])

    result = run(density, low=(-3.0, -3.0), high=(3.0, 3.0), tolerance=1e-3)
    assert abs(result.log_normalizer + np.log(2.0)) <= result.error <= 1e-3
    assert result.weight[result.nodes.sum(axis=1) > 0.5].sum() == pytest.approx(0.3, abs=1e-3)


@pytest.mark.parametrize(("correlation", "width"), [(0.99, 0.2), (0.999, 0.05), (0.9999, 0.2)])
def test_a_thin_ridge_between_the_nodes_is_not_missed(correlation, width):
    """Its width is down to a thirtieth of the distance of the first nodes."""
    covariance = width**2 * np.array([[1.0, correlation], [correlation, 1.0]])
    target = multivariate_normal([0.3137, -0.771], covariance)
    result = run(
        target.logpdf, low=(-6.0, -6.0), high=(2.0, 2.0), tolerance=2e-3, max_evaluations=30_000
    )
    assert abs(result.log_normalizer) <= result.error < 2e-2
    assert result.evaluations < 31_000


@pytest.mark.parametrize("dimension", [1, 2])
def test_draws_follow_the_density(dimension):
    """Kolmogorov and Smirnov on each marginal, 4000 draws, seed 0; fails in 1 of 1e4 otherwise."""
    centers = [np.full(dimension, -1.0), np.full(dimension, 1.5)]
    result = run(
        lambda z: mixture(z, [0.8, 0.2], centers, [0.3, 0.1]),
        low=(-4.0,) * dimension,
        high=(4.0,) * dimension,
        tolerance=1e-3,
    )
    draws, lp = result.draws(4000, np.random.default_rng(0))

    def cdf(x):
        return 0.8 * norm.cdf(x, -1.0, 0.3) + 0.2 * norm.cdf(x, 1.5, 0.1)

    for axis in range(dimension):
        assert kstest(draws[:, axis], cdf).pvalue > 1e-4
    if dimension == 2:  # the coordinates are independent within a mode
        inside = draws[:, 0] < 0.3
        assert abs(np.corrcoef(draws[inside].T)[0, 1]) < 4 / np.sqrt(inside.sum())
    exact = mixture(draws, [0.8, 0.2], centers, [0.3, 0.1])
    np.testing.assert_allclose(lp[exact > -3], exact[exact > -3], atol=0.1)


def test_points_are_evaluated_only_once():
    evaluated = []

    def density(z):
        evaluated.extend(map(tuple, z.tolist()))
        return mixture(z, [1.0], [(0.3, 0.1)], [0.4])

    run(density, low=(-3.0, -3.0), high=(3.0, 3.0), tolerance=1e-3)
    assert len(evaluated) == len(set(evaluated))


@pytest.mark.parametrize(("value", "message"), [(0.0, "proper"), (-np.inf, "zero everywhere")])
def test_a_density_without_an_integral_is_refused(value, message):
    with pytest.raises(SamplingError, match=message):
        run(lambda z: np.full(len(z), value))


def test_not_a_number_is_refused_only_where_the_density_matters():
    def until(limit):
        return run(
            lambda z: np.where(z[:, 0] > limit, np.nan, norm.logpdf(z[:, 0])), (-12.0,), (12.0,)
        )

    with pytest.raises(SamplingError, match="not a number"):
        until(2.0)
    assert until(11.0).log_normalizer == pytest.approx(0.0, abs=1e-4)


def test_it_stops_at_the_limit_of_evaluations_and_reports_its_error():
    result = run(lambda z: mixture(z, [1.0], [0.3], [0.5]), tolerance=1e-12, max_evaluations=1500)
    assert 1500 <= result.evaluations < 4000
    assert 1e-12 < result.error < 1e-3
