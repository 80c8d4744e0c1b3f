"""What of a posterior's mass each cluster of chains has gone through, by bridge sampling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import multivariate_normal

from ..diagnostics.integral import (
    Integral,
    bridge_sampling,
    normalize_integrals,
)

#: Added to the diagonal of covariances by which clusters are parted, as a share of it.
JITTER = 1e-9


class ClusterMass(NamedTuple):
    """The mass of a cluster of chains.

    Attributes:
        chains: their labels.
        mass: what its region has of the mass of all clusters' regions.
        error: standard error of ``mass``.
        log_integral: of the density over its region.
        log_integral_error: its standard error.
    """

    chains: tuple[int | str, ...]
    mass: float
    error: float
    log_integral: float
    log_integral_error: float


def cluster_masses(
    draws: np.ndarray,
    log_density: Callable[[np.ndarray], np.ndarray],
    clusters: Sequence[Sequence[int]],
    labels: Sequence[int | str],
    seed: int,
) -> tuple[tuple[ClusterMass, ...], Integral]:
    """Integrate a density over each cluster's region: masses, and the integral over all.

    Regions part the space: a point is of the cluster whose normal distribution, fitted to its
    draws, has the largest density there. Draws of a cluster in another's region count for neither.

    Args:
        draws: (C, n, D), where nothing is constrained.
        log_density: of points (k, D), (k,).
        clusters: indices of chains.
        labels: of the chains.
        seed: of the bridges' other draws.

    Raises:
        InputError: a cluster has too few draws.
        SamplingError: the bridge gives no number.
    """
    fitted = [_normal(draws[list(some)]) for some in clusters]

    def region(points: np.ndarray) -> np.ndarray:
        flat = points.reshape(-1, points.shape[-1])
        densities = [np.asarray(one.logpdf(flat)).reshape(points.shape[:-1]) for one in fitted]
        return np.argmax(densities, axis=0)

    rng = np.random.default_rng([seed, 29])
    integrals = []
    for index, some in enumerate(clusters):
        of_cluster = draws[list(some)]
        inside = (region(of_cluster) == index).all(axis=0)

        def within(points: np.ndarray, index: int = index) -> np.ndarray:
            values = log_density(points)
            held = (region(points) == index) & np.isfinite(values)
            return np.where(held, values, -np.inf)

        name = f"the cluster of {', '.join(f'chain {labels[one]}' for one in some)}"
        integrals.append(bridge_sampling(of_cluster[:, inside], within, rng, name))
    mass, error, of_all = normalize_integrals(integrals)
    told = tuple(
        ClusterMass(
            tuple(labels[one] for one in some), float(m), float(e), integral.log, integral.error
        )
        for some, m, e, integral in zip(clusters, mass, error, integrals, strict=True)
    )
    return told, of_all


def _normal(draws: np.ndarray) -> Any:
    """The normal distribution of SciPy with the draws' mean and covariance."""
    rows = draws.reshape(-1, draws.shape[-1])
    covariance = np.atleast_2d(np.cov(rows, rowvar=False))
    covariance = covariance + JITTER * np.diag(np.diagonal(covariance))
    return multivariate_normal(rows.mean(axis=0), covariance, allow_singular=True)
