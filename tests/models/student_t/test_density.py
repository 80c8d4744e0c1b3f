"""The kernel Student-t density against explicit features and against densities of other rows."""

from __future__ import annotations

import functools

import jax
import numpy as np
import pytest
from bke.models import (
    Dirac,
    Distance,
    Laplace,
    Polynomial,
    Scaled,
    SquaredExponential,
    kernel_student_t,
    log_volume_element,
)
from bke.models.linalg.rows import padded
from scipy.stats import multivariate_t

PRIOR = {"noise_variance": 0.3, "alpha": 7.5, "beta": 0.7}


def features(x, c=0.5):
    """Return the features (n, 6) of (<x, y> + c)^2 at points (n, 2)."""
    a, b = x.T
    return np.stack(
        [a**2, b**2, np.sqrt(2) * a * b, np.sqrt(2 * c) * a, np.sqrt(2 * c) * b, c + 0 * a], axis=1
    )


@pytest.fixture
def rows():
    return np.random.default_rng(0).normal(0.4, 1.0, size=(9, 2))


def test_is_the_normal_inverse_wishart_predictive(rows):
    at = np.random.default_rng(1).normal(size=(7, 2))
    kernel = Polynomial(2, 0.5)
    phi, D, N = features(rows), 6, len(rows)
    np.testing.assert_allclose(kernel(rows), phi @ phi.T, rtol=1e-12)
    s2, alpha, beta = PRIOR.values()
    mean = phi.sum(axis=0) / (N + beta)
    scatter = s2 * np.eye(D) + phi.T @ phi - (N + beta) * np.outer(mean, mean)
    df = alpha + N - D + 1
    exact = multivariate_t(mean, scatter * (N + beta + 1) / ((N + beta) * df), df)
    density = kernel_student_t(rows, kernel, **PRIOR)
    without_volume = density.log_density(at) - log_volume_element(at, kernel)
    constants = without_volume - exact.logpdf(features(at))
    np.testing.assert_allclose(constants, constants[0], atol=1e-11)
    assert np.ptp(exact.logpdf(features(at))) > 3.0


def test_is_the_corrected_formula_of_the_paper(rows):
    """KST (4) and (5) with features that are not centered."""
    at = np.random.default_rng(1).normal(size=(7, 2))
    kernel = SquaredExponential([0.8, 1.3])
    s2, alpha, beta = PRIOR.values()
    N, gram, across = len(rows), np.asarray(kernel(rows)), np.asarray(kernel(at, rows))
    squared = 1.0 - 2.0 * across.sum(axis=1) / (N + beta) + gram.sum() / (N + beta) ** 2
    v = across - gram.sum(axis=0) / (N + beta)
    inner = gram + s2 * (np.eye(N) + 1.0 / beta)
    gamma = (1.0 + beta + N) / (beta + N)
    bracket = gamma + (squared - np.sum(v * np.linalg.solve(inner, v.T).T, axis=1)) / s2
    density = kernel_student_t(rows, kernel, **PRIOR)
    np.testing.assert_allclose(density.variance(at) / s2, bracket, rtol=1e-10)
    expected = -0.5 * (1 + N + alpha) * np.log(bracket)
    np.testing.assert_allclose(density.log_density(at), expected, rtol=1e-10)


def test_padding_does_not_change_the_density(rows):
    kernel = SquaredExponential(0.9)
    at = rows + 0.1
    plain = kernel_student_t(rows, kernel, **PRIOR)
    with_padding = kernel_student_t(padded(rows, 16), kernel, **PRIOR)
    np.testing.assert_allclose(with_padding.log_density(at), plain.log_density(at), rtol=1e-12)


@pytest.mark.parametrize("kernel", [SquaredExponential(0.9), Polynomial(2, 0.5)])
def test_leave_one_out_values(rows, kernel):
    density = kernel_student_t(rows, kernel, **PRIOR)
    for n in (0, 5):
        without_row = kernel_student_t(np.delete(rows, n, axis=0), kernel, **PRIOR)
        np.testing.assert_allclose(
            density.leave_one_out_variance()[n], without_row.variance(rows[n : n + 1])[0]
        )
        np.testing.assert_allclose(
            density.leave_one_out_log_density(1)[n], without_row.log_density(rows[n : n + 1])[0]
        )


