"""Normalizers and scores against trapezoids, other rows and finite differences."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from bke.models import (
    Laplace,
    Polynomial,
    SquaredExponential,
    hyvarinen_scores,
    kernel_student_t,
    leave_one_out_log_densities,
    log_normalizer,
    log_sequential_likelihood,
)
from bke.models.student_t import quadrature
from bke.models.student_t.quadrature import gauss_legendre

PRIOR = {"noise_variance": 0.1, "alpha": 2.5, "beta": 0.7}
CASES = [(SquaredExponential(0.6), (-4.0, 5.0)), (Polynomial(2, 0.5), None)]


@pytest.fixture
def x():
    return np.random.default_rng(0).normal(0.4, 1.0, size=9)


@pytest.mark.parametrize(("kernel", "bounds"), CASES)
def test_density_integrates_to_unity(x, kernel, bounds):
    density = kernel_student_t(x, kernel, **PRIOR)
    normalizer = log_normalizer(density, bounds)
    at = np.linspace(*(bounds or (-60.0, 60.0)), 100_001)
    total = np.trapezoid(np.exp(density.log_density(at) - normalizer.value), at)
    np.testing.assert_allclose(total, 1.0, atol=2e-6)
    assert normalizer.error <= 1e-6


def by_panels(density, low, high, every):
    """Compute the log integral by the Gauss-Legendre rule on panels, short ones near rows."""
    axes = []
    columns = np.asarray(density.rows.data).T
    every = np.broadcast_to(every, len(columns))
    for column, start, end, step in zip(columns, low, high, every, strict=True):
        around = (column[:, None] + step * np.arange(-24.0, 25.0)).ravel()
        # Panels far shorter than the without_row only cost time.
        around = np.unique(np.round((around - column[0]) / (0.5 * step))) * 0.5 * step + column[0]
        edges = np.unique(np.concatenate([[start, end], np.clip(around, start, end)]))
        node, log_weight = gauss_legendre(np.zeros(1), np.ones(1), 10)
        side = np.diff(edges)[:, None]
        axes.append(
            ((edges[:-1, None] + side * node[:, 0]).ravel(), (side * np.exp(log_weight)).ravel())
        )
    nodes = np.stack([axis.ravel() for axis in np.meshgrid(*[a for a, _ in axes])], axis=1)
    weights = np.prod([axis.ravel() for axis in np.meshgrid(*[w for _, w in axes])], axis=0)
    values = np.asarray(density.log_density(nodes))
    return values.max() + np.log(weights @ np.exp(values - values.max()))


def modes():
    """Rows, lengthscale, hyperparameters, bounds, and the length of panels near rows."""
    rng = np.random.default_rng(3)
    for rows, lengthscale, bounds in [
        # Narrow clusters far from each other and from the median, of different weights.
        (np.repeat([0.0, 0.73, 1.0], [40, 30, 30]), 1e-3, (-0.5, 1.5)),
        (np.repeat([0.0, 1e6], [99, 1]), 1.0, (-5e5, 1.5e6)),  # one row far away
        (np.zeros(50), 1.0, (-1e4, 1e4)),  # a box much wider than the modes
        (np.repeat([0.0, 0.4141, 0.7137], [96, 2, 2]), 1e-6, (-1.0, 2.0)),  # few rows in a mode
    ]:
        x = rows + lengthscale * rng.normal(size=len(rows))
        yield x, lengthscale, {"noise_variance": 0.1}, bounds, 0.25 * lengthscale
    # Rows on the corners, of which the upper one is not the sum of the sides of its regions.
    yield [-0.6, 0.3, 1.2], 1e-4, {"noise_variance": 0.01}, (-0.6, 1.2), 2.5e-5
    for lengthscale, noise_variance, alpha, high in [
        ([0.03, 3.0], 0.1, 3.0, [10.0, 10.0]),  # ridges
        (0.5, 0.1, 1.0, [3.0, 1000.0]),  # a long box
        (0.1, 1e-4, 200.0, [10.0, 10.0]),  # zero at the first nodes
        (0.01, 100.0, 1e-3, [10.0, 10.0]),  # nearly constant
    ]:
        x = np.array([[0.22, 0.1], [0.37, 0.52], [0.71, 0.8]]) * high
        every = np.multiply(lengthscale, min(0.5, 2.0 * np.sqrt(noise_variance / (1 + alpha))))
        options = {"noise_variance": noise_variance, "alpha": alpha}
        yield x, lengthscale, options, (np.zeros(2), np.array(high)), every


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("rows", "lengthscale", "options", "bounds", "every"), list(modes()))
def test_normalizers_of_narrow_modes_and_odd_boxes(rows, lengthscale, options, bounds, every):
    density = kernel_student_t(rows, SquaredExponential(lengthscale), **options)
    expected = by_panels(density, *(np.atleast_1d(end) for end in bounds), every)
    np.testing.assert_allclose(log_normalizer(density, bounds).value, expected, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("D", [1, 2])
def test_errors_are_at_most_their_estimates(D):
    """Samples of clusters of any width in boxes of any size; seeds are fixed."""
    for seed in range(20 // D):
        rng = np.random.default_rng(seed)
        clusters = rng.integers(1, 3) if D == 2 else rng.integers(1, 5)
        centers = 10.0 ** rng.uniform(-1.0, 1.0) * rng.uniform(-1.0, 1.0, size=(clusters, D))
        x = centers[rng.integers(clusters, size=15)] + 0.1 * rng.normal(size=(15, D))
        lengthscale, noise_variance = 10.0 ** rng.uniform([-1.0, -2.0], [0.0, 1.5])
        kernel = SquaredExponential(lengthscale)
        density = kernel_student_t(x, kernel, noise_variance=noise_variance)
        around = 10.0 ** rng.uniform(0.0, 2.0, size=(2, D))
        low, high = x.min(axis=0) - around[0], x.max(axis=0) + around[1]
        expected = by_panels(density, low, high, 0.5 * lengthscale)
        for tolerance in (1e-3, 1e-6):
            result = log_normalizer(density, (low, high), tolerance=tolerance)
            np.testing.assert_allclose(result.value, expected, atol=result.error, err_msg=f"{seed}")
            assert result.error <= tolerance


def test_integral_over_unbounded_columns_distant_from_zero():
    """Values of about 5000 in one column, which is unbounded."""
    rows = np.array([[5000.0, 0.2], [5400.0, -0.1], [4700.0, 0.4], [5200.0, 0.0]])
    density = kernel_student_t(rows, Polynomial(1, 1.0), alpha=4.0, noise_variance=100.0)
    low, high = np.array([-np.inf, -1.0]), np.array([np.inf, 2.0])
    nodes, log_weights = gauss_legendre(np.array([-2e4, -1.0]), np.array([3e4, 2.0]), 400)
    expected = np.log(np.sum(np.exp(density.log_density(nodes) + log_weights)))
    np.testing.assert_allclose(log_normalizer(density, (low, high)).value, expected, atol=1e-4)


@pytest.mark.parametrize(("kernel", "bounds"), CASES)
@pytest.mark.one_in(2)
def test_leave_one_out_log_densities(x, kernel, bounds):
    density = kernel_student_t(x, kernel, **PRIOR)
    scores = leave_one_out_log_densities(density, bounds, tolerance=1e-6)
    for n in (0, 4):
        without_row = kernel_student_t(np.delete(x, n), kernel, **PRIOR)
        expected = (
            without_row.log_density(x[n : n + 1])[0] - log_normalizer(without_row, bounds).value
        )
        np.testing.assert_allclose(scores[n], expected, atol=1e-6)
    subset = leave_one_out_log_densities(density, bounds, rows=[4, 0], tolerance=1e-6)
    np.testing.assert_allclose(subset, scores[[4, 0]], atol=1e-6)


@pytest.mark.parametrize(("kernel", "bounds"), CASES)
@pytest.mark.slow
def test_sequential_likelihood_is_a_product(x, kernel, bounds):
    low, high = np.array([-4.0]), np.array([5.0])
    nodes, log_weights = gauss_legendre(low, high, 400)
    value = log_sequential_likelihood(x, kernel, nodes, log_weights, **PRIOR)
    expected = 0.0
    for n in range(1, len(x)):
        before = kernel_student_t(x[:n], kernel, **PRIOR)
        expected += before.log_density(x[n : n + 1])[0]
        expected -= log_normalizer(before, (low, high)).value
    if bounds is not None:  # the first is uniform
        np.testing.assert_allclose(value, expected - np.log(9.0), atol=1e-5)
    else:  # (k(x, x) + c)^(-(1 + alpha)/2) times the volume element

        def first(t):
            s = (t**2 + 0.5) ** 2 + 0.1 * (1 + 1 / 0.7)
            return s ** (-1.75) * np.sqrt(1 + 4 * t**2)

        total = np.sum(first(nodes[:, 0]) * np.exp(log_weights))
        np.testing.assert_allclose(value, expected + np.log(first(x[0]) / total), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [SquaredExponential([0.6, 1.1]), Polynomial(3, 1.0)])
def test_hyvarinen_scores_by_differences(kernel):
    rows = np.random.default_rng(2).normal(size=(8, 2))
    density = kernel_student_t(rows, kernel, **PRIOR)
    scores = hyvarinen_scores(density)
    np.testing.assert_allclose(hyvarinen_scores(density, rows=[3]), scores[[3]], rtol=1e-10)
    step = 1e-4
    for n in (1, 6):
        without_row = kernel_student_t(np.delete(rows, n, axis=0), kernel, **PRIOR)
        expected = 0.0
        for e in step * np.eye(2):
            down, here, up = without_row.log_density(rows[n] + np.array([-e, 0 * e, e]))
            expected += (up - 2 * here + down) / step**2 + 0.5 * ((up - down) / (2 * step)) ** 2
        np.testing.assert_allclose(scores[n], expected, rtol=1e-5, atol=1e-5)
        at = hyvarinen_scores(without_row, rows[n : n + 1])
        np.testing.assert_allclose(at[0], scores[n], rtol=1e-9)


@pytest.mark.slow
def test_invalid_bounds_and_divergent_integrals(monkeypatch):
    x = np.array([0.0, 1.0, 3.0])
    smooth = kernel_student_t(x, SquaredExponential(1.0))
    with pytest.raises(ValueError, match="finite bounds"):
        log_normalizer(smooth)
    with pytest.raises(ValueError, match="leave out row 3"):
        log_normalizer(smooth, (-1.0, 2.0))
    with pytest.raises(ValueError, match="below the upper"):
        log_normalizer(smooth, (4.0, -4.0))
    with pytest.raises(ValueError, match="at both ends or at none"):
        log_normalizer(kernel_student_t(x, Polynomial(2)), (-1.0, np.inf))
    with pytest.raises(ValueError, match="bounds must be"):
        log_normalizer(smooth, ((-1.0, 2.0), (3.0, 4.0, 5.0)))
    with pytest.raises(ValueError, match="up to 2 columns"):
        log_normalizer(kernel_student_t(np.eye(3), SquaredExponential(1.0)), (-9.0, 9.0))
    # s grows like x^2, its power -(1 + N + alpha)/2 = -1.05 like x^-2.1 and the volume element not
    # at all: the integral over R^2 is infinite.
    limited = functools.partial(quadrature.integrate, max_points=300_000)
    monkeypatch.setattr(quadrature, "integrate", limited)
    plane = kernel_student_t([[0.0, 1.0]], Polynomial(1, 1.0), alpha=0.1)
    with pytest.raises(ArithmeticError, match="alpha is too small"):
        log_normalizer(plane)


def test_kernels_with_a_kink_have_no_hyvarinen_scores():
    density = kernel_student_t([0.0, 1.0, 3.0], Laplace(1.0))
    assert np.all(np.isfinite(density.log_density([0.5, 2.0])))
    with pytest.raises(ValueError, match="no derivative"):
        hyvarinen_scores(density)
