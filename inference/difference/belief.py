"""What is believed of a difference: the posterior of its scale and size, and draws of it.

The prior: a lengthscale that is Gamma(1, 1) in standard deviations of one column (of D columns
sqrt(D) times that, as distances are), and a variance s^2 whose logarithm is uniform. Both are on a
grid, where the labels' evidence is in closed form (:mod:`.evidence`); given both, the difference is
a Gaussian process with as many coefficients as the kernel has eigenvalues, all independent.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from threading import Event

import numpy as np
from scipy.special import expit, logsumexp
from scipy.stats import gamma

from ..data.weighted import weighted_quantiles
from ..runtime.machine import side_by_side
from .evidence import log_bayes_factors
from .relabelled import Relabelled
from .spectrum import Spectrum, kernel, nodes, spectrum

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
    """

    lengthscales: np.ndarray
    variances: np.ndarray
    weights: np.ndarray
    log_prior: np.ndarray
    log_bayes_factor: float
    spectra: Sequence[Spectrum]
    nodes: np.ndarray
    share: float

    @property
    def probability(self) -> float:
        """The posterior probability of a difference, with prior probability 1/2."""
        return float(expit(self.log_bayes_factor))

    def lengthscale(self, *probabilities: float) -> np.ndarray:
        """Posterior quantiles of the difference's lengthscale, in standard deviations."""
        marginal = self.weights.sum(axis=1)
        return np.asarray(
            np.exp(weighted_quantiles(np.log(self.lengthscales)[:, None], marginal, probabilities))
        )[:, 0]

    def draws(self, points: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
        """Draw h jointly at ``points`` (m, D), in standard deviations of the columns.

        p = f (1 + (1 - share) h) and q = f (1 - share h), with f the density of the pooled rows.

        Returns:
            (count, m).
        """
        found = np.empty((count, len(points)))
        for index, mine, coefficients in self.coefficients(count, rng):
            one = self.spectra[index]
            between = kernel(points, self.nodes, self.lengthscales[index])
            found[mine] = coefficients @ (between @ one.root @ one.turn - one.mean).T
        return found

    def coefficients(
        self, count: int, rng: np.random.Generator
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Draw h as a sum of eigenfunctions.

        Yields:
            The index of a lengthscale, which of the ``count`` draws have it (k,), and the
            coefficients (k, r) of its eigenfunctions.
        """
        flat = rng.choice(self.weights.size, count, p=self.weights.ravel())
        lengthscale, variance = np.unravel_index(flat, self.weights.shape)
        deviation = math.sqrt(self.share * (1.0 - self.share))
        for index in np.unique(lengthscale):
            one = self.spectra[index]
            mine = np.flatnonzero(lengthscale == index)
            prior = self.variances[variance[mine]][:, None]
            left = prior / (1.0 + prior * one.values)
            noise = np.sqrt(left) * rng.normal(size=left.shape)
            yield int(index), mine, (left * one.loadings[:, 0] + noise) / deviation


def belief(rows: Relabelled) -> Belief:
    """The posterior of a difference given the labels as they are."""
    observed = rows.observed()
    dimension = rows.points.shape[1]
    at = nodes(observed, LINE_NODES if dimension == 1 else NODES)
    lengthscales = LENGTHSCALES * math.sqrt(dimension)
    spectra = side_by_side(
        lambda index: spectrum(observed, at, lengthscales[index]), len(lengthscales), Event()
    )
    prior = gamma(1.0).logpdf(LENGTHSCALES) + np.log(LENGTHSCALES)  # of the logarithm
    log_prior = (prior - logsumexp(prior) - math.log(len(VARIANCES)))[:, None]
    logs = log_prior + [log_bayes_factors(one, VARIANCES)[:, 0] for one in spectra]
    total = float(logsumexp(logs))
    return Belief(
        lengthscales,
        VARIANCES,
        np.exp(logs - total),
        log_prior,
        total,
        spectra,
        at,
        observed.share,
    )
