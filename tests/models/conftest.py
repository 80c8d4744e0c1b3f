"""An independent twin of BKE (13): plain NumPy in extended precision, formulas from the design."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import numpy as np
import pytest


def twin(X, lengthscale, noise_variance=0.1, measure="unit"):
    """log N(mu_hat; 0, R + sigma^2 I) and log gamma (n,) for the squared exponential kernel.

    ``measure`` is "unit", "lebesgue" or (eta, center), the Gaussian exp(-|u - center|^2 / 2 eta^2).
    """
    X = np.asarray(X, dtype=np.longdouble)
    X = X[:, None] if X.ndim == 1 else X
    n, D = X.shape
    ell = np.broadcast_to(np.asarray(lengthscale, dtype=np.longdouble), (D,))
    mu_hat, log_gamma = np.empty(n, np.longdouble), np.empty(n, np.longdouble)
    R = np.empty((n, n), np.longdouble)
    for i in range(n):
        delta = X - X[i]
        log_k = -0.5 * np.sum((delta / ell) ** 2, axis=1)
        mu_hat[i] = np.mean(np.exp(log_k))
        R[i] = smoothed(X[i], X, ell, measure)
        other = np.any(delta != 0, axis=1)
        largest = np.max(log_k[other])
        pull = np.exp(log_k[other] - largest)[:, None] * delta[other] / ell**2
        log_gamma[i] = largest - np.log(n) + 0.5 * np.log(np.sum(np.sum(pull, axis=0) ** 2))
    return float(log_normal(mu_hat, R + noise_variance * np.eye(n))), log_gamma.astype(float)


def smoothed(x, Y, ell, measure):
    """r(x, y) for every row y of ``Y``, from section 1 of the design."""
    D, pi = len(ell), np.longdouble(np.pi)
    fall = np.exp(-0.25 * np.sum((Y - x) ** 2 / ell**2, axis=1))
    if measure == "unit":
        return fall
    if measure == "lebesgue":
        return pi ** (np.longdouble(D) / 2) * np.prod(ell) * fall
    eta, center = (np.asarray(part, dtype=np.longdouble) for part in measure)
    m = (x + Y) / 2 - center
    determinant = np.prod(2 / ell**2 + np.broadcast_to(eta, (D,)) ** -2)
    drop = np.exp(-0.5 * np.sum(m**2 / (ell**2 / 2 + eta**2), axis=1))
    return (2 * pi) ** (np.longdouble(D) / 2) / np.sqrt(determinant) * fall * drop


def log_normal(y, covariance):
    """Log density of N(0, covariance) at ``y``; NumPy has no Cholesky in extended precision."""
    n = len(y)
    L, white = np.zeros_like(covariance), np.zeros_like(y)
    for i in range(n):
        L[i, i] = np.sqrt(covariance[i, i] - np.sum(L[i, :i] ** 2))
        L[i + 1 :, i] = (covariance[i + 1 :, i] - L[i + 1 :, :i] @ L[i, :i]) / L[i, i]
        white[i] = (y[i] - np.sum(L[i, :i] * white[:i])) / L[i, i]
    log_determinant = 2 * np.sum(np.log(np.diagonal(L)))
    return -0.5 * (np.sum(white**2) + log_determinant + n * np.log(2 * np.longdouble(np.pi)))


@pytest.fixture(scope="session", name="twin")
def twin_fixture():
    """The function itself, since test modules cannot import each other."""
    return twin


@pytest.fixture(scope="session", name="log_normal")
def log_normal_fixture():
    """Likewise."""
    return log_normal


@pytest.fixture
def x64() -> Iterator[None]:
    """Double precision within a test."""
    with jax.enable_x64(True):
        yield
