"""Evidence that covariances differ: how far they are apart, and over how many directions each goes.

Two statistics of the samples' covariance matrices S_P and S_Q, of columns in standard deviations.
Their distance ``|S_P - S_Q|^2`` (Frobenius) hears a correlation, or a column that has become wider.
The difference of effective dimensions

    d_g(S_P) - d_g(S_Q),    d_g(S) = tr S (S + g v)^-1,    v = tr S of all rows,

hears what is spread over very many directions, a little in each: whitened by each sample's own
covariance, it adds them up (as kernel likelihood ratios do: Santoro, Waghmare and Panaretos 2025).
"""

from __future__ import annotations

import dataclasses

import numpy as np
import scipy.linalg

from ..permutation.permutation import in_batches, without_rounding
from ..permutation.relabelled import Relabelled
from .asked import Asked, Sums, answered

#: g, how small eigenvalues of a covariance count, over its trace.
SMALL = np.array([1e-3, 3e-2, 1.0])
#: Columns up to which covariances are matrices; of more leading directions of all rows.
MOST_COLUMNS = 64
#: Rows up to which, of more columns, nothing is left out: matrices are of rows then.
MOST_ROWS = 400


def covariances(rows: Relabelled) -> tuple[np.ndarray, np.ndarray]:
    """Evaluate the distance of covariances (1 + B,) and differences of dimensions (G, 1 + B).

    Args:
        rows: the pooled rows with their relabellings.
    """
    if rows.points.shape[1] > MOST_COLUMNS and rows.rows <= MOST_ROWS and rows.independent:
        points, total = _centred(rows)
        return _of_rounding(_by_rows(points, rows, SMALL * total), points, total)
    return answered(covariances_asked(rows), rows)


@dataclasses.dataclass(frozen=True)
class Products:
    """Columns of rows and their products, of those directions in which rows vary most.

    Attributes:
        centre: (D,), what columns are counted from.
        turn: (D, r), the directions; ``None`` where all columns are taken as they are.
    """

    centre: np.ndarray
    turn: np.ndarray | None

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Evaluate columns and products (k, r + r (r + 1) / 2) of rows (k, D)."""
        part = points - self.centre
        part = part if self.turn is None else part @ self.turn
        first, second = np.triu_indices(part.shape[1])
        return np.concatenate([part, part[:, first] * part[:, second]], axis=1)


def covariances_asked(rows: Relabelled) -> Asked[tuple[np.ndarray, np.ndarray]]:
    """Ask for what :func:`covariances` tells by matrices of columns."""
    chosen = rows.choosing
    points, total = _centred(chosen)
    features = Products(chosen.counts @ chosen.points / chosen.rows, _turn(points, chosen.counts))
    rank = min(points.shape[1], MOST_COLUMNS)

    def told(sums: Sums) -> tuple[np.ndarray, np.ndarray]:
        return _of_rounding(_by_columns(rank, rows, sums, SMALL * total), points, total)

    return Asked(features, rank + rank * (rank + 1) // 2, told)


def _centred(rows: Relabelled) -> tuple[np.ndarray, float]:
    """Points (C, D) about their mean, and the variance of all columns together."""
    points = rows.points - rows.counts @ rows.points / rows.rows
    return points, float(rows.counts @ np.square(points).sum(axis=1)) / rows.rows


def _of_rounding(
    found: np.ndarray, points: np.ndarray, total: float
) -> tuple[np.ndarray, np.ndarray]:
    """Both statistics without what is rounding, of rows (C, D) of a variance in all."""
    magnitudes = [total**2, *[float(min(points.shape))] * len(SMALL)]
    rounded = [without_rounding(row, size) for row, size in zip(found, magnitudes, strict=True)]
    return rounded[0], np.array(rounded[1:])


def _dimensions(own: np.ndarray, small: np.ndarray) -> np.ndarray:
    """The effective dimensions (G, b) of matrices with eigenvalues (b, r)."""
    own = np.maximum(own, 0.0)
    return np.asarray([(own / (own + least)).sum(axis=-1) for least in small])


def _turn(points: np.ndarray, counts: np.ndarray) -> np.ndarray | None:
    """Directions (D, r) in which centred points (C, D) vary most; ``None`` of few columns."""
    if points.shape[1] <= MOST_COLUMNS:
        return None
    last = points.shape[1] - 1
    products = (points * counts[:, None]).T @ points
    of = last + 1 - MOST_COLUMNS, last
    return np.asarray(scipy.linalg.eigh(products, subset_by_index=of)[1])


def _by_columns(rank: int, rows: Relabelled, sums: Sums, small: np.ndarray) -> np.ndarray:
    """Both statistics, (1 + G, 1 + B), by matrices of so many columns."""
    labellings, upper = rows.labels.shape[1], np.triu_indices(rank)
    every = sums.of_counts
    apart, pooled = rows.apart(sums.of_labels, every), every / rows.rows
    share = np.broadcast_to(rows.share if rows.weighted else rows.shares, labellings)

    def matrices(entries: np.ndarray) -> np.ndarray:
        found = np.empty((entries.shape[1], rank, rank))
        found[:, upper[0], upper[1]] = found[:, upper[1], upper[0]] = entries.T
        return found

    def one(columns: slice) -> np.ndarray:
        own = []
        for part in (1.0 - share[columns], -share[columns]):
            moved = pooled[:, None] + part * apart[:, columns]
            mean = moved[:rank].T
            own.append(matrices(moved[rank:]) - mean[:, :, None] * mean[:, None, :])
        distance = np.square(own[0] - own[1]).sum(axis=(1, 2))
        first, second = (_dimensions(np.linalg.eigvalsh(of), small) for of in own)
        return np.concatenate([distance[None], first - second])

    return in_batches(one, labellings, 64 * rank**2)


def _by_rows(points: np.ndarray, rows: Relabelled, small: np.ndarray) -> np.ndarray:
    """Both statistics, (1 + G, 1 + B), of fewer rows than columns by matrices of rows."""
    gram, index = points @ points.T, np.arange(len(points))

    def between(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Products (b, n, m) of rows (b, n) with others (b, m), each about its sample's mean."""
        found = gram[first[:, :, None], second[:, None, :]]
        found -= found.mean(axis=1, keepdims=True)
        found -= found.mean(axis=2, keepdims=True)
        return np.asarray(found / np.sqrt(first.shape[1] * second.shape[1]))

    def one(columns: slice) -> np.ndarray:
        labels = rows.labels[:, columns].T
        P, Q = (
            np.array([np.repeat(index, z) for z in of]) for of in (labels, rows.counts - labels)
        )
        first, second = (np.linalg.eigvalsh(between(of, of)) for of in (P, Q))
        squares = np.square(first).sum(axis=1) + np.square(second).sum(axis=1)
        distance = squares - 2.0 * np.square(between(P, Q)).sum(axis=(1, 2))
        return np.concatenate(
            [distance[None], _dimensions(first, small) - _dimensions(second, small)]
        )

    return in_batches(one, rows.labels.shape[1], 32 * int(rows.rows) ** 2)
