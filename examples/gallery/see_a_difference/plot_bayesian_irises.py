"""
Bayes factor of two species of iris at each lengthscale
=======================================================

How does the Bayes factor of a difference depend on the lengthscale of the kernel? The data are the
petals of 50 flowers each of *Iris versicolor* and *Iris virginica* (Fisher, *Annals of Eugenics* 7,
1936, 179-188).
"""

import matplotlib.pyplot as plt
from bke.inference import bayesian_two_sample_test
from sklearn.datasets import load_iris

iris = load_iris(as_frame=True)
petals = iris.data[["petal length (cm)", "petal width (cm)"]]
versicolor, virginica = petals[iris.target == 1], petals[iris.target == 2]

paper = bayesian_two_sample_test(versicolor, virginica)
print(paper)
small = bayesian_two_sample_test(versicolor, virginica, difference_variance=0.01)

_, ax = plt.subplots(figsize=(7.0, 4.0), layout="constrained")
ax.plot(*paper.profile.T, label="prior variance 1")
ax.plot(*small.profile.T, label="prior variance 0.01")
ax.axvspan(*paper.lengthscale_interval, color="0.9", label="95 % interval at variance 1")
ax.axhline(0.0, color="0.5", linewidth=0.8)
ax.set(
    xscale="log",
    xlabel="lengthscale (standard deviations)",
    ylabel="log Bayes factor of a difference (nats)",
)
ax.legend()

# %%
# The Bayes factor favors a difference at all lengthscales above 0.2 standard deviations, and most
# at 1. The gray band is the posterior of the lengthscale, which the test averages over.
