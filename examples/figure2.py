"""
Type II errors on a grid of Gaussians
=====================================

Figure 2 of Flaxman, Sejdinovic, Cunningham and Filippi, *Bayesian Learning of Kernel Embeddings*
(UAI 2016). P is a 3 x 3 grid of unit Gaussians. Q is the same grid of Gaussians with the
variances epsilon and 1 along the diagonals. The median distance is that between the Gaussians, at
which P and Q agree. The learned lengthscale is that of a single Gaussian at ratios up to 3. From
a ratio of 5 on the pooled sample is more likely at the scale of the grid, and the test with the
learned lengthscale has no power, like the median heuristic. The test with several scales (the
combined statistic) and the test with the paper's lengthscale of 1.5 reject.

Each Gaussian has 100 points in each sample, as in the paper. Permuted samples have other counts,
so the null distribution is wider than the distribution of the statistic, and the tests are
conservative, also at a ratio of 1. ``--counts random`` draws the Gaussian of each point.
``--variances equal`` keeps the variances of Q at 1 and correlates its columns, as in other
papers; the difference is then smaller.

Run it as ``python figure2.py --out FOLDER``. The 100 repeats of panel (C) take more than an hour
on one core, ``--repeats 20`` a fifth of it, and ``--quick`` only checks that it works. Errors at
each ratio are saved in the folder and not computed again; ``--ratios 3 5`` computes only some
ratios.
"""

import argparse
import json
from pathlib import Path

import jax
import matplotlib
import numpy as np
import numpyro.distributions as dist
from bke.inference import learn_kernel, two_sample_test
from bke.inference.data.canonical import canonical_order
from bke.inference.learning.kernel_selection import median_kernel
from bke.models import SquaredExponential, embedding_posterior, log_marginal_likelihood

matplotlib.use("Agg")
from matplotlib import pyplot as plt

SPACING = 14.1
STATISTICS = {
    "median": ({"kernel": "median"}, "median heuristic"),
    "bkl": ({"kernel": "bkl"}, "learned (BKL)"),
    "published": ({"kernel": SquaredExponential(1.5)}, "lengthscale 1.5"),
    "combined": ({"statistic": "combined"}, "combined statistic"),
}

parser = argparse.ArgumentParser(description="BKE Figure 2.")
parser.add_argument("--out", type=Path, default=Path("figure2-output"), help="output folder")
parser.add_argument("--repeats", type=int, default=100, help="repeats of each test of panel (C)")
parser.add_argument("--per-component", type=int, default=100, help="points of each Gaussian")
parser.add_argument("--counts", choices=["fixed", "random"], default="fixed")
parser.add_argument("--variances", choices=["stretched", "equal"], default="stretched")
parser.add_argument("--ratios", type=float, nargs="+", help="those of panel (C), and no picture")
parser.add_argument("--permutations", type=int, default=199)
parser.add_argument("--seed", type=int, default=0, help="seed of the data and the tests")
parser.add_argument("--quick", action="store_true", help="few repeats of small samples")
options = parser.parse_args()
if options.quick:
    options.repeats, options.per_component, options.permutations = 2, 10, 99
options.out.mkdir(parents=True, exist_ok=True)
RATIOS = [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 5.0, 10.0, 15.0]
ratios = options.ratios or ([1.0, 3.0, 15.0] if options.quick else RATIOS)


def grids(ratio, rng):
    """Draw P and Q."""
    axis = SPACING * np.arange(3)
    centers = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    owners = np.repeat(np.tile(np.arange(9), (2, 1)), options.per_component, axis=1)
    if options.counts == "random":
        owners = rng.integers(9, size=owners.shape)
    diagonals = np.sqrt(0.5) * np.array([[1.0, -1.0], [1.0, 1.0]])
    variances = np.array([ratio, 1.0])
    if options.variances == "equal":
        variances *= 2.0 / variances.sum()
    first, second = rng.normal(size=(2, 9 * options.per_component, 2))
    return centers[owners[0]] + first, centers[owners[1]] + (
        second * np.sqrt(variances)
    ) @ diagonals.T


# %%
# (C) Type II error
# -----------------
# Proportion of tests at level 0.05 that do not reject; at a ratio of 1 P = Q.

settings = {
    name: getattr(options, name)
    for name in ("repeats", "per_component", "counts", "variances", "permutations", "seed")
}


