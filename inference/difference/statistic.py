"""The one statistic of a comparison: evidence of the tilt, evidence at landmarks, and places.

Three groups see what the others miss, on the same relabellings: the largest of the tilt's evidences
over lengthscales and sizes (:mod:`.evidence`), the sum of evidences at landmarks, which weigh a
difference by its sampling covariance (:mod:`bke.inference.testing.evidence`), and the largest |t|
over places (:mod:`.places`). All that is chosen is chosen from the pooled rows, so the level of
their combination's permutation test is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Event

import numpy as np
from scipy.special import logsumexp

from ..runtime.machine import side_by_side
from ..testing.evidence import LANDMARKS, evidence_rows, landmarks
from ..testing.permutation import standardised
from .calibration import combined
from .evidence import fits
from .ladder import VARIANCES, landmark_lengthscales, test_lengthscales
from .places import Cells
from .relabelled import Relabelled
from .spectrum import nodes, spectrum

#: Nodes of the kernel, of one column and of more.
LINE_NODES, NODES = 400, 512
#: Points up to which, in several columns, all are nodes.
MOST_EXACT = 1200


def statistic(rows: Relabelled, cells: Cells, advance: Callable[[int], None]) -> np.ndarray:
    """Evaluate the combined statistic for every labelling, (1 + B,).

    Args:
        rows: the pooled rows with their relabellings.
        cells: their places.
        advance: called with the number of lengthscales that are done.
    """
    groups = [tilt(rows, advance), at_landmarks(rows)]
    if len(cells.t):
        groups.append(cells.largest)
    return combined(groups)


def tilt(rows: Relabelled, advance: Callable[[int], None]) -> np.ndarray:
    """The largest of the tilt's standardised evidences over lengthscales and sizes, (1 + B,)."""
    line = rows.points.shape[1] == 1
    at = nodes(rows, LINE_NODES if line else max(NODES, _exact(rows)))
    lengthscales = test_lengthscales(rows)

    def one(index: int) -> np.ndarray:
        evidences = fits(spectrum(rows, at, lengthscales[index]), VARIANCES)
        advance(1)
        return np.asarray(standardised(evidences).max(axis=0))

    return np.max(side_by_side(one, len(lengthscales), Event()), axis=0)


def _exact(rows: Relabelled) -> int:
    return len(rows.points) if len(rows.points) <= MOST_EXACT else 0


def at_landmarks(rows: Relabelled) -> np.ndarray:
    """The log-sum-exp of standardised evidences at landmarks, (1 + B,)."""
    places = landmarks(rows.points, LANDMARKS, 0)
    lengthscales = landmark_lengthscales(rows)
    evidences = evidence_rows(rows.points, rows.first, lengthscales, places, counts=rows.counts)
    return np.asarray(logsumexp(standardised(evidences), axis=0))
