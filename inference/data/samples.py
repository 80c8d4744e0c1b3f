"""Built-in data: the two samples of BKE Figures 3 to 5."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .checks import check_count

CENTERS = (-3.0, 0.0, 3.0)
LAPLACE_SCALE = math.sqrt(0.5)  # variance 2 scale^2 = 1, that of the normal components


def normal_laplace(
    seed: int = 1, per_component: int = 100
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Draw a normal and a Laplace mixture of equal means and variances, BKE section 5, Figure 3.

    P = 1/3 sum_c N(c, 1) and Q = 1/3 sum_c Laplace(c, sqrt(1/2)), c in (-3, 0, 3). As in the paper,
    each component gives the same number of points, so the samples vary less than iid samples.

    Args:
        seed: seed of the NumPy generator. With the default, the posterior has the two modes of the
            paper only; with some other seeds it has a third, negligible mode near 0.05.
        per_component: number of draws of each of the three components.

    Returns:
        The samples of P and Q, each (3 per_component, 1), with rows in random order.

    Raises:
        InputError: ``per_component`` is not a positive whole number.
    """
    count = check_count(per_component, "per_component", 1)
    generator = np.random.default_rng(seed)
    centers = np.repeat(CENTERS, count)
    p = generator.permutation(generator.normal(centers, 1.0))
    q = generator.permutation(generator.laplace(centers, LAPLACE_SCALE))
    return p[:, np.newaxis], q[:, np.newaxis]


def normal_laplace_density(
    points: ArrayLike,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Evaluate the densities of P and Q of :func:`normal_laplace` at points (m,) or (m, 1)."""
    offsets = np.asarray(points, dtype=np.float64).reshape(-1, 1) - np.array(CENTERS)
    normal = np.exp(-0.5 * offsets**2) / math.sqrt(2 * math.pi)
    laplace = np.exp(-np.abs(offsets) / LAPLACE_SCALE) / (2 * LAPLACE_SCALE)
    return normal.mean(axis=1), laplace.mean(axis=1)
