"""Evidence that covariances differ: how far they are apart, and over how many directions each goes.

Two statistics of the samples' covariance matrices S_P and S_Q, of columns in standard deviations.
Their distance ``|S_P - S_Q|^2`` (Frobenius) hears a correlation, or a column that has become wider.
The difference of effective dimensions

    d_g(S_P) - d_g(S_Q),    d_g(S) = tr S (S + g v)^-1,    v = tr S of all rows,

hears what is spread over very many directions, a little in each: whitened by each sample's own
covariance, it adds them up (as kernel likelihood ratios do: Santoro, Waghmare and Panaretos 2025).
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from ..relabelling.permutation import in_batches, without_rounding
from ..relabelling.relabelled import LabelSums, Relabelled

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
    rows = rows.in_bins
    points = rows.points - rows.counts @ rows.points / rows.rows
    total = float(rows.counts @ np.square(points).sum(axis=1)) / rows.rows
    small = SMALL * total
    if points.shape[1] > MOST_COLUMNS and rows.rows <= MOST_ROWS and rows.independent:
        found = _by_rows(points, rows, small)
    else:
        found = _by_columns(_leading(points, rows.counts), rows, small)
    magnitudes = [total**2, *[float(min(points.shape))] * len(SMALL)]
    rounded = [without_rounding(row, size) for row, size in zip(found, magnitudes, strict=True)]
    return rounded[0], np.array(rounded[1:])


def _dimensions(own: np.ndarray, small: np.ndarray) -> np.ndarray:
    """The effective dimensions (G, b) of matrices with eigenvalues (b, r)."""
    own = np.maximum(own, 0.0)
    return np.asarray([(own / (own + least)).sum(axis=-1) for least in small])


def _leading(points: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Centred points (C, D) along the directions in which all rows vary most."""
    if points.shape[1] <= MOST_COLUMNS:
        return points
    last = points.shape[1] - 1
    _, turn = scipy.linalg.eigh(
        (points * counts[:, None]).T @ points, subset_by_index=(last + 1 - MOST_COLUMNS, last)
    )
    return np.asarray(points @ turn)


def _by_columns(points: np.ndarray, rows: Relabelled, small: np.ndarray) -> np.ndarray:
    """Both statistics, (1 + G, 1 + B), of centred points (C, r) by matrices of columns."""
    rank, labellings = points.shape[1], rows.labels.shape[1]
    upper = np.triu_indices(rank)
    every = np.zeros(rank + len(upper[0]))
    of_labels = LabelSums(rows, len(every))
    for block in rows.blocks():
        part = points[block]
        features = np.concatenate([part, part[:, upper[0]] * part[:, upper[1]]], axis=1)
        every += rows.counts[block] @ features
        of_labels.add(block, features)
    apart, pooled = rows.apart(of_labels.found(), every), every / rows.rows
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
