"""What is believed: kernels, embeddings and the Bayesian kernel embedding model."""

from .dependence import (
    alignment,
    constrained_covariance,
    dependence_posterior,
    dependence_witness,
    hsic,
    normalised_hsic,
)
from .discrepancy import (
    embedding_inner_product,
    gaussian_inner_product,
    mmd_terms,
    normalised_mmd,
    squared_mmd,
    squared_mmd_variance,
)
from .embedding import (
    EmbeddingPosterior,
    embedding_posterior,
    empirical_embedding,
    gaussian_mixture_embedding,
)
from .kernels import *  # noqa: F403
from .kernels import __all__ as _kernels
from .landmarks import choose_landmarks, landmark_embedding_posterior, landmark_log_likelihood
from .likelihood import log_marginal_likelihood
from .low_rank import LowRankError, low_rank_error
from .measures import Gaussian
from .model import bke_model
from .noise import SamplingNoise
from .volume import log_volume

__all__ = [
    "EmbeddingPosterior",
    "Gaussian",
    "LowRankError",
    "SamplingNoise",
    "alignment",
    "bke_model",
    "choose_landmarks",
    "constrained_covariance",
    "dependence_posterior",
    "dependence_witness",
    "embedding_inner_product",
    "embedding_posterior",
    "empirical_embedding",
    "gaussian_inner_product",
    "gaussian_mixture_embedding",
    "hsic",
    "landmark_embedding_posterior",
    "landmark_log_likelihood",
    "log_marginal_likelihood",
    "log_volume",
    "low_rank_error",
    "mmd_terms",
    "normalised_hsic",
    "normalised_mmd",
    "squared_mmd",
    "squared_mmd_variance",
    *_kernels,
]
