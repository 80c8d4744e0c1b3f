"""
Whether larger classes have other pupils
========================================

Do pupils of classes of 18 or more differ from others, when those of one class are alike? The data
are 2287 pupils of 133 classes in the Netherlands (Snijders and Bosker, *Multilevel Analysis*,
1999).
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from bke.inference import compare_tables

pupils = pd.read_csv(Path(__file__).parents[2] / "data" / "pupils.csv")
is_large = pupils.groupby("class")["lang"].transform("size") >= 18
pupils = pupils.rename(columns={"SES": "status of the family", "lang": "language score"})
tables = pupils[~is_large], pupils[is_large]
names = "small classes", "large classes"
alone = compare_tables(*tables, names=names, exclude=["class"], progress=False)
whole = compare_tables(*tables, names=names, clusters="class", progress=False)
print(whole)

_, ax = plt.subplots(figsize=(7.0, 3.6), layout="constrained")
for shift, found, label in ((-0.15, alone, "pupils"), (0.15, whole, "whole classes")):
    pvalues = [column.pvalue for column in found.columns]
    ax.scatter(pvalues, np.arange(len(pvalues)) + shift, label=f"{label} dealt out anew")
ax.axvline(0.05, color="0.4", linestyle="--", linewidth=0.8)
ax.set_yticks(range(len(whole.columns)), [column.name for column in whole.columns])
ax.set(xscale="log", xlabel="adjusted p-value")
ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)

# %%
# Each column has two adjusted p-values, by dealing out pupils and by dealing out whole classes, and
# those on the left of the dashed line are below 0.05. Pupils of one class are alike, so that only
# the second is valid: by it the language score differs (p = 0.03), and the status of the family
# does not.
