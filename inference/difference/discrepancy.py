"""The posterior of the squared MMD between two samples, by draws of their difference."""

from __future__ import annotations

import numpy as np

from .belief import Belief
from .relabelled import Relabelled
from .spectrum import kernel, spectrum


def discrepancies(believed: Belief, rows: Relabelled, lengthscale: float, count: int) -> np.ndarray:
    """Draw the squared MMD (count,) of a squared exponential, given that there is a difference.

    The witness is ``w(x) = 1/n sum_i k(x, z_i) h(z_i)``, and the squared MMD its squared norm
    ``1/n^2 h'K h``.

    Args:
        believed: the posterior of the difference h.
        rows: the pooled rows.
        lengthscale: of the kernel, in standard deviations of the columns.
        count: of draws.
    """
    own = spectrum(rows.observed(), believed.nodes, lengthscale).root
    found = np.empty(count)
    for index, mine, coefficients in believed.coefficients(count, np.random.default_rng(0)):
        one = believed.spectra[index]
        across = np.zeros((own.shape[1], len(one.values)))
        for block in rows.blocks():
            points, counts = rows.points[block], rows.counts[block]
            functions = kernel(points, believed.nodes, believed.lengthscales[index]) @ one.root
            functions = functions @ one.turn - one.mean
            features = kernel(points, believed.nodes, lengthscale) @ own
            across += features.T @ (counts[:, None] * functions)
        found[mine] = np.sum((coefficients @ across.T / rows.rows) ** 2, axis=1)
    return found
