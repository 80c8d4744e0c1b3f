"""Decompositions: what sums over rows tell of a difference along directions that are independent.

The mean of features of one sample less that of the other, times ``rows sqrt(share (1 - share))``,
has the mean ``Q c`` where the difference has the coefficients c along centred features, Q being the
sum of their products; of independent rows of one weight its covariance under P = Q is Q as well, so
that eigenvectors of Q are all there is to it. Of pairs and of weighted rows it is another matrix T,
and eigenvalues are those of ``Q T^-1 Q``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg

#: Eigenvalues below this, over the largest, are rounding.
RESOLUTION = 1e-10
#: Independent rows, or pairs, to each eigenfunction whose covariance they tell.
ROWS_EACH = 5


class Spectrum(NamedTuple):
    """Eigenvalues of the centred kernel matrix, and the labels along its eigenvectors.

    Eigenfunctions f, with ``K(x, z) = sum_i f_i(x) f_i(z)`` once centred, are
    ``k(x, nodes) @ root @ turn - mean``.

    Attributes:
        values: (r,), lambda > 0.
        loadings: (r, 1 + B), ``sqrt(lambda) U'y`` for every labelling.
        root: (nodes, q), see above.
        turn: (q, r), see above.
        mean: (r,), see above: over all rows.
        excess: (r,), by how much the squares of the observed loadings are too large because of the
            rows' own errors; of weighted rows alone.
    """

    values: np.ndarray
    loadings: np.ndarray
    root: np.ndarray
    turn: np.ndarray
    mean: np.ndarray
    excess: np.ndarray | None = None

    def sums(self, coefficients: np.ndarray, features: np.ndarray) -> np.ndarray:
        """Evaluate sums (k, n) of eigenfunctions with coefficients (k, r), at features (n, q).

        Features are ``k(., nodes) @ root``. A few sums need no eigenfunction at every point.
        """
        along = coefficients @ self.turn.T
        return np.asarray(along @ features.T - (coefficients @ self.mean)[:, None])


def decomposed(
    root: np.ndarray,
    within: np.ndarray,
    total: np.ndarray,
    apart: np.ndarray,
    rows: float,
    share: float | np.ndarray,
) -> Spectrum:
    """Decompose what sums over rows tell of features ``k(., nodes) @ root``.

    Args:
        root: (nodes, q).
        within: (q, q), the sum of their products.
        total: (q,), their sum.
        apart: (q, 1 + B), the first sample's mean less the second's, for every labelling.
        rows: how many there are.
        share: of the first sample; one for every labelling, (1 + B,), where they differ.
    """
    values, turn = scipy.linalg.eigh(within - np.outer(total, total) / rows, driver="evd")
    kept = values > values[-1] * RESOLUTION
    values, turn = values[kept], turn[:, kept]
    loadings = turn.T @ (rows * np.sqrt(share * (1.0 - share)) * apart)
    return Spectrum(values, loadings, root, turn, turn.T @ total / rows)


def whitened(
    root: np.ndarray,
    products: np.ndarray,
    mean: np.ndarray,
    sums: np.ndarray,
    noise: np.ndarray,
    rows: float,
    own: np.ndarray | None = None,
) -> Spectrum:
    """Decompose sums whose errors are not those of independent rows of one weight.

    As few eigenfunctions are kept as the rows tell the covariance of.

    Args:
        root: (nodes, q).
        products: (q, q), Q: the sum of products of centred features.
        mean: (q,), of the features.
        sums: (q, 1 + B), of mean ``Q c``, for every labelling.
        noise: (q, q), T: the covariance of ``sums`` under P = Q.
        rows: how many, or pairs, the covariance is known by.
        own: (q, q), T by each sample's own rows, where ``noise`` is by those of both.
    """
    within, vectors = scipy.linalg.eigh(products, driver="evd")
    kept = np.flatnonzero(within > within[-1] * RESOLUTION)[-max(1, int(rows / ROWS_EACH)) :]
    within, vectors = within[kept], vectors[:, kept]
    spread = vectors.T @ noise @ vectors
    spread[np.diag_indices(len(spread))] += RESOLUTION * max(np.trace(spread), within[-1])
    leaning = within[:, None] * scipy.linalg.inv(spread)
    values, turn = scipy.linalg.eigh(leaning * within, driver="evd")
    kept = np.flatnonzero(values > values[-1] * RESOLUTION)
    along, turn = turn[:, kept].T @ leaning @ vectors.T, vectors @ turn[:, kept]
    excess = None if own is None else np.sum((along @ (own - noise)) * along, axis=1)
    return Spectrum(values[kept], along @ sums, root, turn, turn.T @ mean, excess)


def of_pairs(
    root: np.ndarray, first: np.ndarray, second: np.ndarray, signs: np.ndarray
) -> Spectrum:
    """Decompose what pairs tell of a difference, whose errors are those of pairs.

    The sum over pairs of the difference of their features has the covariance ``T = sum (e(z) -
    e(z')) (e(z) - e(z'))'``, which swaps do not change.

    Args:
        root: (nodes, q).
        first: features (m, q) of the rows of the first sample.
        second: those of their partners.
        signs: (m, 1 + B), 1 for every pair, and -1 where it is swapped.
    """
    features, apart = np.concatenate([first, second]), first - second
    mean = features.mean(axis=0)
    products = features.T @ features - len(features) * np.outer(mean, mean)
    return whitened(root, products, mean, apart.T @ signs, apart.T @ apart, len(apart))


class Noise(NamedTuple):
    """What the errors of both samples' mean features are known by.

    Attributes:
        means: (2, q), of the features.
        squares: (2, q, q), sums of products of features with the squares of their rows' weights.
        sums: (2, q), of features likewise.
        totals: (2,), of the squares alone.
    """

    means: np.ndarray
    squares: np.ndarray
    sums: np.ndarray
    totals: np.ndarray

    @classmethod
    def none(cls, rank: int) -> Noise:
        """That of no rows."""
        each = np.zeros((2, rank))
        return cls(each, np.zeros((2, rank, rank)), each, np.zeros(2))

    def plus(self, features: np.ndarray, weights: np.ndarray, squares: np.ndarray) -> Noise:
        """Add rows with ``features`` (k, q), ``weights`` (k, 2) and their ``squares`` (k, 2)."""
        products = [(features * one[:, None]).T @ features for one in squares.T]
        return Noise(
            self.means + weights.T @ features,
            self.squares + np.array(products),
            self.sums + squares.T @ features,
            self.totals + squares.sum(axis=0),
        )

    def covariance(self) -> np.ndarray:
        """The covariance (q, q) of the difference of the two means, where both are one.

        About the mean of all rows, as signs are turned: about those of the samples it would be too
        small beside the difference that it is held against.
        """
        mean = self.worth @ self.means / self.worth.sum()
        cross = np.outer(mean, self.sums.sum(axis=0))
        return np.asarray(
            self.squares.sum(axis=0) - cross - cross.T + self.totals.sum() * np.outer(mean, mean)
        )

    @property
    def worth(self) -> np.ndarray:
        """How many rows of one weight each sample is worth, (2,)."""
        return np.asarray(1.0 / self.totals)


def of_weights(
    root: np.ndarray,
    within: np.ndarray,
    total: np.ndarray,
    apart: np.ndarray,
    noise: Noise,
    own: Noise | None = None,
) -> Spectrum:
    """Decompose what weighted rows tell, as many as they are worth.

    Args:
        root: (nodes, q).
        within: (q, q), the sum of products of features, each row as often as it is worth.
        total: (q,), their sum likewise.
        apart: (q, 1 + B), the first sample's mean less the second's, for every labelling.
        noise: of the two means.
        own: by each sample's own, where ``noise`` is not.
    """
    m, n = noise.worth
    rows = m + n
    unit = np.sqrt(m * n)  # rows sqrt(share (1 - share))
    products, mean = within - np.outer(total, total) / rows, total / rows
    known = unit**2 * noise.covariance()
    alone = None if own is None else unit**2 * own.covariance()
    return whitened(root, products, mean, unit * apart, known, min(m, n), alone)
