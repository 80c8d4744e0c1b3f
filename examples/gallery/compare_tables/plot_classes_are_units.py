"""
Pupils of large and small classes, with classes as clusters
===========================================================

Do pupils of classes of 18 or more differ from other pupils, if pupils of one class depend on each
other? The data are 2287 pupils of 133 classes in the Netherlands (Snijders and Bosker,
*Multilevel Analysis*, 1999).
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
by_pupil = compare_tables(*tables, names=names, exclude=["class"], progress=False)
by_class = compare_tables(*tables, names=names, clusters="class", progress=False)
print(by_class)

_, ax = plt.subplots(figsize=(7.0, 3.6), layout="constrained")
for shift, result, label in (
    (-0.15, by_pupil, "permutations of pupils"),
    (0.15, by_class, "permutations of classes"),
):
    pvalues = [column.pvalue for column in result.columns]
    ax.scatter(pvalues, np.arange(len(pvalues)) + shift, label=label)
ax.axvline(0.05, color="0.4", linestyle="--", linewidth=0.8)
ax.set_yticks(range(len(by_class.columns)), [column.name for column in by_class.columns])
ax.set(xscale="log", xlabel="adjusted p-value")
ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)

# %%
# The adjusted p-values are from permutations of pupils and from permutations of whole classes, and
# those left of the dashed line are below 0.05. Only permutations of classes are valid, because
# pupils of one class are correlated: the language score differs (p = 0.03), and the status of the
# family does not.
