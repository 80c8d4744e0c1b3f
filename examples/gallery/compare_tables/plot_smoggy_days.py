"""
How the weather of smoggy days is spread beside that of clear ones
==================================================================

In what do days with much ozone differ from the others? The data are 330 days in Los Angeles in 1976
(Breiman and Friedman, *Journal of the American Statistical Association* 80, 1985, 580-598).
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
found = compare_tables(days[~is_smoggy], days[is_smoggy], names=("clear", "smoggy"), progress=False)
print(found)

_, axes = plt.subplots(2, 3, figsize=(9.0, 5.0), layout="constrained")
plot_tables(found, ax=axes)

# %%
# Clear days are grey and smoggy ones outlined: these were warm and damp, under a low inversion, and
# one could not see far. Where the ground is blue there are more of the clear days and where it is
# orange more of the smoggy ones, of which hardly any was calm or windy.
