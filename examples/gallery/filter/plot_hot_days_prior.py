"""
Temperature given ozone, with priors of two seasons
===================================================

How hot was a day with 15 parts of ozone, in winter and in summer? The data are 330 days of 1976
in Los Angeles in their order (Breiman and Friedman, *Journal of the American Statistical
Association* 80, 1985, 580-598), and their first and second thirds are the two priors.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from bke.inference import learn_conditional
from bke.models import bayes_rule, mean_embedding

days = pd.read_csv(Path(__file__).parents[2] / "data" / "ozone.csv").astype(float)
temperature, ozone = days["Temp"].to_numpy(), days["Ozone"].to_numpy()
conditional = learn_conditional(temperature, ozone, kernel_x="median", kernel_y="median")
print(conditional)

at = np.linspace(1.0, 35.0, 40)
seasons = {"first 110 days": temperature[:110], "next 110 days": temperature[110:220]}
_, ax = plt.subplots(figsize=(6.5, 4.2), layout="constrained")
ax.plot(ozone, temperature, ".", color="0.75", label="days of the whole year")
for name, prior in seasons.items():
    rule = bayes_rule(conditional, mean_embedding(prior, conditional.kernel_x))
    means = [rule(reading).mean()[0] for reading in at]
    ax.plot(at, means, label=f"{name}: prior mean {prior.mean():.0f} °F")
    print(f"{name}: {rule(15.0).mean()[0]:.1f} °F where 15 parts were read")
ax.set(xlabel="ozone (parts per hundred million)", ylabel="posterior mean of temperature (°F)")
ax.legend(frameon=False)

# %%
# Lines are the posterior mean of the temperature given a reading of ozone, for the prior of each
# season and pairs of the whole year. A reading of 15 parts gives 61 °F with the prior of the first
# 110 days, and 73 °F with that of the next 110.
