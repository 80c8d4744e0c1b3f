"""The posterior of the squared MMD between two samples, by draws of their difference."""

from __future__ import annotations

import numpy as np

from ..permutation.pooled_sample import PooledSample
from ..statistics.eigendecomposition import inverse_root
from ..statistics.kernels import squared_exponential
from .belief import Drawn


def discrepancies(drawn: Drawn, rows: PooledSample, lengthscale: float) -> np.ndarray:
    """Evaluate the squared MMD (count,) of a squared exponential for draws of the difference h.

    The witness is ``w(x) = 1/n sum_i k(x, z_i) h(z_i)``, and the squared MMD its squared norm
    ``1/n^2 h'K h``.

    Args:
        drawn: draws of h.
        rows: the pooled rows.
        lengthscale: of the kernel, in standard deviations of the columns.
    """
    nodes = drawn.believed.nodes
    own = inverse_root(squared_exponential(nodes, nodes, lengthscale))
    along = np.zeros((drawn.count, own.shape[1]))
    for block in rows.blocks():
        points, counts = rows.points[block], rows.counts[block]
        along += (drawn.at(points) * counts) @ (
            squared_exponential(points, nodes, lengthscale) @ own
        )
    return np.asarray(np.sum((along / rows.n_rows) ** 2, axis=1))
