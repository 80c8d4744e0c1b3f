"""
School classes whose pupils are unlike those of others
======================================================

Which school classes have an unusual mix of pupils? The data are the verbal IQ and the social status
of 2287 pupils of 133 classes in the Netherlands (Snijders and Bosker, *Multilevel Analysis*, 1999).
"""

from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from bke.inference import GroupAnomalyDetector

pupils = pd.read_csv(Path(__file__).parents[2] / "data" / "pupils.csv")
columns = pupils[["class", "IQ", "SES"]]

detector = GroupAnomalyDetector(nu=0.05).fit(columns, groups="class")
scores = pd.Series(detector.decision_function(columns, groups="class"), pupils["class"].unique())
print(f"{(scores < 0).sum()} of {len(scores)} classes are unusual")
unusual = scores.sort_values().index[:2]
for name in unusual:
    print(pupils.loc[pupils["class"] == name, ["IQ", "SES"]].agg(["count", "mean"]).round(1))

_, ax = plt.subplots(figsize=(5.5, 4.5), layout="constrained")
ax.scatter(pupils["IQ"], pupils["SES"], s=8, color="0.8", label="all pupils")
for name, marker in zip(unusual, "o^", strict=True):
    rows = pupils[pupils["class"] == name]
    ax.scatter(rows["IQ"], rows["SES"], s=40, marker=marker, label=f"class {name}")
ax.set(xlabel="verbal IQ", ylabel="social status")
ax.legend()

# %%
# Six of the 133 classes are unusual. The pupils of class 10380 have a low IQ and social status, and
# most of class 2980 a high social status; each of them alone is like some pupils of other classes.
