"""How it is learned, checked and shown."""

from .diagnose import Convergence, Diagnosis, diagnose
from .errors import InputError, SamplingError
from .fit import fit
from .modes import Mode, Modes, find_modes
from .plots import (
    plot_densities,
    plot_embedding_posterior,
    plot_empirical_embedding,
    plot_prior_draws,
    plot_profile,
    plot_rank,
    plot_samples,
    plot_trace,
    plot_witness,
)
from .read import Sample, read_sample
from .run import load_run, save_run
from .samples import normal_laplace, normal_laplace_density
from .witness import Band, band, sample_witness

__all__ = [
    "Band",
    "Convergence",
    "Diagnosis",
    "InputError",
    "Mode",
    "Modes",
    "Sample",
    "SamplingError",
    "band",
    "diagnose",
    "find_modes",
    "fit",
    "load_run",
    "normal_laplace",
    "normal_laplace_density",
    "plot_densities",
    "plot_embedding_posterior",
    "plot_empirical_embedding",
    "plot_prior_draws",
    "plot_profile",
    "plot_rank",
    "plot_samples",
    "plot_trace",
    "plot_witness",
    "read_sample",
    "sample_witness",
    "save_run",
]
