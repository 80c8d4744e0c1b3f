"""The dense model at a cost linear in the rows: low-rank R and mu_hat, with their error."""

from .likelihood import low_rank_terms
from .view import LOW_RANK, LowRankView, low_rank_view

__all__ = [
    "LOW_RANK",
    "LowRankView",
    "low_rank_terms",
    "low_rank_view",
]
