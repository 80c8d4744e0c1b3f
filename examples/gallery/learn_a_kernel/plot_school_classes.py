"""
Language scores of school classes from their pupils
===================================================

How well do the verbal IQ and the social status of the pupils of a class predict its mean language
score? The data are 2287 pupils of 133 classes in the Netherlands (Snijders and Bosker,
*Multilevel Analysis*, 1999).
"""

from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from bke.inference import DistributionRegressor

pupils = pd.read_csv(Path(__file__).parents[2] / "data" / "pupils.csv")
scores = pupils.groupby("class")["lang"].mean()

regressor = DistributionRegressor(shrinkage=False)
regressor.fit(pupils[["class", "IQ", "SES"]], scores, groups="class")
print(regressor)

uniform_class = pd.DataFrame({"IQ": [11.0] * 20, "SES": [30.0] * 20})
mixed_class = pd.DataFrame({"IQ": [8.0, 14.0] * 10, "SES": [15.0, 45.0] * 10})
uniform_interval, mixed_interval = regressor.predict_interval(
    [uniform_class, mixed_class], level=0.9
)
print(f"a class of pupils who are alike: {uniform_interval.round(1)}")
print(f"a class of pupils who differ around them: {mixed_interval.round(1)}")

_, ax = plt.subplots(figsize=(5.5, 5.0), layout="constrained")
regressor.plot(ax=ax)
ax.set_ylabel("mean language score of the class")

# %%
# Points are classes, predicted from the classes of other folds with 90 % intervals, and
# predictions on the line are exact. IQ and social status explain 58 % of the variance of the mean
# scores, and 88 % of the intervals contain the score.
