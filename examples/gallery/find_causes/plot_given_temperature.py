"""
Dependence of humidity and ozone given temperature
==================================================

Are humidity, wind and visibility related to ozone on days of the same temperature? The data are
every second of 330 days of 1976 in Los Angeles (Breiman and Friedman, *Journal of the American
Statistical Association* 80, 1985, 580-598).
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from bke.inference import conditional_independence_test, independence_test

# Days follow each other, and are taken for independent here.
days = pd.read_csv(Path(__file__).parents[2] / "data" / "ozone.csv").astype(float)[::2]
ozone, temperature = days["Ozone"], days["Temp"]
labels = {"Hum": "humidity", "Wind": "wind", "Vis": "visibility"}
marginal, conditional = [], []
for column in labels:
    marginal.append(independence_test(days[column], ozone, progress=False))
    conditional.append(
        conditional_independence_test(days[column], ozone, temperature, progress=False)
    )
print(conditional[0])

_, ax = plt.subplots(figsize=(7.0, 3.0), layout="constrained")
rows = np.arange(len(labels))
for tests, shift, label in (
    (marginal, -0.1, "unconditional"),
    (conditional, 0.1, "given temperature"),
):
    ax.plot([test.pvalue for test in tests], rows + shift, "o", label=label)
ax.axvline(0.05, color="0.4", linestyle="--", linewidth=0.8)
ax.set_yticks(rows, labels.values())
ax.set(xscale="log", xlabel="p-value of independence of ozone")
ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)

# %%
# Points left of the dashed line are p-values below 0.05: blue points test independence, and orange
# points test independence given temperature. Humidity and visibility depend on ozone given
# temperature (p = 0.001), and wind has no significant dependence in either test.
