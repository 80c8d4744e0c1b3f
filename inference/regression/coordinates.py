"""Coordinates in which groups' embeddings and their sampling errors are independent.

With S the covariance of features within groups and R that of embeddings between them, one basis V
has V'SV = I and V'RV = diag(spread): the posterior of an embedding given its rows, a Gaussian
process that is conditioned on noisy values (Flaxman et al. 2016; Law et al. 2018, section 4.2), is
then one number in each coordinate.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .features import Means

#: Directions in which features hardly vary within groups, as a share of the largest variance.
NEGLIGIBLE = 1e-7
#: Coordinates that are kept, those of the largest spread.
MOST = 100


class Coordinates(NamedTuple):
    """The basis, and the prior of a group's embedding in it.

    Attributes:
        basis: V (m, q).
        centre: (q,), the mean of the embeddings.
        spread: (q,), their variances between groups, descending; within a group they are 1 over the
            number of rows.
    """

    basis: np.ndarray
    centre: np.ndarray
    spread: np.ndarray

    @classmethod
    def of(cls, means: Means) -> Coordinates:
        """Estimate the basis and the prior by moments.

        R is the weighted covariance of the groups' means less what sampling adds to it; directions
        in which nothing is left are left out.
        """
        variances, vectors = np.linalg.eigh(means.within)
        kept = variances > NEGLIGIBLE * variances[-1]
        white = vectors[:, kept] / np.sqrt(variances[kept])
        values = means.values @ white
        # Between equal weights, best where groups differ most, and rows, where they hardly do.
        weights = means.counts / (means.counts + np.median(means.counts))
        weights = weights / weights.sum()
        centre = weights @ values
        apart = values - centre
        sampling = np.sum(weights * (1.0 - weights) / means.counts)
        between = apart.T @ (weights[:, np.newaxis] * apart) - sampling * np.eye(len(centre))
        spread, turned = np.linalg.eigh(between / (1.0 - np.sum(weights**2)))
        order = np.argsort(-spread, kind="stable")[:MOST]
        order = order[spread[order] > 0.0]
        return cls(white @ turned[:, order], centre @ turned[:, order], spread[order])

    def empirical(self, means: np.ndarray) -> np.ndarray:
        """Where mean features (G, m) are, (G, q), from the centre."""
        return means @ self.basis - self.centre

    def posterior(self, means: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means (G, q) and variances (G, q) of the embeddings given their rows."""
        share = self.spread / (self.spread + 1.0 / counts[:, np.newaxis])
        return share * self.empirical(means), self.spread * (1.0 - share)
