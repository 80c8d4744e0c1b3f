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


def se_kernel(D):
    return bk.SquaredExponential(LENGTHSCALE[:D])


def full_kernel(D):
    return bk.FullSquaredExponential((ROOT @ ROOT.T)[:D, :D])


def laplace_kernel(D):
    return bk.Laplace(LENGTHSCALE[:D])


def spectral_kernel(D):
    return bk.SpectralMixture(SPREAD[:, :D], FREQUENCY[:, :D], np.array([0.4, 0.9]))


CASES = [
    Case("squared exponential", se_kernel, se, True),
    Case("full covariance", full_kernel, full, True),
    Case("Gaussian mixture", lambda D: bk.GaussianMixture([0.5, 2.0], [0.3, 1.1]), mixture, True),
    Case("spectral mixture", spectral_kernel, spectral, True),
    *(
        Case(f"Matern {nu}", lambda D, nu=nu: bk.Matern(nu, LENGTHSCALE[:D]), matern(nu))
        for nu in (0.5, 1.5, 2.5)
    ),
    Case("Laplace", laplace_kernel, laplace),
    Case(
        "rational quadratic",
        lambda D: bk.RationalQuadratic(1.7, LENGTHSCALE[:D]),
        lambda d: (1 + squared(d) / (2 * 1.7)) ** -1.7,
    ),
    Case("scaled", lambda D: 2.5 * laplace_kernel(D), lambda d: 2.5 * laplace(d)),
    Case(
        "sum",
        lambda D: se_kernel(D) + bk.Matern(1.5, LENGTHSCALE[:D]),
        lambda d: se(d) + matern(1.5)(d),
    ),
    Case("product", lambda D: laplace_kernel(D) * full_kernel(D), lambda d: laplace(d) * full(d)),
    Case(
        "product of Laplace",
        lambda D: laplace_kernel(D) * (0.6 * bk.Laplace(1.9)),
        lambda d: 0.6 * laplace(d) * np.exp(-np.abs(d).sum(-1) / 1.9),
    ),
    Case(
        "Gaussian sum",
        lambda D: 0.7 * full_kernel(D) + spectral_kernel(D),
        lambda d: 0.7 * full(d) + spectral(d),
        True,
    ),
    Case(
        "Gaussian product",
        lambda D: spectral_kernel(D) * (full_kernel(D) + 0.5 * spectral_kernel(D)),
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
