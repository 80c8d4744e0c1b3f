"""What is believed: kernels, embeddings and the Bayesian kernel embedding model."""

# Before anything that imports NumPyro.
from . import lazy_numpyro  # noqa: F401

# isort: split
from .conditional.embedding import ConditionalEmbedding, conditional_embedding
from .conditional.functions import function_embedding
from .conditional.rules import BayesRule, JointEmbedding, bayes_rule, product_rule, sum_rule
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
from .embeddings.embedding import Embedding, mean_embedding
from .embeddings.posterior import (
    EmbeddingPosterior,
    embedding_posterior,
    empirical_embedding,
    gaussian_mixture_embedding,
    posterior_mean_embedding,
)
from .embeddings.pre_image import PreImage, pre_image, reduced_embedding
from .embeddings.shrinkage import shrinkage_amount, shrunk_embedding
from .embeddings.spectral import leave_one_out_scores, spectral_embedding
from .filtering.estimates import StateEstimates
from .filtering.filter import KernelBayesFilter, kernel_bayes_filter
from .kernels import *  # noqa: F403
from .kernels import __all__ as _kernels
from .landmarks import choose_landmarks, landmark_embedding_posterior, landmark_log_likelihood
from .likelihood import log_marginal_likelihood
from .low_rank import LowRankError, low_rank_error
from .measures import Gaussian
from .model import bke_model
from .noise import SamplingNoise
from .student_t.density import KernelStudentT, kernel_student_t
from .student_t.normaliser import Normaliser, log_normaliser
from .student_t.scores import (
    hyvarinen_scores,
    leave_one_out_log_densities,
    log_sequential_likelihood,
)
from .student_t.volume_element import log_volume_element
from .volume import log_volume

__all__ = [
    "BayesRule",
    "ConditionalEmbedding",
    "Embedding",
    "EmbeddingPosterior",
    "Gaussian",
    "JointEmbedding",
    "KernelBayesFilter",
    "LowRankError",
    "PreImage",
    "SamplingNoise",
    "StateEstimates",
    "alignment",
    "bayes_rule",
    "bke_model",
    "choose_landmarks",
    "conditional_embedding",
    "constrained_covariance",
    "dependence_posterior",
    "dependence_witness",
    "embedding_inner_product",
    "embedding_posterior",
    "empirical_embedding",
    "function_embedding",
    "gaussian_inner_product",
    "gaussian_mixture_embedding",
    "hsic",
    "kernel_bayes_filter",
    "landmark_embedding_posterior",
    "landmark_log_likelihood",
    "leave_one_out_scores",
    "log_marginal_likelihood",
    "log_volume",
    "low_rank_error",
    "mean_embedding",
    "mmd_terms",
    "normalised_hsic",
    "normalised_mmd",
    "posterior_mean_embedding",
    "pre_image",
    "product_rule",
    "reduced_embedding",
    "shrinkage_amount",
    "shrunk_embedding",
    "spectral_embedding",
    "squared_mmd",
    "squared_mmd_variance",
    "sum_rule",
    "KernelStudentT",
    "kernel_student_t",
    "Normaliser",
    "log_normaliser",
    "hyvarinen_scores",
    "leave_one_out_log_densities",
    "log_sequential_likelihood",
    "log_volume_element",
    *_kernels,
]
