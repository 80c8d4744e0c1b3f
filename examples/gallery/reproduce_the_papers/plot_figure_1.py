"""
Posterior of an embedding given 50 observations
===============================================

How far is the empirical embedding from the true one, and does the band contain the truth? The
data are simulated, because the truth must be known: 50 draws from a mixture of two normal
distributions, as in Figure 1 (C) of Flaxman, Sejdinovic, Cunningham and Filippi, *Bayesian
Learning of Kernel Embeddings* (UAI 2016).
"""

from functools import partial

import matplotlib.pyplot as plt
import numpy as np
from bke.inference import plot_embedding_posterior
from bke.models import SquaredExponential, gaussian_mixture_embedding

weights, means, deviations = np.array([0.4, 0.6]), np.array([-0.5, 0.5]), np.array([0.15, 0.25])
rng = np.random.default_rng(0)
component = rng.choice(2, size=50, p=weights)
X = rng.normal(means[component], deviations[component])
truth = partial(gaussian_mixture_embedding, weights, means, deviations, 0.1)

_, ax = plt.subplots(figsize=(7.0, 4.0), layout="constrained")
at = np.linspace(-0.9, 1.2, 300)
plot_embedding_posterior(X, SquaredExponential(0.1), at, truth=truth, level=0.8, ax=ax)
ax.set_ylim(-0.05, 0.4)
ax.set_title("lengthscale 0.1, 50 observations", loc="left")
ax.set_xlabel("x (ticks: observations)")

# %%
# The black line is the posterior mean, the gray band is the pointwise 80 % band, and the dashed
# line is the true embedding. The band contains the true embedding everywhere except just below the
# maximum of the second component, from 0.46 to 0.52, and is wider where there are no observations.
