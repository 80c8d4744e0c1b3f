"""
Which family of kernels suits the velocities of galaxies
========================================================

Does a smooth kernel or one with a kink describe the distribution better, when each has learned
its lengthscale? The data are the velocities of 82 galaxies in 1000 km/s (Roeder, *Journal of the
American Statistical Association* 85, 1990, 617-624).
"""

import matplotlib.pyplot as plt
import numpy as np
from bke.inference import compare_kernels
from bke.models import Laplace, SquaredExponential

# fmt: off
velocities = np.array([
    9172, 9350, 9483, 9558, 9775, 10227, 10406, 16084, 16170, 18419, 18552, 18600, 18927, 19052,
    19070, 19330, 19343, 19349, 19440, 19473, 19529, 19541, 19547, 19663, 19846, 19856, 19863,
    19914, 19918, 19973, 19989, 20166, 20175, 20179, 20196, 20215, 20221, 20415, 20629, 20795,
    20821, 20846, 20875, 20986, 21137, 21492, 21701, 21814, 21921, 21960, 22185, 22209, 22242,
    22249, 22314, 22374, 22495, 22746, 22747, 22888, 22914, 23206, 23241, 23263, 23484, 23538,
    23542, 23666, 23706, 23711, 24129, 24285, 24289, 24366, 24717, 24990, 25633, 26960, 26995,
    32065, 32789, 34279,
]) / 1000.0
# fmt: on

families = {"squared exponential": SquaredExponential, "Laplace": Laplace}
compared = compare_kernels(velocities, families, folds=2, progress=False)
print(compared)

_, ax = plt.subplots(figsize=(6.0, 3.0), layout="constrained")
for row, (name, score) in enumerate(compared.scores.items()):
    ax.errorbar(score.held_out, row, xerr=score.held_out_error, fmt="o", label=name)
ax.axvline(1.0, color="0.4", linewidth=0.8)
ax.set_yticks(range(len(families)), families)
ax.set(ylim=(-0.6, 1.6), xlabel="held-out error of the model over that of the plain average")

# %%
# A point on the left of 1 says that the model predicts its own embedding better than the plain
# average does, with a bar of one standard error. FILL
