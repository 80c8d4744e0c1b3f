"""
Velocities of galaxies in a NumPyro program
===========================================

At what lengthscale are the velocities of galaxies distributed, under a user-defined prior? The
data are the velocities of 82 galaxies in the Corona Borealis region (Roeder, *Journal of the
American Statistical Association* 85, 1990, 617-624).
"""

from pathlib import Path

import jax
import matplotlib.pyplot as plt
import numpyro
import numpyro.distributions as dist
import pandas as pd
from bke.inference import diagnose, plot_profile
from bke.models import bke_model
from numpyro.infer import MCMC, NUTS

numpyro.enable_x64()
galaxies = pd.read_csv(Path(__file__).parents[2] / "data" / "galaxies.csv")
velocity = galaxies["velocity (km/s)"].to_numpy() / 1000.0

mcmc = MCMC(
    NUTS(bke_model, target_accept_prob=0.5, max_tree_depth=6),
    num_warmup=200,
    num_samples=200,
    num_chains=4,
    chain_method="vectorized",
    progress_bar=False,
)
mcmc.run(jax.random.key(0), velocity, prior=dist.LogNormal(0.0, 1.0))
print(diagnose(mcmc))

_, axes = plt.subplots(2, 1, figsize=(7.0, 5.5), layout="constrained")
plot_profile(mcmc, axes=axes)

# %%
# The black line is the log density with its narrow zeros, and the marks are the medians of the
# four chains, which are all in the mode near 2 thousand km/s; the mode at 0.6 has a log mass lower
# by 29. R-hat is 1.6 because chains of this length rarely cross the zeros, so the default of `fit`
# is quadrature here.
