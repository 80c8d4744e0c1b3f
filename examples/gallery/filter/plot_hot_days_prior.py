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
for index, (name, prior) in enumerate(seasons.items()):
    embedding = mean_embedding(prior, conditional.kernel_x)
    for method, style in (("squared", "-"), ("importance", "--")):
        rule = bayes_rule(conditional, embedding, method=method)
        means = [rule(reading).mean()[0] for reading in at]
        label = f"{name}, {method}: prior mean {prior.mean():.0f} °F"
        ax.plot(at, means, style, color=f"C{index}", label=label)
        print(f"{name}, {method}: {rule(15.0).mean()[0]:.1f} °F where 15 parts were read")
ax.set(xlabel="ozone (parts per hundred million)", ylabel="posterior mean of temperature (°F)")
ax.legend(frameon=False)

# %%
# Lines are the posterior mean of the temperature given a reading of ozone, by two kernel Bayes'
# rules with the prior of each season. A reading of 15 parts gives 61 or 60 °F with the prior of the
# first 110 days, and 73 or 74 °F with that of the next 110.
