"""Coordinates in which groups' embeddings and their sampling errors are independent.

With S the covariance of features within groups and R that of embeddings between them, one basis V
has V'SV = I and V'RV = diag(spread): the posterior of an embedding given its rows, a Gaussian
process that is conditioned on noisy values (Flaxman et al. 2016; Law et al. 2018, section 4.2), is
then one number in each coordinate.

To S a share of its largest variance is added in all directions, as if rows had so much noise of
their own. Otherwise directions in which features hardly vary, of which the data tell next to
nothing, would have values as large as all others, and those of groups apart from the rest would go
beyond all bounds. How much is added is learned with the regression.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .features import Means

#: Directions that are left out where features vary less in them, as a share of most variance.
NEGLIGIBLE = 1e-12
#: Variance within groups that is taken for none, as a share of all variance of their means.
CONSTANT = 1e-6
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
    def of(cls, means: Means, share: float = 0.0) -> Coordinates:
        """Estimate the basis and the prior by moments.

        R is the weighted covariance of the groups' means less what sampling adds to it; directions
        in which nothing is left are left out.

        Args:
            means: of the groups.
            share: of the largest variance within groups, which is added to all.
        """
        most = max(means.variances[-1], CONSTANT * float(means.values.var(axis=0).sum()))
        variances = np.maximum(means.variances, 0.0) + share * most
        kept = variances > NEGLIGIBLE * most
        if not kept.any():
            return cls(np.zeros((len(variances), 0)), np.zeros(0), np.zeros(0))
        white = means.directions[:, kept] / np.sqrt(variances[kept])
        values = means.values @ white
        # Between equal weights, best where groups differ most, and rows, where they hardly do.
        weights = means.counts / (means.counts + np.median(means.counts))
        weights = weights / weights.sum()
        centre = weights @ values
        sampling = np.sum(weights * (1.0 - weights) / means.counts)
        squares, turned = _directions(np.sqrt(weights)[:, np.newaxis] * (values - centre))
        spread = (squares - sampling) / (1.0 - np.sum(weights**2))
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

    def embedded(self, means: Means, shrinkage: bool) -> tuple[np.ndarray, np.ndarray]:
        """Where embeddings are (G, q) and their variances (G, q), none without shrinkage."""
        if shrinkage:
            return self.posterior(means.values, means.counts)
        centre = self.empirical(means.values)
        return centre, np.zeros_like(centre)


def _directions(apart: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Squares (r,) of the singular values of ``apart`` (G, q), and their directions (q, r).

    r = min(G, q), by the smaller of two products: there may be many more features than groups.
    """
    groups, count = apart.shape
    if count <= groups:
        squares, turned = np.linalg.eigh(apart.T @ apart)
        return squares, turned
    squares, left = np.linalg.eigh(apart @ apart.T)
    lengths = np.sqrt(np.maximum(squares, np.finfo(float).tiny))
    return squares, apart.T @ left / lengths
