"""BKE (13) for one to three columns of data, exact to rounding at a cost linear in n.

The squared exponential in one column by the trapezoid rule, in frequency for long lengthscales
(:mod:`.gaussian`), in space for short ones (:mod:`.bumps`), sums of such at nodes
(:mod:`.mixture`); in several columns by tensor products (:mod:`.box`). Matern kernels in one column
by Markov processes (:mod:`.markov`).
"""

from .bins import (
    FEWEST,
    WeightedPoints,
    bins_of,
    moments_of,
    volume_errors,
    weighted_points,
)
from .index import LineIndex, weighted_line_index
from .obstacle import has_one, order_of, spectral_obstacle
from .prepared import MOST_DENSE, SpectralIndex
from .view import spectral_index

__all__ = [
    "FEWEST",
    "MOST_DENSE",
    "LineIndex",
    "SpectralIndex",
    "WeightedPoints",
    "bins_of",
    "has_one",
    "moments_of",
    "order_of",
    "spectral_index",
    "spectral_obstacle",
    "volume_errors",
    "weighted_line_index",
    "weighted_points",
]
