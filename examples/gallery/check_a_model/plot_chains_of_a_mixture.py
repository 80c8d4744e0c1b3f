"""
Agreement of chains for a mixture of galaxies
=============================================

Do four chains of a Gibbs sampler agree on a mixture of three normal distributions? The data are
the velocities of 82 galaxies in 1000 km/s (Roeder, *Journal of the American Statistical
Association* 85, 1990, 617-624).
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from bke.inference import compare_chains, plot_chains

data = Path(__file__).parents[2] / "data" / "galaxies.csv"
velocities = np.loadtxt(data, skiprows=1) / 1000.0

rng = np.random.default_rng(0)
chains = np.zeros((4, 1000, 3))
for chain in chains:
    mean, precision, proportions = rng.uniform(10.0, 30.0, size=3), np.ones(3), np.ones(3) / 3.0
    for step in range(-500, 1000):  # the first 500 are warm-up
        distance = velocities[:, None] - mean
        odds = proportions * np.sqrt(precision) * np.exp(-0.5 * precision * distance**2) + 1e-300
        below = np.cumsum(odds, axis=1) / odds.sum(axis=1, keepdims=True)
        of = np.eye(3)[np.sum(below < rng.random((82, 1)), axis=1).clip(max=2)]
        count = of.sum(axis=0)
        proportions = rng.dirichlet(1.0 + count)
        weight = precision * count + 0.01
        mean = rng.normal((precision * (velocities @ of) + 0.2) / weight, weight**-0.5)
        squares = np.sum(of * (velocities[:, None] - mean) ** 2, axis=0)
        precision = rng.gamma(2.0 + count / 2.0) / (1.0 + squares / 2.0)
        if step >= 0:
            chain[step] = np.sort(mean)

comparison = compare_chains(chains, columns=("lowest mean", "middle mean", "highest mean"))
print(comparison)

_, axes = plt.subplots(1, 3, figsize=(10.0, 2.8), layout="constrained")
plot_chains(comparison, axes=axes)

# %%
# Bars are the median of a chain with its central 50 and 90 %, and chains without significant
# differences have the same color. Chain 1 is in another mode: its lowest mean is 19.5 instead of
# 9.7, and its highest mean is 23 instead of 33.
