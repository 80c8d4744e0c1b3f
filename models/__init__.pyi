"""The public names of ``bke.models``, each written here alone."""

from .embeddings.conditional import (
    ConditionalEmbedding as ConditionalEmbedding,
    conditional_embedding as conditional_embedding,
)
from .embeddings.conditional_posterior import (
    ConditionalPosterior as ConditionalPosterior,
    conditional_posterior as conditional_posterior,
    log_conditional_evidence as log_conditional_evidence,
)
from .embeddings.embedding import (
    Embedding as Embedding,
    leave_one_out_scores as leave_one_out_scores,
    mean_embedding as mean_embedding,
    shrinkage_amount as shrinkage_amount,
    shrunk_embedding as shrunk_embedding,
    spectral_embedding as spectral_embedding,
)
from .embeddings.filtering import (
    KernelBayesFilter as KernelBayesFilter,
    StateEstimates as StateEstimates,
    kernel_bayes_filter as kernel_bayes_filter,
)
from .embeddings.posterior import (
    EmbeddingPosterior as EmbeddingPosterior,
    embedding_posterior as embedding_posterior,
    empirical_embedding as empirical_embedding,
    gaussian_mixture_embedding as gaussian_mixture_embedding,
    landmark_embedding_posterior as landmark_embedding_posterior,
    posterior_mean_embedding as posterior_mean_embedding,
)
from .embeddings.pre_image import (
    PreImage as PreImage,
    pre_image as pre_image,
    reduced_embedding as reduced_embedding,
)
from .embeddings.recovery import (
    NormalMixture as NormalMixture,
    herd as herd,
    mixture_pre_image as mixture_pre_image,
)
from .embeddings.rules import (
    BayesRule as BayesRule,
    JointEmbedding as JointEmbedding,
    bayes_rule as bayes_rule,
    function_embedding as function_embedding,
    product_rule as product_rule,
    sum_rule as sum_rule,
)
from .kernels.algebra import Product as Product, Scaled as Scaled, Sum as Sum
from .kernels.base import (
    Covariance as Covariance,
    Kernel as Kernel,
    Radial as Radial,
    SmoothingError as SmoothingError,
    Stationary as Stationary,
)
from .kernels.covariance import parameter as parameter
from .kernels.embedding_kernels import (
    Dirac as Dirac,
    Distance as Distance,
    Polynomial as Polynomial,
    Rotation as Rotation,
    rotations as rotations,
)
from .kernels.matern import Laplace as Laplace, Matern as Matern
from .kernels.rational_quadratic import RationalQuadratic as RationalQuadratic
from .kernels.squared_exponential import (
    FullSquaredExponential as FullSquaredExponential,
    GaussianMixture as GaussianMixture,
    SpectralMixture as SpectralMixture,
    SquaredExponential as SquaredExponential,
)
from .kernels.user_kernels import (
    kernel_from_function as kernel_from_function,
    kernel_from_path as kernel_from_path,
)
from .likelihood.base import Likelihood as Likelihood
from .likelihood.jacobian import log_jacobian as log_jacobian
from .likelihood.landmark import (
    Landmark as Landmark,
    choose_landmarks as choose_landmarks,
    landmark_log_likelihood as landmark_log_likelihood,
)
from .likelihood.low_rank import (
    Fourier as Fourier,
    LowRankError as LowRankError,
    Nystrom as Nystrom,
    low_rank_error as low_rank_error,
)
from .likelihood.marginal import log_marginal_likelihood as log_marginal_likelihood
from .likelihood.noise import SamplingNoise as SamplingNoise
from .linalg.pytrees import register_dataclass as register_dataclass
from .measures import (
    Gaussian as Gaussian,
    Lebesgue as Lebesgue,
    Measure as Measure,
    Unit as Unit,
)
from .numpyro_models import (
    bke_model as bke_model,
    conditional_model as conditional_model,
    distribution_regression_model as distribution_regression_model,
    log_difference_evidence as log_difference_evidence,
    two_scale_model as two_scale_model,
)
from .statistics.dependence import (
    alignment as alignment,
    constrained_covariance as constrained_covariance,
    dependence_posterior as dependence_posterior,
    dependence_witness as dependence_witness,
    hsic as hsic,
    normalized_hsic as normalized_hsic,
)
from .statistics.discrepancy import (
    embedding_inner_product as embedding_inner_product,
    gaussian_inner_product as gaussian_inner_product,
    mmd_terms as mmd_terms,
    normalized_mmd as normalized_mmd,
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
