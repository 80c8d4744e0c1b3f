"""The one statistic of a comparison: evidence of the tilt, evidence at landmarks, and places.

Four statistics see what the others miss, on the same relabellings: the largest of the tilt's
evidences over lengthscales and sizes (:mod:`.tilt`), and all of them together, for differences of
several scales; those at landmarks together, which weigh a difference by its sampling covariance
(:mod:`.landmarks`); and the largest |t| over places (:mod:`.places`). All that is chosen is chosen
from the pooled rows, so the level of their combination's permutation test is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import Event
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from ..relabelling.calibration import combined
from ..relabelling.permutation import p_value, standardised
from ..relabelling.relabelled import Relabelled
from ..runtime.machine import side_by_side
from .decomposition import Noise
from .ladder import VARIANCES, landmark_lengthscales, test_lengthscales
from .landmarks import LANDMARKS, ROWS_EACH, Signed, evidence_rows, landmarks, signed_evidence_rows
from .places import Cells, cells
from .spectrum import nodes, spectrum
from .tilt import exact_fits, fits

#: Nodes of the kernel, of one column and of more.
LINE_NODES, NODES = 400, 512
#: Points up to which, in several columns, all are nodes.
MOST_EXACT = 1200


class Evidences(NamedTuple):
    """What is evaluated of every labelling, before labellings are held against each other.

    Attributes:
        tilt: (K, 1 + B), log Bayes factors at lengthscales and sizes.
        landmarks: (L, 1 + B), evidences at lengthscales.
        place: (1 + B,), the largest |t| over places.
    """

    tilt: np.ndarray
    landmarks: np.ndarray
    place: np.ndarray

    def of(self, labellings: np.ndarray) -> Evidences:
        """Those of some labellings."""
        return Evidences(*(part[..., labellings] for part in self))

    def each(self) -> list[np.ndarray]:
        """The four statistics, (1 + B,) each, which treat all labellings alike."""
        tilt, at_landmarks = standardised(self.tilt), standardised(self.landmarks)
        together = [logsumexp(part, axis=0) for part in (tilt, at_landmarks)]
        return [tilt.max(axis=0), *together, self.place]

    def statistic(self) -> np.ndarray:
        """The statistic (1 + B,), which treats all labellings alike."""
        return combined(self.each())


def evidences(rows: Relabelled, places: Cells, advance: Callable[[int], None]) -> Evidences:
    """Evaluate the evidence of every kind for every labelling.

    Args:
        rows: the pooled rows with their relabellings.
        places: where the samples are compared.
        advance: called with the number of lengthscales that are done.
    """
    # Of weighted rows so many as those of one weight would have that they are worth.
    most = int(rows.worth.min()) // ROWS_EACH if rows.weighted else LANDMARKS
    seen = landmarks(rows.points, min(LANDMARKS, most), 0)
    lengthscales = landmark_lengthscales(rows)
    if rows.weighted:
        signed = Signed(
            rows.points,
            rows.labels.shape[1],
            lambda b: rows.labels[:, b],
            partial(_noise, rows),
            partial(_excess, rows),
        )
        at_landmarks = signed_evidence_rows(signed, lengthscales, seen)
    else:
        at_landmarks = evidence_rows(
            rows.points, rows.labels, lengthscales, seen, counts=rows.counts
        )
    return Evidences(_tilt(rows, advance), at_landmarks, places.largest)


def _noise(rows: Relabelled, features: np.ndarray) -> np.ndarray:
    """The covariance (k, k) of the mean of features (C, k) of one sample less that of the other."""
    none = Noise.none(features.shape[1])
    return none.plus(features, rows.weights, rows.expected).covariance()


def _excess(rows: Relabelled, features: np.ndarray) -> np.ndarray:
    """By how much the covariance by each sample's own rows is larger."""
    none = Noise.none(features.shape[1])
    own = none.plus(features, rows.weights, rows.squares).covariance()
    return np.asarray(own - _noise(rows, features))


def _tilt(rows: Relabelled, advance: Callable[[int], None]) -> np.ndarray:
    """Log Bayes factors of a difference at lengthscales and sizes, (K, 1 + B)."""
    line = rows.points.shape[1] == 1
    exact = not line and len(rows.points) <= MOST_EXACT and rows.independent
    at = nodes(rows, LINE_NODES if line else NODES)
    lengthscales = test_lengthscales(rows)

    def one(index: int) -> np.ndarray:
        if exact:
            found = exact_fits(rows, lengthscales[index], VARIANCES)
        else:
            found = fits(spectrum(rows, at, lengthscales[index]), VARIANCES)
        advance(1)
        return found

    return np.concatenate(side_by_side(one, len(lengthscales), Event()))


def overall_pvalue(rows: Relabelled) -> float:
    """The p-value of "P = Q" alone."""
    return p_value(evidences(rows, cells(rows), lambda count: None).statistic())
