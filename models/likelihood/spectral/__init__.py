"""BKE (13) for one to three columns of data, exact to rounding at a cost linear in n.

In one column the squared exponential (:mod:`.line`) uses the trapezoid rule, in frequency for long
lengthscales (:mod:`.waves`) and in space for short ones (:mod:`.grid`); sums of such use nodes
(:mod:`.mixture`), and Matern kernels Markov processes (:mod:`.markov`). Several columns use tensor
products (:mod:`.box`).
"""

from __future__ import annotations

import numpy as np

from ...kernels.base import Kernel
from .base import SpectralIndex, is_single, matern_nu, sorted_column
from .box import box_index
from .line import weighted_line_index
from .markov import markov_index
from .mixture import mixture_index


def spectral_index(X: np.ndarray, kernel: Kernel | None = None) -> SpectralIndex:
    """Prepare (n, D) data of one to three columns for kernels like ``kernel``.

    By default for a single lengthscale; only the type of the kernel matters.

    Raises:
        ValueError: for data that are not supported, with the reason.
    """
    if X.shape[1] > 1:
        return box_index(X)
    if kernel is not None and matern_nu(kernel) is not None:
        return markov_index(X)
    if kernel is not None and not is_single(kernel):
        return mixture_index(X)
    return weighted_line_index(sorted_column(X), None, 0.0)
