"""
Cause and effect of the season and the temperature
==================================================

Does the day of the year cause the temperature, or the temperature the day? The data are 330 days of
1976 in Los Angeles (Breiman and Friedman, *Journal of the American Statistical Association* 80,
1985, 580-598), where the answer is known.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from bke.inference import causal_direction

# Every third day, so that the weather hardly lasts from one to the next; few days are missing.
days = pd.read_csv(Path(__file__).parents[2] / "data" / "ozone.csv").astype(float)
day, temperature = np.arange(len(days)) + 1.0, days["Temp"].to_numpy()
result = causal_direction(day[::3], temperature[::3], progress=False)
print(result)
of_all_days = causal_direction(day, temperature, progress=False)
print("Of all days:", of_all_days)

_, axes = plt.subplots(2, 2, figsize=(8.0, 5.6), layout="constrained")
result.plot(axes=axes)
axes[1, 0].set_xlabel("day (x)")
axes[1, 1].set_xlabel("temperature (y, °F)")

# %%
# The answer is that the day causes the temperature: the residuals of the temperature are
# independent of the day, and those of the day depend on the temperature. With all days, whose
# weather often lasts from one to the next, neither model fits.
