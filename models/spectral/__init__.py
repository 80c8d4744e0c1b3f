"""BKE (13) for one column of data by the trapezoid rule, exact to rounding at a cost linear in n.

In frequency for long lengthscales (:mod:`.gaussian`), in space for short ones (:mod:`.bumps`).
"""

from .index import MOST_DENSE, SpectralIndex, spectral_index
from .likelihood import spectral_obstacle, spectral_terms

__all__ = ["MOST_DENSE", "SpectralIndex", "spectral_index", "spectral_obstacle", "spectral_terms"]
