"""The dense model at a cost linear in the rows: low-rank R and mu_hat, with their error."""

from .error import LowRankError, low_rank_error
from .view import Fourier, LowRank, LowRankView, Nystrom, low_rank_view

__all__ = [
    "Fourier",
    "LowRank",
    "LowRankError",
    "LowRankView",
    "Nystrom",
    "low_rank_error",
    "low_rank_view",
]
