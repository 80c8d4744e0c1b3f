"""
Comparison of two samples
=========================

``compare`` computes a permutation test with an exact level, regions of difference with
simultaneous intervals, the posterior of the difference with its lengthscale, and a
cross-validated AUC. There are regions only if the test rejects, and the figures shade only these
regions.

Run it as ``python comparison.py --out FOLDER``; ``--quick`` only checks that it works.
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import numpy as np
from bke.inference import compare, normal_laplace
from matplotlib import pyplot as plt

parser = argparse.ArgumentParser(description="Two samples compared.")
parser.add_argument("--out", type=Path, default=Path("comparison-output"), help="output folder")
parser.add_argument("--quick", action="store_true", help="few rows and permutations")
options = parser.parse_args()
options.out.mkdir(parents=True, exist_ok=True)

common = {"n_resamples": 99 if options.quick else 999, "progress": False}
rng = np.random.default_rng(0)


def print_and_save(comparison, name):
    """Print a comparison and save its figure."""
    print(f"\n{comparison}")
    figure = comparison.plot()
    figure.savefig(options.out / f"{name}.png", dpi=150)
    plt.close(figure)


# %%
# One column
# ----------
# Mixtures of three normal and of three Laplace distributions with equal means and variances, as in
# BKE Figure 3. Laplace distributions have sharper peaks and heavier tails, and a lower density
# between these.

P, Q = normal_laplace(per_component=60 if options.quick else 1000)
comparison = compare(P, Q, names=("normal", "Laplace"), **common)
print_and_save(comparison, "comparison")

# %%
# The posterior also gives the ratio of the densities, with pointwise and simultaneous bands, and
# the probability that the squared MMD exceeds a threshold.

at = np.array([0.0, 1.5])
bands = comparison.density_ratio(at)
for point, middle, low, high in zip(
    at, bands.mean, bands.wide_lower, bands.wide_upper, strict=True
):
    print(
        f"density ratio at {point:g}: {middle:.2f} ({low:.2f} to {high:.2f}, 95 % with the other)"
    )
print(
    f"squared MMD at the difference's scale above 0.001: {comparison.prob_mmd2_exceeds(0.001):.2f}"
)

# %%
# The sample size that is required to detect this difference is simulated from its posterior.

if not options.quick:
    print(comparison.required_sample_size(0.8))

# %%
# Two columns
# -----------
# Four round clusters, one of which is wider in Q: Q has a lower density in its center, and a higher
# density around it.

centers = 20.0 * np.array([[1, 1], [-1, 1], [1, -1], [-1, -1]])
sizes = 150 if options.quick else 1000
chosen = rng.integers(4, size=(2, sizes))
P = centers[chosen[0]] + rng.normal(size=(sizes, 2))
Q = centers[chosen[1]] + np.where(chosen[1] == 0, 1.6, 1.0)[:, None] * rng.normal(size=(sizes, 2))
print_and_save(
    compare(P, Q, names=("before", "after"), columns=("east", "north"), **common), "clusters"
)

# %%
# Many columns
# ------------
# One column of ten is shifted. The regions then use that column only.

P, Q = rng.normal(size=(2, 150 if options.quick else 500, 10))
Q[:, 3] += 0.5
print_and_save(compare(P, Q, names=("before", "after"), **common), "columns")

# %%
# Paired rows
# -----------
# Two measurements of the same persons: the differences between them are small compared with the
# differences between persons.

before = rng.normal(70.0, 12.0, size=100)
after = before - 0.6 + rng.normal(0.0, 1.5, size=100)
unpaired = compare(before, after, columns=("weight",), names=("before", "after"), **common)
print(f"\nAs two samples: {str(unpaired).splitlines()[0]}")
paired = compare(
    before, after, paired=True, columns=("weight",), names=("before", "after"), **common
)
print(f"As pairs: {str(paired).splitlines()[0]}")
