"""
Annual cycle of ozone with a user-defined periodic kernel
=========================================================

What is the mean of ozone over the year, if the kernel is periodic? The data are 330 days of 1976
in Los Angeles in their order (Breiman and Friedman, *Journal of the American Statistical
Association* 80, 1985, 580-598), at equal intervals over the year, because the dates are not
given.
"""

from pathlib import Path

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from bke.inference import learn_conditional
from bke.models import kernel_from_function

days = pd.read_csv(Path(__file__).parents[2] / "data" / "ozone.csv")
ozone = days["Ozone"].to_numpy(dtype=float)
year_fraction = np.arange(330) / 330.0


def circle(x, y, *, width=0.15):
    return jnp.exp(-2.0 * jnp.sum((jnp.sin(jnp.pi * (x - y)) / (2.0 * jnp.pi * width)) ** 2))


kernel = kernel_from_function(circle)
conditional = learn_conditional(
    year_fraction, ozone, kernel_x=kernel, kernel_y="median", regularization=0.001
)
at = np.linspace(0.0, 1.0, 200)
mean, sd = conditional.expectation(at)[:, 0], np.sqrt(conditional.variance(at))[:, 0]
print(conditional)

_, ax = plt.subplots(figsize=(7.0, 4.0), layout="constrained")
ax.plot(year_fraction, ozone, ".", color="0.7", label="days")
ax.plot(at, mean, color="C0", label="mean")
ax.fill_between(at, mean - sd, mean + sd, color="C0", alpha=0.2, label="± 1 standard deviation")
ax.set(xlabel="fraction of the year", ylabel="ozone (parts per hundred million)")
ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=3)

# %%
# The line is the mean of ozone given the time of the year, and the band is one standard deviation
# of the days to each side. Ozone increases from 4 parts at the turn of the year to 19 in summer,
# and both ends of the line are equal because the kernel is periodic.
