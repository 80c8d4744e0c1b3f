"""
Functions of humidity and ozone given temperature
=================================================

Do weather and ozone depend on each other on days of the same temperature, if functions of both are
regressed on temperature, and not only their values? The data are every second of 330 days of 1976
in Los Angeles (Breiman and Friedman, *Journal of the American Statistical Association* 80, 1985,
580-598).
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from bke.inference import conditional_independence_test

# Days follow each other, and are taken for independent here.
days = pd.read_csv(Path(__file__).parents[2] / "data" / "ozone.csv").astype(float)[::2]
ozone, temperature = days["Ozone"], days["Temp"]
others = {"Hum": "humidity", "Wind": "wind", "Vis": "visibility"}
labels = {"residuals": "HSIC of residuals", "kci": "KCI"}

_, ax = plt.subplots(figsize=(7.0, 3.0), layout="constrained")
rows = np.arange(len(others))
for statistic, shift in (("residuals", -0.1), ("kci", 0.1)):
    tests = [
        conditional_independence_test(
            days[column], ozone, temperature, statistic=statistic, kernel="median", progress=False
        )
        for column in others
    ]
    print(*tests, sep="\n")
    pvalues = [test.pvalue for test in tests]
    ax.plot(pvalues, rows + shift, "o", label=labels[statistic])
ax.axvline(0.05, color="0.4", linestyle="--", linewidth=0.8)
ax.set_yticks(rows, others.values())
ax.set(xscale="log", xlabel="p-value of independence of ozone given temperature")
ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)

# %%
# Points left of the dashed line are p-values below 0.05. Both tests find a dependence of ozone on
# humidity and on visibility given temperature (p ≤ 0.003), and none on wind.