def type_two_errors(ratio):
    """Return the error rate of each statistic, computed or read from the file of an earlier run."""
    path = options.out / f"ratio-{ratio:g}.json"
    if path.exists():
        stored = json.loads(path.read_text())
        if stored["settings"] == settings:
            return stored["errors"]
    counts = dict.fromkeys(STATISTICS, 0)
    for repeat in range(options.repeats):
        P, Q = grids(ratio, np.random.default_rng([options.seed, int(10 * ratio), repeat]))
        for name, (arguments, _) in STATISTICS.items():
            result = two_sample_test(
                P,
                Q,
                **arguments,
                n_resamples=options.permutations,
                seed=repeat,
                progress=False,
            )
            counts[name] += not result.reject
    errors = {name: count / options.repeats for name, count in counts.items()}
    path.write_text(json.dumps({"settings": settings, "errors": errors}, indent=2) + "\n")
    return errors


retained = {name: [] for name in STATISTICS}
for ratio in ratios:
    errors = type_two_errors(ratio)
    for name in STATISTICS:
        retained[name].append(errors[name])
    line = ", ".join(f"{name} {errors[name]:.2f}" for name in STATISTICS)
    print(f"ratio {ratio:g}: type II error {line}", flush=True)
if options.ratios:
    raise SystemExit

# %%
# (D) The marginal likelihood
# ---------------------------
# The two maxima are at the scale of one Gaussian and at that of the grid.

P, Q = grids(2.0, np.random.default_rng([options.seed, 1000]))
pooled = np.concatenate([P, Q])
# The prior determines the range of the search, which includes the scale of the grid.
learned = learn_kernel(pooled, prior=dist.Gamma(1.0, 0.1), standardize=None, progress=False)
median = median_kernel(pooled[canonical_order(pooled)], None, 0).lengthscale
print(learned)
print(f"median heuristic: {median:.3g}")
lengthscales = np.geomspace(0.3, 60.0, 40 if options.quick else 120)
with jax.enable_x64(True):
    value = jax.jit(lambda scale: log_marginal_likelihood(pooled, SquaredExponential(scale)))
    profile = np.array([float(value(scale)) for scale in lengthscales])

# %%
# (E) The witness at the learned lengthscale
# ------------------------------------------

side = np.linspace(-5.0, 2 * SPACING + 5.0, 40 if options.quick else 120)
at = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
means = [np.asarray(embedding_posterior(Z, learned.kernel, at).mean) for Z in (P, Q)]
witness = (means[0] - means[1]).reshape(len(side), len(side))

figure, axes = plt.subplots(2, 3, figsize=(12.0, 7.4), layout="constrained")
for ax, ratio, letter in ((axes[0, 0], 2.0, "A"), (axes[0, 1], 10.0, "B")):
    first, second = grids(ratio, np.random.default_rng([options.seed, 1000]))
    ax.plot(*first.T, ".", color="black", markersize=2, label="P")
    ax.plot(*second.T, ".", color="#D55E00", markersize=2, label="Q")
    ax.set_title(f"({letter}) ratio {ratio:g}", loc="left")
    ax.set_aspect("equal")
    ax.legend(
        loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, markerscale=4, fontsize="small"
    )
ax = axes[0, 2]
for name, style in zip(STATISTICS, ("s--", "o-", "x-.", "^:"), strict=True):
    ax.plot(ratios, retained[name], style, label=STATISTICS[name][1])
ax.set(title="(C) type II error", xlabel="ratio of eigenvalues", ylabel="share not rejected")
ax.set_ylim(-0.03, 1.03)
ax.legend(fontsize="small")
ax = axes[1, 0]
ax.semilogx(lengthscales, profile, color="black")
ax.axvline(float(learned.kernel.lengthscale), color="#0072B2", label="learned")
ax.axvline(median, color="#D55E00", linestyle="--", label="median heuristic")
ax.set(title="(D) log marginal likelihood", xlabel="lengthscale")
ax.legend(fontsize="small")
ax = axes[1, 1]
top = np.abs(witness).max()
image = ax.imshow(
    witness,
    origin="lower",
    extent=(side[0], side[-1], side[0], side[-1]),
    cmap="RdBu_r",
    vmin=-top,
    vmax=top,
)
ax.set(title="(E) witness P - Q at ratio 2")
figure.colorbar(image, ax=ax, shrink=0.8)
axes[1, 2].axis("off")
figure.savefig(options.out / "figure2.png", dpi=130)
record = {
    "ratios": ratios,
    **settings,
    "type II error": retained,
    "learned": [float(peak.kernel.lengthscale) for peak in learned.peaks],
    "median": median,
}
(options.out / "figure2.json").write_text(json.dumps(record, indent=2) + "\n")
