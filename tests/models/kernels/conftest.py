"""Every kernel with the same function written in plain NumPy."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import bke.models as bk
import numpy as np
import pytest

LENGTHSCALE = np.array([0.7, 1.3, 0.4])
FREQUENCY = np.array([[0.3, -0.2, 0.5], [0.8, 0.4, 0.1]])
SPREAD = np.array([[0.5, 0.9, 0.6], [1.1, 0.4, 1.2]])
ROOT = np.array([[0.9, 0.0, 0.0], [0.5, 0.7, 0.0], [-0.2, 0.3, 0.6]])


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    kernel: Callable[[int], bk.Kernel]
    formula: Callable[[np.ndarray], np.ndarray]  # of differences (..., D)
    gaussian: bool = False  # a sum of Gaussian components


def squared(delta: np.ndarray) -> np.ndarray:
    """sum_d delta_d^2 / lengthscale_d^2."""
    return ((delta / LENGTHSCALE[: delta.shape[-1]]) ** 2).sum(-1)


def se(delta):
    return np.exp(-0.5 * squared(delta))


def full(delta):
    D = delta.shape[-1]
    precision = np.linalg.inv((ROOT @ ROOT.T)[:D, :D])
    return np.exp(-0.5 * np.einsum("...i,ij,...j->...", delta, precision, delta))


def mixture(delta):
    r2 = (delta**2).sum(-1)
    return 0.3 * np.exp(-r2 / (2 * 0.5**2)) + 1.1 * np.exp(-r2 / (2 * 2.0**2))


def spectral(delta):
    D = delta.shape[-1]
    total = 0.0
    for q, weight in enumerate([0.4, 0.9]):
        envelope = np.exp(-0.5 * ((delta / SPREAD[q, :D]) ** 2).sum(-1))
        total = total + weight * envelope * np.cos(2 * np.pi * (delta @ FREQUENCY[q, :D]))
    return total


def matern(nu):
    def formula(delta):
        t = np.sqrt(2 * nu * squared(delta))
        polynomial = {0.5: 1.0 + 0 * t, 1.5: 1 + t, 2.5: 1 + t + t**2 / 3}[nu]
        return polynomial * np.exp(-t)

    return formula


def laplace(delta):
    return np.exp(-(np.abs(delta) / LENGTHSCALE[: delta.shape[-1]]).sum(-1))


def rational_quadratic(delta):
    return (1 + squared(delta) / (2 * 1.7)) ** -1.7


def make_se(D):
    return bk.SquaredExponential(LENGTHSCALE[:D])


def make_full(D):
    return bk.FullSquaredExponential((ROOT @ ROOT.T)[:D, :D])


def make_mixture(D):
    return bk.GaussianMixture([0.5, 2.0], [0.3, 1.1])


def make_spectral(D):
    return bk.SpectralMixture(SPREAD[:, :D], FREQUENCY[:, :D], np.array([0.4, 0.9]))


def make_matern(nu):
    return lambda D: bk.Matern(nu, LENGTHSCALE[:D])


def make_laplace(D):
    return bk.Laplace(LENGTHSCALE[:D])


def make_rational_quadratic(D):
    return bk.RationalQuadratic(1.7, LENGTHSCALE[:D])


CASES = [
    Case("squared exponential", make_se, se, True),
    Case("full covariance", make_full, full, True),
    Case("Gaussian mixture", make_mixture, mixture, True),
    Case("spectral mixture", make_spectral, spectral, True),
    Case("Matern 1/2", make_matern(0.5), matern(0.5)),
    Case("Matern 3/2", make_matern(1.5), matern(1.5)),
    Case("Matern 5/2", make_matern(2.5), matern(2.5)),
    Case("Laplace", make_laplace, laplace),
    Case("rational quadratic", make_rational_quadratic, rational_quadratic),
    Case("scaled", lambda D: 2.5 * make_laplace(D), lambda d: 2.5 * laplace(d)),
    Case("sum", lambda D: make_se(D) + make_matern(1.5)(D), lambda d: se(d) + matern(1.5)(d)),
    Case("product", lambda D: make_laplace(D) * make_full(D), lambda d: laplace(d) * full(d)),
    Case(
        "product of Laplace",
        lambda D: make_laplace(D) * (0.6 * bk.Laplace(1.9)),
        lambda d: 0.6 * laplace(d) * np.exp(-np.abs(d).sum(-1) / 1.9),
    ),
    Case(
        "Gaussian sum",
        lambda D: 0.7 * make_full(D) + make_spectral(D),
        lambda d: 0.7 * full(d) + spectral(d),
        True,
    ),
    Case(
        "Gaussian product",
        lambda D: make_spectral(D) * (make_full(D) + 0.5 * make_spectral(D)),
        lambda d: spectral(d) * (full(d) + 0.5 * spectral(d)),
        True,
    ),
]
SMOOTHABLE = [case for case in CASES if case.name not in ("sum", "product")]


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def case(request: Any) -> Case:
    return request.param


@pytest.fixture(params=SMOOTHABLE, ids=lambda case: case.name)
def smoothable(request: Any) -> Case:
    return request.param


@pytest.fixture(params=[c for c in CASES if c.gaussian], ids=lambda case: case.name)
def gaussian_case(request: Any) -> Case:
    return request.param


@pytest.fixture(params=[1, 2, 3], ids=lambda D: f"D={D}")
def dimension(request: Any) -> int:
    return request.param


@pytest.fixture
def points(dimension: int) -> tuple[np.ndarray, np.ndarray]:
    """Asymmetric random points, (6, D) twice, seed 3."""
    rng = np.random.default_rng(3)
    return rng.gamma(1.5, size=(6, dimension)), rng.normal(0.4, 1.1, size=(6, dimension))
