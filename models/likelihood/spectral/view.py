"""Data of one to three columns prepared for the spectral route, by their kind of kernel."""

from __future__ import annotations

import numpy as np

from ...kernels.base import Kernel
from .box import box_index
from .index import line_index
from .markov import markov_index
from .mixture_index import mixture_index
from .obstacle import has_one, order_of
from .prepared import SpectralIndex


def spectral_index(X: np.ndarray, kernel: Kernel | None = None) -> SpectralIndex:
    """Prepare (n, D) data of one to three columns for kernels like ``kernel``.

    By default for one lengthscale; only its kind matters.

    Raises:
        ValueError: for data that it does not pay for, with the reason.
    """
    if X.shape[1] > 1:
        return box_index(X)
    if kernel is not None and order_of(kernel) is not None:
        return markov_index(X)
    return line_index(X) if kernel is None or has_one(kernel) else mixture_index(X)
