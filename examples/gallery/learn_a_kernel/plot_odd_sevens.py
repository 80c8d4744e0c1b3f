"""
Unusual handwritten sevens
==========================

Which handwritten sevens differ most from a hundred others? The data are 8 x 8 pixels of 1797
digits (Alpaydin and Kaynak, *Optical Recognition of Handwritten Digits*, UCI Machine Learning
Repository, 1998), of which 179 are sevens.
"""

import matplotlib.pyplot as plt
import numpy as np
from bke.inference import KernelStudentTDensity
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

digits = load_digits()
sevens = digits.images[digits.target == 7]
X = PCA(12, random_state=0).fit_transform(sevens.reshape(len(sevens), -1))
estimator = KernelStudentTDensity().fit(X[:100])
print(estimator.learned_)
order = 100 + np.argsort(estimator.score_samples(X[100:]))

_, axes = plt.subplots(2, 8, figsize=(8.0, 2.6), layout="constrained")
for ax, index in zip(axes.ravel(), [*order[:8], *order[-8:]], strict=True):
    ax.imshow(sevens[index], cmap="gray_r")
    ax.set(xticks=[], yticks=[])
axes[0, 0].set_ylabel("odd")
axes[1, 0].set_ylabel("usual")

# %%
# Among the sevens that were not used for learning, the upper row has the eight with the lowest
# density, and the lower row the eight with the highest density. Typical sevens have a hook at the
# top left and a bar across the stem, while in unusual ones the bar is too far right, too low, or
# missing.
