"""The dense model at a cost linear in the rows: low-rank R and mu_hat, with their error."""

from .error import (
    ErrorOfDifferences,
    Evidence,
    LowRankError,
    error_of_differences,
    evidence,
    low_rank_error,
)
from .likelihood import low_rank_terms
from .view import LOW_RANK, LowRankView, low_rank_view

__all__ = [
    "LOW_RANK",
    "ErrorOfDifferences",
    "Evidence",
    "LowRankError",
    "LowRankView",
    "error_of_differences",
    "evidence",
    "low_rank_error",
    "low_rank_terms",
    "low_rank_view",
]
