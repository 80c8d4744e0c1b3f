"""What is believed of a difference: the posterior of its scale and size, and draws of it.

The prior: a lengthscale that is Gamma(1, 1) in standard deviations of one column (of D columns
sqrt(D) times that, as distances are), and a variance s^2 whose logarithm is uniform. Both are on a
grid, where the labels' evidence is in closed form
(:mod:`bke.inference.statistics.label_bayes_factor`); given both, the difference is a Gaussian
process with as many coefficients as the kernel has eigenvalues, all independent.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from threading import Event

import numpy as np
from scipy.special import expit, logsumexp

from ..core.machine import side_by_side
from ..data.weighted import weighted_quantiles
from ..permutation.pooled_sample import PooledSample
from ..statistics.eigendecomposition import Eigendecomposition, decompose_kernel
from ..statistics.kernels import KernelFunction, choose_nodes, squared_exponential
from ..statistics.label_bayes_factor import label_log_bayes_factors

#: The grid: lengthscales in standard deviations of a column, and variances s^2.
LENGTHSCALES = np.geomspace(0.05, 5.0, 16)
VARIANCES = np.geomspace(1e-4, 1.0, 17)
#: Nodes of the kernel, of one column and of more.
LINE_NODES, NODES = 150, 300


@dataclasses.dataclass(frozen=True)
class Belief:
    """The posterior of a difference's lengthscale and variance, with what draws of it need.

    Attributes:
        lengthscales: (L,), in standard deviations of the columns.
        variances: (S,), s^2 of the standardised labels' mean.
        weights: (L, S), posterior probabilities.
        log_prior: (L, 1), of every lengthscale with any of the variances, nats.
        log_bayes_factor: of "they differ" against "they do not", nats.
        spectra: one per lengthscale.
        nodes: (k, D), of the spectra.
        share: of the first sample in all rows.
        values: those of the kernel.
    """

    lengthscales: np.ndarray
    variances: np.ndarray
    weights: np.ndarray
    log_prior: np.ndarray
    log_bayes_factor: float
    spectra: Sequence[Eigendecomposition]
    nodes: np.ndarray
    share: float
    values: KernelFunction

    @property
    def probability(self) -> float:
        """The posterior probability of a difference, with prior probability 1/2."""
        return float(expit(self.log_bayes_factor))

    def functions(self, index: int, points: np.ndarray) -> np.ndarray:
        """Evaluate the eigenfunctions of a lengthscale at ``points`` (m, D): (m, r)."""
        one = self.spectra[index]
        between = self.values(points, self.nodes, self.lengthscales[index])
        return np.asarray(between @ one.root @ one.rotation - one.mean)

    def lengthscale(self, *probabilities: float) -> np.ndarray:
        """Posterior quantiles of the difference's lengthscale, in standard deviations."""
        marginal = self.weights.sum(axis=1)
        return np.asarray(
            np.exp(weighted_quantiles(np.log(self.lengthscales)[:, None], marginal, probabilities))
        )[:, 0]

    def drawn(self, count: int, rng: np.random.Generator) -> Drawn:
        """Draw the difference h as a function, ``count`` times.

        p = f (1 + (1 - share) h) and q = f (1 - share h), with f the density of the pooled rows.
        """
        flat = rng.choice(self.weights.size, count, p=self.weights.ravel())
        lengthscale, variance = np.unravel_index(flat, self.weights.shape)
        parts = []
        for index in np.unique(lengthscale):
            mine = np.flatnonzero(lengthscale == index)
            parts.append((int(index), mine, self.coefficients(int(index), variance[mine], rng)))
        return Drawn(self, count, tuple(parts))

    def coefficients(
        self, index: int, variances: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Draw the coefficients of eigenfunctions, (k, r), at a lengthscale and (k,) variances.

        Both by their indices.
        """
        one, prior = self.spectra[index], self.variances[variances][:, None]
        left = prior / (1.0 + prior * one.eigenvalues)
        noise = np.sqrt(left) * rng.normal(size=left.shape)
        return np.asarray(left * one.loadings[:, 0] + noise)

    def difference(self, values: np.ndarray) -> np.ndarray:
        """Turn sums of eigenfunctions into h."""
        return values / math.sqrt(self.share * (1.0 - self.share))


@dataclasses.dataclass(frozen=True)
class Drawn:
    """Draws of the difference h, each a function of a place.

    Attributes:
        believed: whose draws they are.
        count: how many.
        parts: indices of lengthscales, which draws have each (k,), and their coefficients (k, r).
    """

    believed: Belief
    count: int
    parts: tuple[tuple[int, np.ndarray, np.ndarray], ...]

    def at(self, points: np.ndarray) -> np.ndarray:
        """Evaluate all draws at ``points`` (m, D), in standard deviations: (count, m)."""
        found = np.empty((self.count, len(points)))
        for index, mine, coefficients in self.parts:
            functions = self.believed.functions(index, points)
            found[mine] = self.believed.difference(coefficients @ functions.T)
        return found


def belief(rows: PooledSample, values: KernelFunction = squared_exponential) -> Belief:
    """The posterior of a difference given the labels as they are, by Gaussian labels.

    Args:
        rows: the pooled rows.
        values: of the difference's kernel; by default the squared exponential.
    """
    observed = rows.observed()
    dimension = rows.points.shape[1]
    at = choose_nodes(observed, LINE_NODES if dimension == 1 else NODES)
    lengthscales = LENGTHSCALES * math.sqrt(dimension)
    spectra = side_by_side(
        lambda index: decompose_kernel(observed, at, lengthscales[index], values),
        len(lengthscales),
        Event(),
    )
    prior = np.log(LENGTHSCALES) - LENGTHSCALES  # of the logarithm
    log_prior = (prior - logsumexp(prior) - math.log(len(VARIANCES)))[:, None]
    logs = np.array([label_log_bayes_factors(one, VARIANCES)[:, 0] for one in spectra])
    weights, total = weighed(log_prior + logs)
    return Belief(
        lengthscales,
        VARIANCES,
        weights,
        log_prior,
        total,
        spectra,
        at,
        observed.first_fraction,
        values,
    )


def weighed(logs: np.ndarray) -> tuple[np.ndarray, float]:
    """Posterior probabilities (L, S), and the log of what they sum to before."""
    total = float(logsumexp(logs))
    return np.exp(logs - total), total
