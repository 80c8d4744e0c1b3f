"""Data built into the package: the two samples of BKE Figures 3 to 5."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .checks import check_count

CENTRES = (-3.0, 0.0, 3.0)
LAPLACE_SCALE = math.sqrt(0.5)  # variance 2 scale^2 = 1, that of the normal components


def normal_laplace(
    seed: int = 1, per_component: int = 100
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Draw a normal and a Laplace mixture of equal means and variances, BKE section 5, Figure 3.

    P = 1/3 sum_c N(c, 1) and Q = 1/3 sum_c Laplace(c, sqrt(1/2)), c in (-3, 0, 3). As in the paper
    each component gives the same number of points, so the samples vary less than iid ones.

    Args:
        seed: of the NumPy generator; 1 gives a data set whose posterior shows the two modes of the
            paper and no more (some others have a third, negligible basin near 0.05).
        per_component: draws of each of the three components.

    Returns:
        The samples of P and of Q, each (3 per_component, 1), their rows in random order.

    Raises:
        InputError: ``per_component`` is not a positive whole number.
    """
    count = check_count(per_component, "per_component", 1)
    generator = np.random.default_rng(seed)
    centres = np.repeat(CENTRES, count)
    p = generator.permutation(generator.normal(centres, 1.0))
    q = generator.permutation(generator.laplace(centres, LAPLACE_SCALE))
    return p[:, np.newaxis], q[:, np.newaxis]


def normal_laplace_density(
    points: ArrayLike,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Evaluate the densities of ``normal_laplace``'s P and Q at ``points`` (m,) or (m, 1)."""
    offsets = np.asarray(points, dtype=np.float64).reshape(-1, 1) - np.array(CENTRES)
    normal = np.exp(-0.5 * offsets**2) / math.sqrt(2 * math.pi)
    laplace = np.exp(-np.abs(offsets) / LAPLACE_SCALE) / (2 * LAPLACE_SCALE)
    return normal.mean(axis=1), laplace.mean(axis=1)
