"""
How galaxies are spread over velocities
=======================================

What is the density of velocities, and which velocity would be unlike all others? The data are 82
galaxies with their velocities in 1000 km/s (Roeder, *Journal of the American Statistical
Association* 85, 1990, 617-624).
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
for velocity, density, share in zip(tried, densities, typical, strict=True):
    print(f"{velocity:g}: density {density:.4f}, typicality {share:.2f}")

_, ax = plt.subplots(figsize=(7.0, 4.0), layout="constrained")
plot_student_t(learned, names=["velocity (1000 km/s)"], ax=ax)

# %%
# The line is the predictive density of a new velocity, and ticks are the galaxies. Most are around
# 20 and 23, with small groups near 10 and 33, and a typicality of 0.01 says that a galaxy at 29 or
# at 40 would be unlike the others.
