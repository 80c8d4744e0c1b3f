"""
The landmark model on a grid of Gaussians
=========================================

The figure "Marginal (pseudo)likelihood for a challenging two-sample test" of the slides *Inference
with Kernel Embeddings* (Sejdinovic, 2016). P is a grid of isotropic Gaussians, and Q a grid of
elongated Gaussians. The slides report the maximum of the pseudo-likelihood at a lengthscale of
0.85, while the median heuristic gives 20. They do not state the landmarks and the noise variance.
With a 14 x 14 grid of landmarks over the range of the data and tau^2 = 0.1, the noise variance of
Flaxman, Sejdinovic, Cunningham and Filippi (2016), the maximum is at 0.91. Panel (C) shows how the
maximum depends on both choices. With much smaller noise it is at lengthscales far beyond the range
of the data, where all k(x, z) are close to one.

Run it as ``python landmarks.py --out FOLDER``; it takes a few minutes.
"""

import argparse
import json
from pathlib import Path

import jax
import matplotlib
import numpy as np
import numpyro.distributions as dist
from bke.inference import learn_kernel
from bke.inference.data.canonical import canonical_order
from bke.inference.learning.kernel_selection import median_kernel
from bke.models import Landmark, SquaredExponential, landmark_log_likelihood

matplotlib.use("Agg")
from matplotlib import pyplot as plt

SPACING, RATIO, PER_COMPONENT = 14.1, 3.0, 100
SIDE, NOISE_VARIANCE = 14, 0.1
SIDES, NOISE_VARIANCES = (5, 7, 10, 14, 20), (0.1, 0.3, 1.0)

parser = argparse.ArgumentParser(description="The figure of the slides.")
parser.add_argument("--out", type=Path, default=Path("landmarks-output"), help="output folder")
parser.add_argument("--seed", type=int, default=0, help="seed of the data")
parser.add_argument("--quick", action="store_true", help="coarse curves")
options = parser.parse_args()
options.out.mkdir(parents=True, exist_ok=True)

# %%
# Data, as in BKE Figure 2
# ------------------------

rng = np.random.default_rng([options.seed, 1000])
axis = SPACING * np.arange(3)
centers = np.repeat(np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2), PER_COMPONENT, 0)
diagonals = np.sqrt(0.5) * np.array([[1.0, -1.0], [1.0, 1.0]])
first, second = rng.normal(size=(2, len(centers), 2))
P, Q = centers + first, centers + (second * [np.sqrt(RATIO), 1.0]) @ diagonals.T
pooled = np.concatenate([P, Q])


def landmarks(side):
    """Return a grid over the range of the data."""
    axes = np.linspace(pooled.min(axis=0), pooled.max(axis=0), side).T
    return np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)


lengthscales = np.geomspace(0.2, 100.0, 20 if options.quick else 120)


@jax.jit
def profile(landmark_points, noise_variance):
    """Compute the log pseudo-likelihood at all ``lengthscales``."""

    def at(lengthscale):
        kernel = SquaredExponential(lengthscale)
        return landmark_log_likelihood(
            pooled, landmark_points, kernel, noise_variance=noise_variance
        )

    return jax.lax.map(at, lengthscales)


def highest(side, noise_variance):
    """Return the lengthscale of its maximum, to the 5 % of the grid."""
    with jax.enable_x64(True):
        return float(lengthscales[int(np.argmax(profile(landmarks(side), noise_variance)))])


# %%
# The pseudo-likelihood
# ---------------------

learned = learn_kernel(
    pooled,
    likelihood=Landmark(landmarks(SIDE)),
    noise_variance=NOISE_VARIANCE,
    prior=dist.Gamma(1.0, 0.1),  # determines the range of the search
    standardize=None,
    starts=1,
    progress=False,
)
print(learned)
best = float(learned.kernel.lengthscale)
with jax.enable_x64(True):
    curve = np.asarray(profile(landmarks(SIDE), NOISE_VARIANCE))
median = median_kernel(pooled[canonical_order(pooled)], None, 0).lengthscale
print(f"{SIDE} x {SIDE} landmarks, tau^2 = {NOISE_VARIANCE}: lengthscale {best:.3g}")
print(f"median heuristic: {median:.3g}")
best_by_noise = {
    variance: [highest(side, variance) for side in (SIDES[:2] if options.quick else SIDES)]
    for variance in NOISE_VARIANCES
}
for variance, best_lengthscales in best_by_noise.items():
    line = ", ".join(
        f"{side} x {side}: {best_lengthscale:.3g}"
        for side, best_lengthscale in zip(SIDES, best_lengthscales, strict=False)
    )
    print(f"tau^2 = {variance}: {line}")

figure, axes = plt.subplots(1, 3, figsize=(12.5, 4.0), layout="constrained")
ax = axes[0]
ax.plot(*P.T, ".", color="black", markersize=2, label="P")
ax.plot(*Q.T, ".", color="#D55E00", markersize=2, label="Q")
ax.plot(*landmarks(SIDE).T, "x", color="#0072B2", markersize=4, label="landmarks")
ax.set_title(f"(A) ratio {RATIO:g}", loc="left")
ax.set_aspect("equal")
ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=3, markerscale=2, fontsize="small")
ax = axes[1]
ax.semilogx(lengthscales, curve, color="black")
ax.axvline(best, color="#0072B2", label=f"highest: {best:.2f}")
ax.axvline(median, color="#D55E00", linestyle="--", label=f"median heuristic: {median:.3g}")
ax.set(title="(B) log pseudo-likelihood", xlabel="lengthscale")
ax.legend(fontsize="small")
ax = axes[2]
for variance, best_lengthscales in best_by_noise.items():
    ax.loglog(
        SIDES[: len(best_lengthscales)], best_lengthscales, "o-", label=rf"$\tau^2$ = {variance:g}"
    )
ax.set(title="(C) where it is highest", xlabel="landmarks per side", ylabel="lengthscale")
ax.set_xticks(SIDES, [str(side) for side in SIDES])
ax.set_yticks([0.5, 1.0, 2.0, 4.0], ["0.5", "1", "2", "4"])
ax.minorticks_off()
ax.legend(fontsize="small")
figure.savefig(options.out / "landmarks.png", dpi=130)
record = {
    "landmarks": f"{SIDE} x {SIDE}",
    "noise_variance": NOISE_VARIANCE,
    "learned": best,
    "median": median,
    "by_noise_variance": {
        f"{variance:g}": best_lengthscales for variance, best_lengthscales in best_by_noise.items()
    },
}
(options.out / "landmarks.json").write_text(json.dumps(record, indent=2) + "\n")
