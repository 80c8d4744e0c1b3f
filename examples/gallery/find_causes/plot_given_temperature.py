"""
Whether humidity tells of ozone what temperature has not told
=============================================================

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
others = {"Hum": "humidity", "Wind": "wind", "Vis": "visibility"}
alone, given = [], []
for column in others:
    alone.append(independence_test(days[column], ozone, progress=False))
    given.append(conditional_independence_test(days[column], ozone, temperature, progress=False))
print(given[0])

_, ax = plt.subplots(figsize=(7.0, 3.0), layout="constrained")
rows = np.arange(len(others))
for tests, shift, label in ((alone, -0.1, "alone"), (given, 0.1, "given temperature")):
    ax.plot([test.pvalue for test in tests], rows + shift, "o", label=label)
ax.axvline(0.05, color="0.4", linestyle="--", linewidth=0.8)
ax.set_yticks(rows, others.values())
ax.set(xscale="log", xlabel="p-value of independence of ozone")
ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)

# %%
# Points on the left of the dashed line are p-values below 0.05, blue ones for the pair and orange
# ones for days of the same temperature. Humidity and visibility tell of ozone what temperature has
# not told (p = 0.001), and of wind nothing is found either way.
