"""
The model in one dimension
==========================

Figure 1 of Flaxman, Sejdinovic, Cunningham and Filippi, *Bayesian Learning of Kernel Embeddings*
(UAI 2016): prior, empirical embedding and posterior of a kernel mean embedding. The lengthscale
of the kernel is fixed; ``figure3to5.py`` learns it.

Run it as ``python figure1.py --out FOLDER``.
"""

import argparse
from functools import partial
from pathlib import Path

import numpy as np
from bke.inference import plot_embedding_posterior, plot_empirical_embedding, plot_prior_draws
from bke.models import SquaredExponential, gaussian_mixture_embedding

parser = argparse.ArgumentParser(description="BKE Figure 1.")
parser.add_argument("--out", type=Path, default=Path("figure1-output"), help="output folder")
parser.add_argument("--seed", type=int, default=0, help="seed of the data and the prior draws")
parser.add_argument("--quick", action="store_true", help="fewer points")
options = parser.parse_args()
options.out.mkdir(parents=True, exist_ok=True)


def saved(figure, name):
    """Save a figure in the output folder and return it."""
    figure.savefig(options.out / f"{name}.png")
    return figure


# %%
# The data
# --------
# The caption of the figure states the kernel, squared exponential with lengthscale 0.1, and a
# mixture of Gaussians without its parameters. This script uses a mixture of two components. The
# text of the paper states another lengthscale, 0.25, for panel A. This script uses that of the
# caption for all three panels.

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
# Three draws from GP(0, r), where r is the convolution of the kernel with itself, scaled to 1 at
# distance 0. They are smoother than draws from a Gaussian process with the kernel as covariance.
# With a finite measure instead of the uniform one they are in the RKHS of the kernel.

saved(plot_prior_draws(kernel, at, draws=3, seed=options.seed), "figure1a")

# %%
# B: the empirical embedding
# --------------------------
# The average of kernels at the data, which are the ticks on the axis. The likelihood compares the
# embedding with it.

saved(plot_empirical_embedding(X, kernel, at), "figure1b")

# %%
# C: the posterior
# ----------------
# Posterior mean, pointwise 80 % band, and the true embedding, which has closed form for a mixture
# of Gaussians. The noise of the empirical embedding is its sampling covariance, from the central
# limit theorem. An embedding may be negative, so bands may extend below zero. Far from the data the
# posterior equals the prior.

truth = partial(gaussian_mixture_embedding, WEIGHTS, MEANS, DEVIATIONS, LENGTHSCALE)
saved(plot_embedding_posterior(X, kernel, at, truth=truth), "figure1c")

# %%
# With the noise variance of the paper, 0.1, which is much larger than the sampling variance, the
# band is several times wider.

saved(plot_embedding_posterior(X, kernel, at, truth=truth, noise=0.1), "figure1c-noise0.1")
