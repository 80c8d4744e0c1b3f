"""Clusters of chains that disagree: their posterior masses, and whether only labels are switched.

The mass of the region of a cluster is estimated by bridge sampling. Labels are switched if clusters
agree after a permutation or sign change of components.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import multivariate_normal

from ..diagnostics.integral import Integral, bridge_sampling, normalize_integrals

#: Quantiles by which distributions are compared.
PROBABILITIES = (0.1, 0.5, 0.9)
#: Largest difference of quantiles, in standard deviations, of groups that agree, and smallest one
#: of groups that do not. Between them nothing is said. Neither is tuned.
TOLERANCE, MIN_DIFFERENCE = 0.5, 1.0
#: Name of a component of an array or of a numbered parameter, such as ``mu[2]`` or ``mu2``.
COMPONENT = re.compile(r"(.+?)(?:\[(\d+)\]|(\d+))$")


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
    its normal density is the largest. Draws outside the region of their cluster are dropped.

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


def label_switching_notes(
    values: np.ndarray,
    clusters: Sequence[Sequence[int]],
    names: Sequence[str],
    labels: Sequence[int | str],
) -> list[str]:
    """Return notes on clusters of chains that agree with the largest one after such a change.

    Signs of parameters are reversed, or the components of all arrays of one length are permuted
    together, as the components of a mixture. Chains of a posterior with such a symmetry are in
    equivalent modes.

    Args:
        values: (C, n, D) draws.
        clusters: indices of the chains of each cluster, largest cluster first.
        names: names of the D parameters.
        labels: labels of the C chains.

    Returns:
        One note for each cluster that agrees with the first one only after that.
    """
    # Standard deviations in the largest cluster: those of others after the change are the same.
    scale = values[list(clusters[0])].std(axis=1).mean(axis=0)
    scale = np.where(scale > 0.0, scale, values.std(axis=(0, 1)))
    quantiles = [
        np.quantile(values[list(cluster)].reshape(-1, len(names)), PROBABILITIES, axis=0)
        for cluster in clusters
    ]
    notes = []
    for cluster, other in zip(clusters[1:], quantiles[1:], strict=True):
        if (np.abs(other - quantiles[0]) / scale).max() < MIN_DIFFERENCE:
            continue
        changes = [
            find(quantiles[0], other, scale, names) for find in (_sign_changes, _permutation)
        ]
        if change := ", or after ".join(filter(None, changes)):
            chains, reference = (
                f"chain{'s' * (len(group) > 1)} {', '.join(str(labels[chain]) for chain in group)}"
                for group in (cluster, clusters[0])
            )
            verb = "agree" if len(cluster) > 1 else "agrees"
            notes.append(
                f"label switching: {chains} {verb} with {reference} after {change}; apply it to "
                "the draws before pooling them"
            )
    return notes


def _arrays(names: Sequence[str]) -> dict[str, list[int]]:
    """Return the columns of the components of every array, in order, by the name of the array.

    Parameters whose names differ only by a number at the end are an array too.
    """
    arrays: dict[str, dict[int, int]] = {}
    for column, name in enumerate(names):
        if match := COMPONENT.match(name):
            arrays.setdefault(match[1], {})[int(match[2] or match[3])] = column
    return {name: [columns[index] for index in sorted(columns)] for name, columns in arrays.items()}


def _sign_changes(
    first: np.ndarray, second: np.ndarray, scale: np.ndarray, names: Sequence[str]
) -> str:
    """Describe the parameters whose signs must be reversed for quantiles (Q, D) to agree."""
    as_is = np.abs(second - first).max(axis=0) / scale
    reversed_ = np.abs(-second[::-1] - first).max(axis=0) / scale
    changed = (as_is >= TOLERANCE) & (reversed_ < TOLERANCE)
    if not changed.any() or (np.minimum(as_is, reversed_) >= TOLERANCE).any():
        return ""
    return (
        f"a change of sign of {_listed([names[int(column)] for column in np.flatnonzero(changed)])}"
    )


def _permutation(
    first: np.ndarray, second: np.ndarray, scale: np.ndarray, names: Sequence[str]
) -> str:
    """Describe the arrays whose components must be permuted for quantiles (Q, D) to agree."""
    from scipy.optimize import linear_sum_assignment  # slow to import

    arrays = _arrays(names)
    aligned, permuted = second.copy(), []
    for length in {len(columns) for columns in arrays.values()}:
        members = [name for name, columns in arrays.items() if len(columns) == length]
        columns = np.array([arrays[name] for name in members])
        # (K, arrays * Q): all arrays have the same components, as means and spreads of a mixture.
        target, source, unit = (
            part[:, columns].transpose(2, 1, 0).reshape(length, -1)
            for part in (first, second, np.broadcast_to(scale, first.shape))
        )
        cost = (np.abs(target[:, None] - source) / unit[:, None]).max(axis=2)
        order = linear_sum_assignment(cost)[1]
        if (order != np.arange(length)).any():
            aligned[:, columns] = second[:, columns[:, order]]
            permuted += members
    if not permuted or (np.abs(aligned - first) / scale).max() >= TOLERANCE:
        return ""
    return f"a permutation of the components of {_listed(permuted)}"


def _listed(names: Sequence[str], most: int = 5) -> str:
    return ", ".join(map(repr, names[:most])) + ", ..." * (len(names) > most)
