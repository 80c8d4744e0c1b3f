"""What is believed: kernels, embeddings and the Bayesian kernel embedding model."""

from .embedding import (
    EmbeddingPosterior,
    embedding_posterior,
    empirical_embedding,
    gaussian_mixture_embedding,
)
from .kernels import *  # noqa: F403
from .kernels import __all__ as _kernels
from .likelihood import log_marginal_likelihood
from .measures import Gaussian
from .model import bke_model
from .noise import SamplingNoise
from .volume import log_volume

__all__ = [
    "EmbeddingPosterior",
    "Gaussian",
    "SamplingNoise",
    "bke_model",
    "embedding_posterior",
    "empirical_embedding",
    "gaussian_mixture_embedding",
    "log_marginal_likelihood",
    "log_volume",
    *_kernels,
]