def test_blocks_do_not_change_values(rows, monkeypatch):
    from bke.models.student_t import density as module

    density = kernel_student_t(rows, SquaredExponential(0.9))
    at = np.random.default_rng(2).normal(size=(25, 2))
    expected = density.log_density(at)
    small_blocks = functools.partial(module._in_blocks, max_entries=9 * 4)
    monkeypatch.setattr(module, "_in_blocks", small_blocks)
    np.testing.assert_allclose(density.log_density(at), expected, rtol=1e-13)


def test_variance_near_rows_is_at_least_the_noise():
    x = np.linspace(0.0, 1.0, 40)
    density = kernel_student_t(x, SquaredExponential(1.0), noise_variance=1e-9)
    assert np.all(density.variance(x) >= 1e-9)
    assert np.all(np.isfinite(density.log_density(x)))


def test_volume_element_of_explicit_features(rows):
    kernel = Polynomial(2, 0.5)
    step = 1e-6
    tangents = np.stack(
        [(features(rows + step * e) - features(rows - step * e)) / (2 * step) for e in np.eye(2)],
        axis=2,
    )
    metric = np.einsum("nfi,nfj->nij", tangents, tangents)
    values = log_volume_element(rows, kernel)
    np.testing.assert_allclose(values, 0.5 * np.linalg.slogdet(metric)[1], atol=1e-8)


def test_volume_element_of_kernels_of_a_difference_is_constant(rows):
    kernel = 2.0 * SquaredExponential([0.5, 3.0])
    np.testing.assert_allclose(log_volume_element(rows, kernel), np.log(2.0 / 1.5), rtol=1e-12)
    assert kernel.translation_invariant
    assert (kernel + Laplace(1.0)).translation_invariant
    assert (kernel * Laplace(1.0)).translation_invariant
    assert not Polynomial(2).translation_invariant


def test_density_is_zero_where_features_have_no_derivative():
    density = kernel_student_t([1.0, -0.5], Polynomial(2, 0.0))
    assert density.log_density([0.0])[0] == -np.inf
    assert np.isfinite(density.log_density([0.1])[0])


def test_gradients_in_points_and_hyperparameters(rows):
    with jax.enable_x64(True):

        @jax.jit
        def value(theta, x):
            density = kernel_student_t(
                rows,
                SquaredExponential(theta[0]),
                noise_variance=theta[1],
                alpha=2.0,
                beta=theta[2],
            )
            return density.log_density(x[None])[0]

        theta, x = np.array([0.8, 0.2, 0.5]), np.array([0.3, -0.2])
        for argument in (0, 1):
            exact = jax.grad(value, argnums=argument)(theta, x)
            for d in range(len(exact)):
                e = 1e-6 * np.eye(len(exact))[d]
                up, down = (
                    value(theta + s * e, x) if argument == 0 else value(theta, x + s * e)
                    for s in (1, -1)
                )
                np.testing.assert_allclose(exact[d], (up - down) / 2e-6, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"noise_variance": 0.0}, "noise_variance must be positive"),
        ({"alpha": -1.0}, "alpha must be positive"),
        ({"beta": np.nan}, "beta must be positive"),
        ({"beta": "many"}, "beta must be"),
        ({"alpha": np.array([1.0, 2.0])}, "alpha must be one number"),
    ],
)
def test_invalid_hyperparameters(rows, change, message):
    with pytest.raises(ValueError, match=message):
        kernel_student_t(rows, SquaredExponential(1.0), **change)


def test_invalid_rows_and_kernels(rows):
    with pytest.raises(ValueError, match="at least 1 row"):
        kernel_student_t(np.empty((0, 2)), SquaredExponential(1.0))
    with pytest.raises(ValueError, match="not finite in row 2"):
        kernel_student_t([0.0, np.nan], SquaredExponential(1.0))
    with pytest.raises(ValueError, match="must be a kernel"):
        kernel_student_t(rows, "median")
    for kernel in (Distance(1.0), Dirac()):
        with pytest.raises(ValueError, match="no derivative"):
            kernel_student_t(rows, kernel)
    with pytest.raises(ValueError, match="2 columns but at has 3"):
        kernel_student_t(rows, SquaredExponential(1.0)).log_density(np.zeros((4, 3)))
    with pytest.raises(ValueError, match=r"one point is of shape \(1, 2\)"):
        kernel_student_t(rows, SquaredExponential(1.0)).log_density([0.0, 1.0])
    with pytest.raises(ValueError, match="not finite"):
        kernel_student_t(rows, SquaredExponential(1.0)).log_density([[0.0, np.inf]])
    with pytest.raises(ArithmeticError, match="singular to rounding"):
        kernel_student_t(np.zeros(30), Scaled(SquaredExponential(1.0), 1e9), noise_variance=1e-12)
