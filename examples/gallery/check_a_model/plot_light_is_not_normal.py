"""
Posterior predictive check of Newcomb's measurements of light
=============================================================

Does a normal model predict the data to which it was fitted? The data are Newcomb's 66 passage
times of light of 1882, as deviations from 24 800 nanoseconds (Stigler, *Annals of Statistics* 5,
1977, 1055-1098).
"""

import arviz_base
import matplotlib.pyplot as plt
import numpy as np
from bke.inference import posterior_predictive_check

# fmt: off
times = np.array([
    28, 26, 33, 24, 34, -44, 27, 16, 40, -2, 29, 22, 24, 21, 25, 30, 23, 29, 31, 19, 24, 20,
    36, 32, 36, 28, 25, 21, 28, 29, 37, 25, 28, 26, 30, 32, 36, 26, 30, 22, 36, 23, 27, 27,
    28, 27, 31, 27, 26, 33, 26, 32, 32, 24, 39, 28, 24, 25, 32, 25, 29, 27, 28, 29, 16, 23,
], dtype=float)
# fmt: on

rng = np.random.default_rng(0)
variance = 65 * times.var(ddof=1) / rng.chisquare(65, size=400)
mean = rng.normal(times.mean(), np.sqrt(variance / 66))
predicted = rng.normal(mean[:, None], np.sqrt(variance)[:, None], size=(400, 66))
tree = arviz_base.from_dict(
    {"posterior_predictive": {"time": predicted[None]}, "observed_data": {"time": times}}
)
check = posterior_predictive_check(tree, progress=False)
print(check)

points = check.points[:, 0]
is_odd = np.abs(check.score) > check.reach
_, ax = plt.subplots(figsize=(7.0, 3.8), layout="constrained")
ax.axhspan(-check.reach, check.reach, color="0.93", label="95 % of predicted data sets")
ax.plot(points[~is_odd], check.score[~is_odd], ".", color="C0", label="predicted well")
ax.plot(points[is_odd], check.score[is_odd], "o", color="C1", label="not predicted")
ax.set(xlabel="nanoseconds - 24 800", ylabel="data - predictions, standard errors")
ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=3)

# %%
# Positive scores are at values that the data have more often than the predictions, and the gray
# band contains all scores of 95 % of predicted data sets. The check rejects the normal model (p =
# 0.005), and the only measurement outside the band is the smallest, -44.
