"""
Speed of light with outliers by minimum MMD
===========================================

What are the mean and the standard deviation of measurements, if a few of them went wrong? The data
are Newcomb's 66 passage times of 1882, as deviations from 24 800 nanoseconds, two of which are far
from the others (Stigler, *Annals of Statistics* 5, 1977, 1055-1098).
"""

import matplotlib.pyplot as plt
import numpy as np
import numpyro.distributions as dist
from bke.inference import minimum_mmd, mmd_posterior_bootstrap, plot_abc, vectorize

# fmt: off
times = np.array([
    28, 26, 33, 24, 34, -44, 27, 16, 40, -2, 29, 22, 24, 21, 25, 30, 23, 29, 31, 19, 24, 20,
    36, 32, 36, 28, 25, 21, 28, 29, 37, 25, 28, 26, 30, 32, 36, 26, 30, 22, 36, 23, 27, 27,
    28, 27, 31, 27, 26, 33, 26, 32, 32, 24, 39, 28, 24, 25, 32, 25, 29, 27, 28, 29, 16, 23,
], dtype=float)
# fmt: on


@vectorize
def simulate(rng, theta):
    noise = rng.normal(size=(len(theta["mean"]), len(times)))
    return theta["mean"][:, None] + theta["sd"][:, None] * noise


prior = {"mean": dist.Normal(20.0, 20.0), "sd": dist.LogNormal(2.0, 1.0)}
print(f"mean {times.mean():.1f} and standard deviation {times.std(ddof=1):.1f} of all times")
print(minimum_mmd(times, simulate, prior).to_dataframe())
run = mmd_posterior_bootstrap(times, simulate, prior, num_samples=200, progress=False)

_, axes = plt.subplots(1, 2, figsize=(9.0, 3.8), layout="constrained")
plot_abc(run, axes=axes)
axes[0].axvline(times.mean(), color="black", linestyle="--", linewidth=1.0)

# %%
# Lines are the posterior, over the shaded prior, and the dashed line is the mean of all times. The
# standard deviation of the model is about half that of all times.
