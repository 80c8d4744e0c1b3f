"""
Density of the velocities of galaxies
=====================================

What is the density of velocities, and which velocity would be an outlier? The data are the
velocities of 82 galaxies in 1000 km/s (Roeder, *Journal of the American Statistical Association*
85, 1990, 617-624).
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from bke.inference import learn_student_t, plot_student_t

data = Path(__file__).parents[2] / "data" / "galaxies.csv"
velocities = np.loadtxt(data, skiprows=1) / 1000.0

learned = learn_student_t(velocities, progress=False)
print(learned)
tried = np.array([10.0, 20.0, 29.0, 40.0])
densities = np.exp(learned.log_density(tried))
typical = learned.typicality(tried)
for velocity, density, probability in zip(tried, densities, typical, strict=True):
    print(f"{velocity:g}: density {density:.4f}, typicality {probability:.2f}")

_, ax = plt.subplots(figsize=(7.0, 4.0), layout="constrained")
plot_student_t(learned, names=["velocity (1000 km/s)"], ax=ax)

# %%
# The line is the predictive density of a new velocity, and ticks are the galaxies. Most galaxies
# are near 20 and 23, with small groups near 10 and 33, and galaxies at 29 or 40 would be outliers
# with a typicality of 0.01.
