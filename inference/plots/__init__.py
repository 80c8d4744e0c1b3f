"""Pictures: every function takes runs or arrays and returns a matplotlib ``Figure``.

Given axes are drawn on, else a new figure is made. Nothing is shown, and neither pyplot's current
figure nor its settings are touched.
"""

from .density import plot_densities, plot_samples
from .embedding import plot_embedding_posterior, plot_empirical_embedding, plot_prior_draws
from .likelihood_free import plot_abc, plot_ess, plot_stages
from .profile import plot_profile
from .trace import plot_rank, plot_trace
from .witness import plot_witness

__all__ = [
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
]
