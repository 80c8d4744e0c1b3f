"""The public names of ``bke.models``, each written here alone."""

from .bayes.distribution_regression import (
    distribution_regression_model as distribution_regression_model,
)
from .bayes.model import bke_model as bke_model
from .bayes.two_scale import two_scale_model as two_scale_model
from .difference.evidence import log_difference_evidence as log_difference_evidence
from .embeddings.conditional.embedding import (
    ConditionalEmbedding as ConditionalEmbedding,
    conditional_embedding as conditional_embedding,
)
from .embeddings.conditional.functions import function_embedding as function_embedding
from .embeddings.conditional.rules import (
    BayesRule as BayesRule,
    JointEmbedding as JointEmbedding,
    bayes_rule as bayes_rule,
    product_rule as product_rule,
    sum_rule as sum_rule,
)
from .embeddings.embedding import Embedding as Embedding, mean_embedding as mean_embedding
from .embeddings.filtering.estimates import StateEstimates as StateEstimates
from .embeddings.filtering.filter import (
    KernelBayesFilter as KernelBayesFilter,
    kernel_bayes_filter as kernel_bayes_filter,
)
from .embeddings.landmarks import landmark_embedding_posterior as landmark_embedding_posterior
from .embeddings.posterior import (
    EmbeddingPosterior as EmbeddingPosterior,
    embedding_posterior as embedding_posterior,
    empirical_embedding as empirical_embedding,
    gaussian_mixture_embedding as gaussian_mixture_embedding,
    posterior_mean_embedding as posterior_mean_embedding,
)
from .embeddings.pre_image import (
    PreImage as PreImage,
    pre_image as pre_image,
    reduced_embedding as reduced_embedding,
)
from .embeddings.shrinkage import (
    shrinkage_amount as shrinkage_amount,
    shrunk_embedding as shrunk_embedding,
)
from .embeddings.spectral import (
    leave_one_out_scores as leave_one_out_scores,
    spectral_embedding as spectral_embedding,
)
from .kernels.algebra import Product as Product, Scaled as Scaled, Sum as Sum
from .kernels.base import (
    Covariance as Covariance,
    Kernel as Kernel,
    SmoothingError as SmoothingError,
    Stationary as Stationary,
)
from .kernels.dirac import Dirac as Dirac
from .kernels.distance import Distance as Distance
from .kernels.function import kernel_from_function as kernel_from_function
from .kernels.gaussian import (
    FullSquaredExponential as FullSquaredExponential,
    GaussianMixture as GaussianMixture,
)
from .kernels.importable import kernel_from_path as kernel_from_path
from .kernels.laplace import Laplace as Laplace
from .kernels.matern import Matern as Matern
from .kernels.parameters import parameter as parameter
from .kernels.polynomial import Polynomial as Polynomial
from .kernels.radial import Radial as Radial
from .kernels.rational_quadratic import RationalQuadratic as RationalQuadratic
from .kernels.rotation import Rotation as Rotation, rotations as rotations
from .kernels.spectral_mixture import SpectralMixture as SpectralMixture
from .kernels.squared_exponential import SquaredExponential as SquaredExponential
from .landmarks.choice import choose_landmarks as choose_landmarks
from .landmarks.model import (
    Landmark as Landmark,
    landmark_log_likelihood as landmark_log_likelihood,
)
from .likelihood.low_rank.error import (
    LowRankError as LowRankError,
    low_rank_error as low_rank_error,
)
from .likelihood.low_rank.view import Fourier as Fourier, Nystrom as Nystrom
from .likelihood.marginal import log_marginal_likelihood as log_marginal_likelihood
from .likelihood.noise import SamplingNoise as SamplingNoise
from .likelihood.volume import log_volume as log_volume
from .likelihood.way import Likelihood as Likelihood
from .linalg.pytrees import register_dataclass as register_dataclass
from .measures.measure import (
    Gaussian as Gaussian,
    Lebesgue as Lebesgue,
    Measure as Measure,
    Unit as Unit,
)
from .statistics.dependence import (
    alignment as alignment,
    constrained_covariance as constrained_covariance,
    dependence_posterior as dependence_posterior,
    dependence_witness as dependence_witness,
    hsic as hsic,
    normalised_hsic as normalised_hsic,
)
from .statistics.discrepancy import (
    embedding_inner_product as embedding_inner_product,
    gaussian_inner_product as gaussian_inner_product,
    mmd_terms as mmd_terms,
    normalised_mmd as normalised_mmd,
    squared_mmd as squared_mmd,
    squared_mmd_variance as squared_mmd_variance,
)
from .statistics.stein import (
    squared_stein_discrepancy as squared_stein_discrepancy,
    stein_matrix as stein_matrix,
)
from .student_t.density import (
    KernelStudentT as KernelStudentT,
    kernel_student_t as kernel_student_t,
    log_volume_element as log_volume_element,
)
from .student_t.quadrature import Normalizer as Normalizer, log_normalizer as log_normalizer
from .student_t.scores import (
    hyvarinen_scores as hyvarinen_scores,
    leave_one_out_log_densities as leave_one_out_log_densities,
    log_sequential_likelihood as log_sequential_likelihood,
)

__version__: str
