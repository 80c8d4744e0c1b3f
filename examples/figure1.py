r"""
The model in one dimension
==========================

Figure 1 of Flaxman, Sejdinovic, Cunningham and Filippi, *Bayesian Learning of Kernel Embeddings*
(UAI 2016): what the prior of a kernel mean embedding looks like, what the data say about it, and
its posterior. The kernel's lengthscale is fixed here; ``figure3to5.py`` learns it.

Run it as ``python figure1.py --out FOLDER``.
"""

import argparse
from functools import partial
from pathlib import Path

import numpy as np
from bke.inference import plot_embedding_posterior, plot_empirical_embedding, plot_prior_draws
from bke.models import SquaredExponential, gaussian_mixture_embedding

parser = argparse.ArgumentParser(description="BKE Figure 1.")
parser.add_argument("--out", type=Path, default=Path("figure1-output"), help="folder of the files")
parser.add_argument("--seed", type=int, default=0, help="of the data and of the prior draws")
parser.add_argument("--quick", action="store_true", help="fewer points")
options = parser.parse_args()
options.out.mkdir(parents=True, exist_ok=True)


def saved(figure, name):
    """Write a picture to the output folder and hand it on, for a gallery to show."""
    figure.savefig(options.out / f"{name}.png")
    return figure


# %%
# The data
# --------
# The caption of the figure gives the kernel, squared exponential with lengthscale 0.1, and says
# that the data come from a mixture of Gaussians; it does not say which one. This one has two
# components. The text of the paper gives another lengthscale for panel A, 0.25. We follow the
# caption: one lengthscale for all three panels.

LENGTHSCALE = 0.1
WEIGHTS, MEANS, DEVIATIONS = np.array([0.4, 0.6]), np.array([-0.5, 0.5]), np.array([0.15, 0.25])
kernel = SquaredExponential(LENGTHSCALE)
generator = np.random.default_rng(options.seed)
count = 20 if options.quick else 50
component = generator.choice(2, size=count, p=WEIGHTS)
X = generator.normal(MEANS[component], DEVIATIONS[component])
at = np.linspace(-1.2, 1.4, 80 if options.quick else 300)
print(f"{count} points, lengthscale {LENGTHSCALE}")

# %%
# A: the prior
# ------------
# Three draws from GP(0, r), where r is the kernel convolved with itself, scaled to 1 at distance 0.
# They are smoother than draws from a Gaussian process with the kernel itself: with a finite measure
# in place of the uniform one here, they lie in the space of the kernel.

saved(plot_prior_draws(kernel, at, draws=3, seed=options.seed), "figure1a")

# %%
# B: the empirical embedding
# --------------------------
# The average of kernels centred at the data, the ticks on the axis. It is what the likelihood
# links to the embedding.

saved(plot_empirical_embedding(X, kernel, at), "figure1b")

# %%
# C: the posterior
# ----------------
# Posterior mean, an 80 % band at each point, and the true embedding, which for a mixture of
# Gaussians is known exactly. The noise of the empirical embedding is its sampling covariance, from
# the central limit theorem. An embedding need not be positive, so bands may go below zero; far from
# the data the prior takes over.

truth = partial(gaussian_mixture_embedding, WEIGHTS, MEANS, DEVIATIONS, LENGTHSCALE)
saved(plot_embedding_posterior(X, kernel, at, truth=truth), "figure1c")

# %%
# With the noise variance of the paper, 0.1, the band is several times wider: that is far more noise
# than the empirical embedding has.

saved(plot_embedding_posterior(X, kernel, at, truth=truth, noise=0.1), "figure1c-noise0.1")
