"""The public names of ``bke.inference``, each written here alone."""

from .comparison.compare import compare as compare
from .comparison.comparison import Comparison as Comparison
from .comparison.matching import (
    MatchedWeights as MatchedWeights,
    Moment as Moment,
    match_weights as match_weights,
)
from .comparison.regions import Region as Region
from .core.errors import InputError as InputError, SamplingError as SamplingError
from .data.samples import (
    normal_laplace as normal_laplace,
    normal_laplace_density as normal_laplace_density,
)
from .diagnostics.diagnosis import (
    Convergence as Convergence,
    Diagnosis as Diagnosis,
    diagnose as diagnose,
)
from .diagnostics.integral import Integral as Integral
from .diagnostics.modes import Mode as Mode, Modes as Modes, find_modes as find_modes
from .diagnostics.reweight import reweight as reweight
from .filtering import (
    LearnedFilter as LearnedFilter,
    learn_conditional as learn_conditional,
    learn_conditional_posterior as learn_conditional_posterior,
    learn_filter as learn_filter,
)
from .io.samples import Sample as Sample, read_sample as read_sample
from .learning.comparison import (
    KernelComparison as KernelComparison,
    KernelScore as KernelScore,
    compare_kernels as compare_kernels,
)
from .learning.kernel_selection import select_kernel as select_kernel
from .learning.maximum_likelihood import (
    LearnedKernel as LearnedKernel,
    Peak as Peak,
    learn_kernel as learn_kernel,
)
from .learning.scikit_learn import (
    from_sklearn as from_sklearn,
    rbf_gamma as rbf_gamma,
    to_sklearn as to_sklearn,
)
from .likelihood_free.abc import (
    abc as abc,
    k2_abc as k2_abc,
    sequential_abc as sequential_abc,
    sequential_k2_abc as sequential_k2_abc,
)
from .likelihood_free.distances import MMD as MMD, Summaries as Summaries
from .likelihood_free.minimum_distance import (
    minimum_mmd as minimum_mmd,
    mmd_posterior_bootstrap as mmd_posterior_bootstrap,
)
from .likelihood_free.pseudo_marginal import synthetic_likelihood as synthetic_likelihood
from .likelihood_free.results import (
    MMDEstimate as MMDEstimate,
    posterior_table as posterior_table,
    resample as resample,
    with_epsilon as with_epsilon,
)
from .likelihood_free.simulators import jax_simulator as jax_simulator, vectorize as vectorize
from .mcmc.chain_clusters import ClusterMass as ClusterMass
from .mcmc.compare_chains import (
    ChainComparison as ChainComparison,
    compare_chains as compare_chains,
)
from .mcmc.score import Score as Score, score_of as score_of
from .mcmc.stein_test import (
    Contribution as Contribution,
    SteinResult as SteinResult,
    stein_test as stein_test,
)
from .mcmc.thinning import Thinned as Thinned, thin as thin
from .monitoring.monitor import Monitor as Monitor, MonitorState as MonitorState
from .monitoring.multiple_monitors import Monitors as Monitors, e_bh as e_bh
from .monitoring.sequential_test import Change as Change, ChangePoint as ChangePoint
from .plots.chains import plot_chains as plot_chains, plot_stein as plot_stein
from .plots.comparison import plot_comparison as plot_comparison
from .plots.density import (
    plot_densities as plot_densities,
    plot_samples as plot_samples,
    plot_student_t as plot_student_t,
)
from .plots.embedding import (
    plot_embedding_posterior as plot_embedding_posterior,
    plot_empirical_embedding as plot_empirical_embedding,
    plot_prior_draws as plot_prior_draws,
)
from .plots.likelihood_free import (
    plot_abc as plot_abc,
    plot_ess as plot_ess,
    plot_stages as plot_stages,
)
from .plots.monitoring import plot_monitor as plot_monitor, plot_monitors as plot_monitors
from .plots.profile import plot_profile as plot_profile
from .plots.regression import plot_regression as plot_regression
from .plots.tables import plot_tables as plot_tables
from .plots.testing import plot_matching as plot_matching
from .plots.trace import (
    mode_colors as mode_colors,
    plot_rank as plot_rank,
    plot_trace as plot_trace,
)
from .plots.witness import plot_witness as plot_witness
from .regression.regressor import (
    DistributionRegressor as DistributionRegressor,
    RegressionSummary as RegressionSummary,
)
from .regression.support_measures import (
    GroupAnomalyDetector as GroupAnomalyDetector,
    SupportMeasureClassifier as SupportMeasureClassifier,
)
from .sampling.files import load_run as load_run, save_run as save_run
from .sampling.fit import fit as fit
from .sampling.open_run import OpenRun as OpenRun, open_run as open_run
from .sampling.samplers import Nuts as Nuts, Quadrature as Quadrature, Smc as Smc
from .streams.rows import Rows as Rows, open_blocks as open_blocks, open_rows as open_rows
from .student_t.estimator import KernelStudentTDensity as KernelStudentTDensity
from .student_t.learning import (
    LearnedStudentT as LearnedStudentT,
    learn_student_t as learn_student_t,
)
from .student_t.sampling import (
    fantasy_data as fantasy_data,
    sample_student_t as sample_student_t,
    student_t_posterior as student_t_posterior,
    student_t_predictive as student_t_predictive,
)
from .student_t.two_sample import (
    TwoDensityResult as TwoDensityResult,
    two_density_test as two_density_test,
)
from .tables.compare_tables import (
    compare_groups as compare_groups,
    compare_tables as compare_tables,
)
from .tables.findings import PairComparison as PairComparison
from .tables.result import (
    ColumnComparison as ColumnComparison,
    GroupsComparison as GroupsComparison,
    TableComparison as TableComparison,
)
from .testing.bayesian import (
    BayesianTestResult as BayesianTestResult,
    bayesian_two_sample_test as bayesian_two_sample_test,
)
from .testing.causal import CausalGraph as CausalGraph, Edge as Edge, causal_graph as causal_graph
from .testing.causal_direction import (
    AdditiveNoiseModel as AdditiveNoiseModel,
    CausalDirection as CausalDirection,
    causal_direction as causal_direction,
)
from .testing.independence import (
    conditional_independence_test as conditional_independence_test,
    independence_test as independence_test,
)
from .testing.joint_independence import lancaster_test as lancaster_test
from .testing.mean_embedding import mean_embedding_test as mean_embedding_test
from .testing.models import (
    goodness_of_fit_test as goodness_of_fit_test,
    relative_similarity_test as relative_similarity_test,
)
from .testing.predictive import (
    PredictiveCheck as PredictiveCheck,
    posterior_predictive_check as posterior_predictive_check,
)
from .testing.residuals import regress_out as regress_out
from .testing.result import TestComponent as TestComponent, TestResult as TestResult
from .testing.two_sample import two_sample_test as two_sample_test
from .witness.bands import CredibleBand as CredibleBand, credible_band as credible_band
from .witness.posterior import sample_witness as sample_witness
from .witness.testing import (
    sample_dependence_witness as sample_dependence_witness,
    sample_test_witness as sample_test_witness,
)

__version__: str
