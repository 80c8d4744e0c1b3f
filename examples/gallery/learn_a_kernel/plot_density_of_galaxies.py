"""
How galaxies are spread over velocities
=======================================

What is the density of velocities, and which velocity would be unlike all others? The data are 82
galaxies with their velocities in 1000 km/s (Roeder, *Journal of the American Statistical
Association* 85, 1990, 617-624).
"""

import matplotlib.pyplot as plt
import numpy as np
from bke.inference import learn_student_t, plot_student_t

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

learned = learn_student_t(velocities, progress=False)
print(learned)
for velocity in (20.0, 29.0, 40.0):
    print(f"typicality of {velocity:g}: {learned.typicality([velocity])[0]:.2f}")

_, ax = plt.subplots(figsize=(7.0, 4.0), layout="constrained")
plot_student_t(learned, names=["velocity (1000 km/s)"], ax=ax)

# %%
# The line is the predictive density of a new velocity, and ticks are the galaxies. Most are around
# 20 and 23, with small groups near 10 and 33, and a typicality of 0.01 says that a galaxy at 29 or
# at 40 would be unlike the others.
