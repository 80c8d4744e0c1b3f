"""
Which sevens are written unlike the others
==========================================

Which of many handwritten sevens are unlike a hundred others? The data are 8 x 8 pixels of 1797
digits (Alpaydin and Kaynak, *Optical Recognition of Handwritten Digits*, UCI Machine Learning
Repository, 1998), of which 179 are sevens, as are taken here.
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
# The upper row has the eight sevens of the lowest density, the lower row the eight of the highest,
# of those that the density was not learned from. The usual ones have a hook at the top left and a
# bar across the stem, where the odd ones have their bar too far right, too low, or none.
