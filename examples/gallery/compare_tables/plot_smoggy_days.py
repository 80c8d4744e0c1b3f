"""
Weather of days with high and low ozone
=======================================

How does the weather of days with high ozone differ from that of other days? The data are 330 days
of 1976 in Los Angeles (Breiman and Friedman, *Journal of the American Statistical Association*
80, 1985, 580-598).
"""

from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from bke.inference import compare_tables, plot_tables

days = pd.read_csv(Path(__file__).parents[2] / "data" / "ozone.csv")
days = days[["Ozone", "Temp", "InvHt", "Pres", "Vis", "Hum", "Wind"]].rename(
    columns={
        "Temp": "temperature (F)",
        "InvHt": "inversion base (feet)",
        "Pres": "pressure gradient (mm Hg)",
        "Vis": "visibility (miles)",
        "Hum": "humidity (%)",
        "Wind": "wind (mph)",
    }
)
is_smoggy = days.pop("Ozone") > 15
comparison = compare_tables(
    days[~is_smoggy], days[is_smoggy], names=("clear", "smoggy"), progress=False
)
print(comparison)

_, axes = plt.subplots(2, 3, figsize=(9.0, 5.0), layout="constrained")
plot_tables(comparison, ax=axes)

# %%
# The histograms of clear days are gray, those of smoggy days are outlined, and the background is
# blue or orange where the density of clear or of smoggy days is higher. Smoggy days were warmer
# and more humid, with a lower inversion base and lower visibility, and few of them were calm or
# windy.
