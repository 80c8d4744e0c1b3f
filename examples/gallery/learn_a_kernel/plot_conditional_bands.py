"""
Bands of ozone given the temperature
====================================

How do the mean of ozone, and the probability of more than 15 parts, depend on the temperature?
The data are 330 days of 1976 in Los Angeles (Breiman and Friedman, *Journal of the American
Statistical Association* 80, 1985, 580-598).
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from bke.inference import learn_conditional_posterior
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

days = pd.read_csv(Path(__file__).parents[2] / "data" / "ozone.csv").astype(float)
temperature, ozone = days["Temp"].to_numpy(), days["Ozone"].to_numpy()
posterior = learn_conditional_posterior(temperature, ozone, factors=(0.25, 0.5, 1.0, 2.0, 4.0))
print(posterior)

at = np.linspace(temperature.min(), temperature.max(), 80)
kernel = ConstantKernel() * RBF(20.0) + WhiteKernel()
regression = GaussianProcessRegressor(kernel, normalize_y=True).fit(temperature[:, None], ozone)
mean, deviation = regression.predict(at[:, None], return_std=True)
noise = regression.kernel_.k2.noise_level * ozone.var()
half = 1.2816 * np.sqrt(deviation**2 - noise)  # 80 %, of the mean without the noise of a day

_, axes = plt.subplots(1, 2, figsize=(9.5, 4.0), layout="constrained")
functions = {"ozone (parts per hundred million)": None, "probability of more than 15 parts": 15.0}
for ax, (label, limit) in zip(axes, functions.items(), strict=True):
    values = (lambda y: y) if limit is None else (lambda y, limit=limit: y > limit)
    lower, upper = posterior.interval(at, values, level=0.8)[:, 0].T
    ax.plot(temperature, values(ozone), ".", color="0.75", label="days")
    ax.plot(at, posterior.expectation(at, values), label="conditional expectation")
    ax.fill_between(at, lower, upper, alpha=0.3, linewidth=0, label="band of 80 %")
    ax.set(xlabel="temperature (°F)", ylabel=label)
    print(f"{label} at {at[40]:.0f} °F: {lower[40]:.2f} to {upper[40]:.2f}")
axes[0].plot(at, mean - half, "--", color="C1", label="band of Gaussian process regression")
axes[0].plot(at, mean + half, "--", color="C1")
axes[0].legend(frameon=False)

# %%
# One posterior has the bands of both functions. Those of the mean are compared with the band of
# Gaussian process regression of ozone on the temperature.
