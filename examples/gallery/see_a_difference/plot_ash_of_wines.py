"""
One density or two for the ash of wines
=======================================

Does the ash of two cultivars of wine have one density, or two? The data are the wines of three
Italian cultivars that come with scikit-learn (Forina and others, *PARVUS*, 1988).
"""

import matplotlib.pyplot as plt
import numpy as np
from bke.inference import two_density_test
from sklearn.datasets import load_wine

wines = load_wine()
ash = wines.data[:, wines.feature_names.index("ash")]
cultivars = [ash[wines.target == cultivar] for cultivar in range(3)]

for other in (1, 2):
    test = two_density_test(cultivars[0], cultivars[other], progress=False)
    print(f"Cultivars 1 and {other + 1}\n{test}")

_, ax = plt.subplots(figsize=(7.0, 4.0), layout="constrained")
for number, values in enumerate(cultivars, start=1):
    ax.ecdf(values, label=f"cultivar {number}")
ax.set(xlabel="ash (g/l)", ylabel="proportion of wines")
ax.set_xlim(np.quantile(ash, [0.005, 0.995]))
ax.legend(frameon=False)

# %%
# The odds are 100 to 1 that cultivars 1 and 2 have two densities, and about 5 to 1 that cultivars 1
# and 3 have a single one. The median of cultivar 2 is lower than that of cultivars 1 and 3.
