"""
Density and typical values from the embedding of velocities
===========================================================

Which normal mixture has the mean embedding of a sample, and which few values stand for it? The data
are the velocities of 82 galaxies in 1000 km/s (Roeder, *Journal of the American Statistical
Association* 85, 1990, 617-624).
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from bke.inference import select_kernel
from bke.models import herd, mean_embedding, mixture_pre_image

data = Path(__file__).parents[2] / "data" / "galaxies.csv"
velocities = np.loadtxt(data, skiprows=1) / 1000.0

embedding = mean_embedding(velocities, select_kernel(velocities, "bkl"))
mixture = mixture_pre_image(embedding, 4)
for weight, mean, deviation in zip(
    mixture.weights, mixture.means[:, 0], mixture.standard_deviations, strict=True
):
    print(f"{weight:.2f} N({mean:.1f}, {deviation:.1f}^2)")
points = herd(embedding, 10)[:, 0]
print("ten values:", np.sort(points).round(1))
print(f"means: {velocities.mean():.2f}, of the mixture {mixture.mean()[0]:.2f}", end=", ")
print(f"of the ten values {points.mean():.2f}")

grid = np.linspace(5.0, 38.0, 400)
_, ax = plt.subplots(figsize=(7.0, 4.0), layout="constrained")
ax.hist(velocities, bins=np.arange(8.0, 36.0), density=True, color="0.85", label="galaxies")
ax.plot(grid, mixture.density(grid), label="mixture")
ax.plot(points, np.full(len(points), -0.004), "|", markersize=12, label="ten herded values")
ax.set(xlabel="velocity (1000 km/s)", ylabel="density")
ax.legend()

# %%
# The mixture has a narrow component near 19.6, small ones near 9.7 and 33, and the mean of the
# galaxies, 20.8. The ten values have the mean 20.1, because they leave out the fastest galaxies.
