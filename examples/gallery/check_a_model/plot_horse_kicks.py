"""
Goodness of fit of a Poisson distribution to deaths by horse kicks
==================================================================

Does a Poisson distribution fit the numbers of deaths by horse kicks? The data are 200 years of
ten corps of the Prussian army (Bortkiewicz, *Das Gesetz der kleinen Zahlen*, 1898), and the
Poisson distribution has their mean, 0.61.
"""

import matplotlib.pyplot as plt
import numpy as np
from bke.inference import goodness_of_fit_test
from scipy.stats import poisson

deaths = np.repeat([0.0, 1.0, 2.0, 3.0, 4.0], [109, 65, 22, 3, 1])


def sampler(rng, count):
    return rng.poisson(0.61, size=count).astype(float)


test = goodness_of_fit_test(deaths, sampler, draws=2000, progress=False)
print(test)

numbers = np.arange(6)
expected = 200 * poisson.pmf(numbers, 0.61)
error = expected - poisson.ppf([[0.025], [0.975]], expected)
_, ax = plt.subplots(figsize=(6.0, 3.8), layout="constrained")
ax.bar(numbers, np.bincount(deaths.astype(int), minlength=6), color="0.8", label="observed")
ax.errorbar(numbers, expected, yerr=np.abs(error), fmt="o", color="C0", label="Poisson, 95 %")
ax.set(xlabel="deaths in a corps and year", ylabel="number of corps and years")
ax.legend(frameon=False)
ax.set_title(f"p = {test.pvalue:.3f}", loc="left")

# %%
# Bars are the observed numbers, and points are the expected numbers of a Poisson distribution with
# central 95 % intervals. All observed numbers are within the intervals, and the test does not
# reject (p = 0.999); the p-value is too large because the mean was estimated from the same data.
