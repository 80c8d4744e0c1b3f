"""
Measurements of wines of three growers
======================================

In which measurements do the wines of the second and third grower differ from those of the first?
The data are 178 Italian wines of three cultivars (Forina, Lanteri, Armanino and others, *PARVUS*,
1988), with 13 measurements of each.
"""

import matplotlib.pyplot as plt
import numpy as np
from bke.inference import compare_groups
from sklearn.datasets import load_wine

wine = load_wine(as_frame=True)
table = wine.data.rename(columns={"od280/od315_of_diluted_wines": "od280 / od315"})
table["cultivar"] = np.array(["first", "second", "third"])[wine.target]
comparison = compare_groups(table, by="cultivar", n_resamples=499, progress=False)
print(comparison)

chances = np.array(
    [[column.effect.auc for column in result.columns] for result in comparison.comparisons]
)
_, ax = plt.subplots(figsize=(5.5, 5.5), layout="constrained")
image = ax.imshow(chances.T, cmap="PuOr_r", vmin=0.0, vmax=1.0, aspect="auto")
ax.set_yticks(range(chances.shape[1]), table.columns[:-1].str.replace("_", " "))
ax.set_xticks([0, 1], ["second against first", "third against first"])
for (group, column), chance in np.ndenumerate(chances):
    ax.text(group, column, f"{chance:.2f}", ha="center", va="center", backgroundcolor="white")
plt.colorbar(image, label="probability that the first's value is the smaller")

# %%
# Numbers are the probability that a wine of the first grower has the smaller value. All 13
# measurements of the second grower and 12 of the third, all but ash, differ from those of the
# first at a joint level of 0.05, and proline is higher in nearly all wines of the first grower.
