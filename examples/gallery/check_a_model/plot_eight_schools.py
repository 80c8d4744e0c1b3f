"""
Stein test of a normal approximation for eight schools
======================================================

Where does a normal approximation of a posterior have too many or too few draws? The data are the
effects of coaching in eight schools with their standard errors (Rubin, *Journal of Educational
Statistics* 6, 1981, 377-401), and the parameters are the mean and the standard deviation of the
effects.
"""

import arviz_base
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import numpyro
import numpyro.distributions as dist
from bke.inference import plot_stein, score_of, stein_test

effects = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
errors = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def schools(effects):
    mean = numpyro.sample("mean", dist.Normal(0.0, 10.0))
    spread = numpyro.sample("spread", dist.HalfNormal(10.0))
    numpyro.sample("effect", dist.Normal(mean, jnp.hypot(spread, errors)), obs=effects)


# The approximation: independent normal distributions of the mean and of the logarithm of the
# spread, with the moments that the posterior has on a grid.
mean, log_spread = np.meshgrid(np.linspace(-20.0, 40.0, 200), np.linspace(-5.0, 4.0, 200))
variance = np.exp(2.0 * log_spread)[..., None] + errors**2
log_p = -0.5 * np.sum((effects - mean[..., None]) ** 2 / variance + np.log(variance), axis=-1)
log_p += log_spread - mean**2 / 200.0 - np.exp(2.0 * log_spread) / 200.0
p = np.exp(log_p - log_p.max())
draws = {}
rng = np.random.default_rng(0)
for name, values in (("mean", mean), ("spread", log_spread)):
    middle = np.average(values, weights=p)
    sd = np.sqrt(np.average((values - middle) ** 2, weights=p))
    draws[name] = rng.normal(middle, sd, size=(1, 1000))
draws["spread"] = np.exp(draws["spread"])

tree = arviz_base.from_dict({"posterior": draws})
test = stein_test(tree, score_of(schools, effects), progress=False)
print(test)

_, ax = plt.subplots(figsize=(6.5, 4.0), layout="constrained")
plot_stein(test, axes=ax)

# %%
# Where the line is above zero the approximation has too many draws, as a function of the logarithm
# of the standard deviation. It has far too many draws with large standard deviations, above
# exp(2.5) or 12 points, and the test rejects the approximation (p = 0.001).
