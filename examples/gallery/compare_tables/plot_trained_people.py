"""
Participants of a training compared with a survey
=================================================

How different were the participants of a training and the people with whom they were compared? The
data are 185 participants and 2490 other people in the United States of the 1970s (Dehejia and
Wahba, *Journal of the American Statistical Association* 94, 1999, 1053-1062).
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from bke.inference import compare_tables

people = pd.read_csv(Path(__file__).parents[2] / "data" / "training.csv")
people = people.drop(columns="re78").rename(
    columns={"educ": "years of school", "re74": "earnings 1974", "re75": "earnings 1975"}
)
is_trained = people.pop("treat") == 1
comparison = compare_tables(
    people[~is_trained], people[is_trained], names=("survey", "trained"), progress=False
)
print(comparison)

chances = np.array([column.effect.auc for column in comparison.columns])
intervals = np.array([column.effect.auc_interval for column in comparison.columns])
colors = ["C0" if column.reject else "0.6" for column in comparison.columns]
_, ax = plt.subplots(figsize=(7.0, 3.8), layout="constrained")
rows = np.arange(len(chances))
ax.hlines(rows, *intervals.T, color=colors, linewidth=2)
ax.scatter(chances, rows, color=colors)
ax.axvline(0.5, color="0.4", linewidth=0.8)
ax.set_yticks(rows, [column.name for column in comparison.columns])
ax.invert_yaxis()
ax.set(xlim=(0, 1), xlabel="probability that the value of a trained person is the larger")

# %%
# Points to the right of 1/2 are columns in which participants have larger values than the survey,
# and blue columns differ at a joint level of 0.05. All columns except hispanic differ, most of all
# the earnings before the training, which are larger for a participant than for a person of the
# survey with probability 0.09.
