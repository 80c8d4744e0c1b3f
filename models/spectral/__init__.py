"""BKE (13) for one to three columns of data, exact to rounding at a cost linear in n.

One column by the trapezoid rule, in frequency for long lengthscales (:mod:`.gaussian`), in space
for short ones (:mod:`.bumps`), for sums of kernels at nodes (:mod:`.mixture`); several by tensor
products (:mod:`.box`).
"""

from .likelihood import has_one, spectral_index, spectral_obstacle, spectral_terms
from .prepared import MOST_DENSE, SpectralIndex

__all__ = [
    "MOST_DENSE",
    "SpectralIndex",
    "has_one",
    "spectral_index",
    "spectral_obstacle",
    "spectral_terms",
]
