"""Posterior mass of the region of each cluster of chains, by bridge sampling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import multivariate_normal

from ..diagnostics.integral import Integral, bridge_sampling, normalize_integrals


class ClusterMass(NamedTuple):
    """Posterior mass of the region of a cluster of chains.

    Attributes:
        chains: labels of the chains.
        mass: proportion of the region in the mass of all regions.
        error: standard error of ``mass``.
        log_integral: log integral of the density over the region.
        log_integral_error: standard error of ``log_integral``.
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
    """Integrate a density over the region of each cluster.

    A normal distribution is fitted to the draws of each cluster. The region of a cluster is where
    its normal density is the largest. Draws outside the region of their own cluster are dropped.

    Args:
        draws: (C, n, D) unconstrained draws.
        log_density: function of points (k, D) that returns log densities (k,).
        clusters: indices of the chains of each cluster.
        labels: labels of all chains.
        seed: seed of bridge sampling.

    Returns:
        The mass of each cluster, and the integral over all regions.

    Raises:
        InputError: if a cluster has too few draws.
        SamplingError: if the estimate of bridge sampling is not finite.
    """
    normals = [_fit_normal(draws[list(cluster)]) for cluster in clusters]

    def region(points: np.ndarray) -> np.ndarray:
        flat = points.reshape(-1, points.shape[-1])
        densities = [
            np.asarray(normal.logpdf(flat)).reshape(points.shape[:-1]) for normal in normals
        ]
        return np.argmax(densities, axis=0)

    rng = np.random.default_rng([seed, 29])
    integrals = []
    for index, cluster in enumerate(clusters):
        cluster_draws = draws[list(cluster)]
        inside = (region(cluster_draws) == index).all(axis=0)

        def truncated(points: np.ndarray, index: int = index) -> np.ndarray:
            values = log_density(points)
            valid = (region(points) == index) & np.isfinite(values)
            return np.where(valid, values, -np.inf)

        name = f"the cluster of {', '.join(f'chain {labels[chain]}' for chain in cluster)}"
        integrals.append(bridge_sampling(cluster_draws[:, inside], truncated, rng, name))
    masses, errors, total = normalize_integrals(integrals)
    return tuple(
        ClusterMass(
            tuple(labels[chain] for chain in cluster),
            float(mass),
            float(error),
            integral.log,
            integral.error,
        )
        for cluster, mass, error, integral in zip(clusters, masses, errors, integrals, strict=True)
    ), total


def _fit_normal(draws: np.ndarray, relative_jitter: float = 1e-9) -> Any:
    """Return the normal distribution of SciPy with the mean and covariance of draws (C, n, D)."""
    rows = draws.reshape(-1, draws.shape[-1])
    covariance = np.atleast_2d(np.cov(rows, rowvar=False))
    covariance = covariance + relative_jitter * np.diag(np.diagonal(covariance))
    return multivariate_normal(rows.mean(axis=0), covariance, allow_singular=True)
