"""BKE (13) for one column of data by the trapezoid rule, exact to rounding at a cost linear in n.

In frequency for long lengthscales (:mod:`.gaussian`), in space for short ones (:mod:`.bumps`).
"""

from .likelihood import spectral_index, spectral_obstacle, spectral_terms
from .prepared import MOST_DENSE, SpectralIndex

__all__ = ["MOST_DENSE", "SpectralIndex", "spectral_index", "spectral_obstacle", "spectral_terms"]
