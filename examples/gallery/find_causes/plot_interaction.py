"""
Interaction of humidity, temperature and ozone
==============================================

Does the relation of humidity and ozone depend on the temperature? The data are every second of 330
days of 1976 in Los Angeles (Breiman and Friedman, *Journal of the American Statistical Association*
80, 1985, 580-598).
"""

from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from bke.inference import lancaster_test

# Days follow each other, and are taken for independent here.
days = pd.read_csv(Path(__file__).parents[2] / "data" / "ozone.csv").astype(float)[::2]
test = lancaster_test(days["Hum"], days["Temp"], days["Ozone"], progress=False)
print(test)

_, axes = plt.subplots(1, 2, figsize=(7.0, 3.2), sharex=True, sharey=True, layout="constrained")
warm = days["Temp"] >= days["Temp"].median()
for ax, part, title in (
    (axes[0], days[~warm], "cooler half"),
    (axes[1], days[warm], "warmer half"),
):
    ax.scatter(part["Hum"], part["Ozone"], s=12)
    ax.set(title=title, xlabel="humidity (%)")
axes[0].set_ylabel("ozone (ppm)")

# %%
# The test rejects all three hypotheses that one variable is independent of the other two. Ozone
# increases with humidity in the warmer half of the days more than in the cooler half.
