"""How it is learned, checked and shown.

Names are imported when first used: ``bke --help`` need not wait for JAX.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .causal import CausalGraph, Edge, causal_graph
    from .comparing import KernelComparison, KernelScore, compare_kernels
    from .convergence import Convergence
    from .diagnosis import Diagnosis, Integral, diagnose
    from .errors import InputError, SamplingError
    from .fitting import fit
    from .learning import LearnedKernel, Peak, learn_kernel
    from .likelihood_free.distances import MMD, Summaries
    from .likelihood_free.importance import abc, k2_abc
    from .likelihood_free.run import resample, reweighted
    from .likelihood_free.sequential import sequential_abc, sequential_k2_abc
    from .likelihood_free.simulators import jax_simulator, vectorised
    from .likelihood_free.synthetic_likelihood import synthetic_likelihood
    from .likelihood_free.table import posterior_table
    from .modes import Mode, Modes, find_modes
    from .operators.conditional import learn_conditional
    from .operators.filtering import LearnedFilter, learn_filter
    from .operators.kernels import kernel_of
    from .plots import (
        plot_abc,
        plot_densities,
        plot_embedding_posterior,
        plot_empirical_embedding,
        plot_ess,
        plot_prior_draws,
        plot_profile,
        plot_rank,
        plot_samples,
        plot_stages,
        plot_trace,
        plot_witness,
    )
    from .read import Sample, read_sample
    from .reweighting import reweight
    from .run import load_run, save_run
    from .samples import normal_laplace, normal_laplace_density
    from .scikit_learn import gamma, to_sklearn
    from .sketches.comparison import SketchComparison, compare_sketches
    from .sketches.sketch import Sketch, sketch
    from .sketches.store import load_sketch, save_sketch
    from .streams.source import Rows, open_rows
    from .testing.conditional import conditional_independence_test
    from .testing.independence import independence_test
    from .testing.mean_embedding import mean_embedding_test
    from .testing.models import goodness_of_fit_test, relative_similarity_test
    from .testing.predictive import PredictiveCheck, posterior_predictive_check
    from .testing.residuals import regress_out
    from .testing.result import Part, TestResult
    from .testing.two_sample import two_sample_test
    from .testing.witness import sample_dependence_witness, sample_test_witness
    from .witness import Band, band, sample_witness

_MODULES = {
    "Band": "witness",
    "CausalGraph": "causal",
    "Convergence": "convergence",
    "Diagnosis": "diagnosis",
    "Edge": "causal",
    "InputError": "errors",
    "Integral": "diagnosis",
    "KernelComparison": "comparing",
    "KernelScore": "comparing",
    "LearnedFilter": "operators.filtering",
    "LearnedKernel": "learning",
    "MMD": "likelihood_free.distances",
    "Mode": "modes",
    "Modes": "modes",
    "Part": "testing.result",
    "Peak": "learning",
    "PredictiveCheck": "testing.predictive",
    "Rows": "streams.source",
    "Sample": "read",
    "SamplingError": "errors",
    "Sketch": "sketches.sketch",
    "SketchComparison": "sketches.comparison",
    "Summaries": "likelihood_free.distances",
    "TestResult": "testing.result",
    "abc": "likelihood_free.importance",
    "band": "witness",
    "causal_graph": "causal",
    "compare_kernels": "comparing",
    "compare_sketches": "sketches.comparison",
    "conditional_independence_test": "testing.conditional",
    "diagnose": "diagnosis",
    "find_modes": "modes",
    "fit": "fitting",
    "gamma": "scikit_learn",
    "goodness_of_fit_test": "testing.models",
    "independence_test": "testing.independence",
    "jax_simulator": "likelihood_free.simulators",
    "k2_abc": "likelihood_free.importance",
    "kernel_of": "operators.kernels",
    "learn_conditional": "operators.conditional",
    "learn_filter": "operators.filtering",
    "learn_kernel": "learning",
    "load_run": "run",
    "load_sketch": "sketches.store",
    "mean_embedding_test": "testing.mean_embedding",
    "normal_laplace": "samples",
    "normal_laplace_density": "samples",
    "open_rows": "streams.source",
    "plot_abc": "plots",
    "plot_densities": "plots",
    "plot_embedding_posterior": "plots",
    "plot_empirical_embedding": "plots",
    "plot_ess": "plots",
    "plot_prior_draws": "plots",
    "plot_profile": "plots",
    "plot_rank": "plots",
    "plot_samples": "plots",
    "plot_stages": "plots",
    "plot_trace": "plots",
    "plot_witness": "plots",
    "posterior_predictive_check": "testing.predictive",
    "posterior_table": "likelihood_free.table",
    "read_sample": "read",
    "regress_out": "testing.residuals",
    "relative_similarity_test": "testing.models",
    "resample": "likelihood_free.run",
    "reweight": "reweighting",
    "reweighted": "likelihood_free.run",
    "sample_dependence_witness": "testing.witness",
    "sample_test_witness": "testing.witness",
    "sample_witness": "witness",
    "save_run": "run",
    "save_sketch": "sketches.store",
    "sequential_abc": "likelihood_free.sequential",
    "sequential_k2_abc": "likelihood_free.sequential",
    "sketch": "sketches.sketch",
    "synthetic_likelihood": "likelihood_free.synthetic_likelihood",
    "to_sklearn": "scikit_learn",
    "two_sample_test": "testing.two_sample",
    "vectorised": "likelihood_free.simulators",
}

__all__ = [
    "MMD",
    "Band",
    "CausalGraph",
    "Convergence",
    "Diagnosis",
    "Edge",
    "InputError",
    "Integral",
    "KernelComparison",
    "KernelScore",
    "LearnedFilter",
    "LearnedKernel",
    "Mode",
    "Modes",
    "Part",
    "Peak",
    "PredictiveCheck",
    "Rows",
    "Sample",
    "SamplingError",
    "Sketch",
    "SketchComparison",
    "Summaries",
    "TestResult",
    "abc",
    "band",
    "causal_graph",
    "compare_kernels",
    "compare_sketches",
    "conditional_independence_test",
    "diagnose",
    "find_modes",
    "fit",
    "gamma",
    "goodness_of_fit_test",
    "independence_test",
    "jax_simulator",
    "k2_abc",
    "kernel_of",
    "learn_conditional",
    "learn_filter",
    "learn_kernel",
    "load_run",
    "load_sketch",
    "mean_embedding_test",
    "normal_laplace",
    "normal_laplace_density",
    "open_rows",
    "plot_abc",
    "plot_densities",
    "plot_embedding_posterior",
    "plot_empirical_embedding",
    "plot_ess",
    "plot_prior_draws",
    "plot_profile",
    "plot_rank",
    "plot_samples",
    "plot_stages",
    "plot_trace",
    "plot_witness",
    "posterior_predictive_check",
    "posterior_table",
    "read_sample",
    "regress_out",
    "relative_similarity_test",
    "resample",
    "reweight",
    "reweighted",
    "sample_dependence_witness",
    "sample_test_witness",
    "sample_witness",
    "save_run",
    "save_sketch",
    "sequential_abc",
    "sequential_k2_abc",
    "sketch",
    "synthetic_likelihood",
    "to_sklearn",
    "two_sample_test",
    "vectorised",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_MODULES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
