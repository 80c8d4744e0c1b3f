"""
Density ratio of malignant and benign tumours
=============================================

How much more frequent is a mean radius among malignant tumours than among benign ones, and how
accurate is the estimate? The data are 569 tumours of the breast (Street, Wolberg and Mangasarian,
*Proceedings of SPIE* 1905, 1993, 861-870).
"""

import matplotlib.pyplot as plt
import numpy as np
from bke.inference import compare
from sklearn.datasets import load_breast_cancer

tumours = load_breast_cancer(as_frame=True)
radius = tumours.data["mean radius"].to_numpy()
malignant, benign = radius[tumours.target == 0], radius[tumours.target == 1]

comparison = compare(
    malignant, benign, labels="logit", names=("malignant", "benign"), columns=("radius",),
    progress=False,
)  # fmt: skip
print(comparison)
at = np.linspace(9.0, 21.0, 100)
ratio = comparison.density_ratio(at)

_, ax = plt.subplots(figsize=(7.0, 4.2), layout="constrained")
ax.fill_between(at, ratio.wide_lower, ratio.wide_upper, alpha=0.15, color="C0", label="95 %, all")
ax.fill_between(at, ratio.lower, ratio.upper, alpha=0.35, color="C0", label="95 %, each")
ax.plot(at, ratio.mean, color="C0", label="posterior mean")
ax.axhline(1.0, color="0.4", linewidth=0.8)
ax.set(yscale="log", xlabel="mean radius", ylabel="density, malignant / benign")
ax.legend(frameon=False)

# %%
# The line is the posterior mean of the density ratio, the darker band is its pointwise 95 % band,
# and the lighter band is simultaneous. The ratio crosses 1 near a radius of 14, and both bands are
# below 0.3 at 12 and above 10 at 18.
