"""The posterior of the squared MMD between two samples, by draws of their difference."""

from __future__ import annotations

import numpy as np

from ..evidence.spectrum import kernel, spectrum
from ..permutation.relabelled import Relabelled
from .belief import Drawn


def discrepancies(drawn: Drawn, rows: Relabelled, lengthscale: float) -> np.ndarray:
    """Evaluate the squared MMD (count,) of a squared exponential for draws of the difference h.

    The witness is ``w(x) = 1/n sum_i k(x, z_i) h(z_i)``, and the squared MMD its squared norm
    ``1/n^2 h'K h``.

    Args:
        drawn: draws of h.
        rows: the pooled rows.
        lengthscale: of the kernel, in standard deviations of the columns.
    """
    nodes = drawn.believed.nodes
    own = spectrum(rows.observed(), nodes, lengthscale).root
    along = np.zeros((drawn.count, own.shape[1]))
    for block in rows.blocks():
        points, counts = rows.points[block], rows.counts[block]
        along += (drawn.at(points) * counts) @ (kernel(points, nodes, lengthscale) @ own)
    return np.asarray(np.sum((along / rows.rows) ** 2, axis=1))
