"""
Where a turning point is, from noisy sightings
==============================================

How far from the truth is a filter that has only learned from a first series in which the truth
was known? The data are simulated, because the truth must be known: a point on a circle that turns
by 0.3 a step, seen with noise (the rotation of Fukumizu, Song and Gretton, *Journal of Machine
Learning Research* 14, 2013, 3753-3783).
"""

import matplotlib.pyplot as plt
import numpy as np
from bke.inference import learn_filter

rng = np.random.default_rng(0)
angle = np.cumsum(0.3 + 0.1 * rng.normal(size=300))
states = np.column_stack([np.cos(angle), np.sin(angle)])
seen = states + 0.3 * rng.normal(size=states.shape)

learned = learn_filter(
    states[:200], seen[:200], kernel_x="median", kernel_y="median", progress=False
)
print(learned)
filtered = learned.filter.filter(seen[200:])
ahead = learned.filter.predict(filtered, 2)
found, truth = filtered.mean(), states[200:]
for name, values in (("seen", seen[200:]), ("filtered", found)):
    print(f"{name}: root mean square error {np.sqrt(np.mean((values - truth) ** 2)):.3f}")
later = np.sqrt(np.mean((ahead.mean()[:-2] - truth[2:]) ** 2))
print(f"two steps ahead: {later:.3f}")

_, ax = plt.subplots(figsize=(8.0, 3.6), layout="constrained")
ax.plot(truth[:60, 0], color="0.2", label="truth")
ax.plot(seen[200:260, 0], ".", color="0.6", label="seen")
ax.plot(found[:60, 0], color="C1", label="filtered")
ax.set(xlabel="step", ylabel="first coordinate")
ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=3)

# %%
# Grey points are what is seen, and the filter is right where its line is on the black one. Its root
# mean square error is 0.13, that of what is seen 0.27, and two steps ahead it is 0.18.
