"""
Posterior mean by kernel Bayes' rule from pairs and prior draws
===============================================================

Neither the prior nor the likelihood is known as a formula. The data are pairs (x, y) from the
likelihood, and draws of x from the prior. The x of the pairs have another distribution than the
prior, so a regression of x on y estimates the posterior mean under the wrong prior. Kernel Bayes'
rule uses the draws of the prior. Approximate Bayesian computation (ABC) simulates from the prior
and accepts the simulations with y near the observation. The example follows the experiment of the
slides by Fukumizu, *Kernel Method for Bayesian Inference*, in one column, with prior N(1, 0.5²),
pairs from x ~ N(0, 2²) and y ~ N(x, 1), and the known posterior mean
:math:`E[X | Y = y] = (4 + y) / 5`.

Panel (A) shows the estimates at ten values of y from 200 pairs and 200 draws of the prior, or 200
simulations for ABC. Panel (B) shows their mean squared error with larger numbers.

Run it as ``python bayes_rule.py --out FOLDER``; it takes about half a minute.
"""

import argparse
import json
from pathlib import Path

import matplotlib
import numpy as np
from bke.inference.learning.kernel_selection import select_kernel
from bke.models import bayes_rule, conditional_embedding, mean_embedding

matplotlib.use("Agg")
from matplotlib import pyplot as plt

MEAN, DEVIATION, WIDE, NOISE = 1.0, 0.5, 2.0, 1.0
PLOTTED_SIZE, PROPORTIONS = 200, (0.05, 0.2)

parser = argparse.ArgumentParser(description="Posterior means by kernel Bayes' rule and by ABC.")
parser.add_argument("--out", type=Path, default=Path("bayes-rule-output"), help="output folder")
parser.add_argument("--seed", type=int, default=0, help="seed of the data")
parser.add_argument("--quick", action="store_true", help="fewer runs")
options = parser.parse_args()
options.out.mkdir(parents=True, exist_ok=True)
runs = 5 if options.quick else 20
sizes = (50, PLOTTED_SIZE) if options.quick else (50, 100, PLOTTED_SIZE, 500, 1000, 2000)
spread = (DEVIATION**2 + NOISE**2) ** 0.5
at = MEAN + spread * np.linspace(-2.0, 2.0, 10)


def posterior_mean(y, mean, deviation):
    """Compute the posterior mean of x under the prior N(mean, deviation^2)."""
    return (mean / deviation**2 + y / NOISE**2) / (1.0 / deviation**2 + 1.0 / NOISE**2)


# %%
# The estimates
# -------------
# Lengthscales are median distances, epsilon is 0.1 / n, and delta is twice epsilon, as in the
# slides, which do not state the constant 0.1. With the epsilon and the lengthscale that minimize
# the leave-one-out error (``learn_conditional``), and delta twice epsilon, the error is about 0.03
# for n from 200 to 1000, because in some runs that epsilon is far too small for delta. Weights may
# be negative and need not sum to one, so they are divided by their sum.


def by_rule(n, rng):
    """Estimate the posterior mean by kernel Bayes' rule at all y, (10,)."""
    x = WIDE * rng.normal(size=n)
    y = x + NOISE * rng.normal(size=n)
    of_x, of_y = select_kernel(x, "median"), select_kernel(y, "median")
    likelihood = conditional_embedding(x, y, of_x, of_y, regularization=0.1 / n)
    prior = mean_embedding(MEAN + DEVIATION * rng.normal(size=n), of_x)
    posterior = bayes_rule(likelihood, prior)
    weights = posterior.weights(at)
    return weights @ posterior.points[:, 0] / weights.sum(axis=1)


def by_acceptance(n, proportion, rng):
    """Estimate the posterior mean by the x whose y are nearest, at all y, (10,)."""
    x = MEAN + DEVIATION * rng.normal(size=n)
    y = x + NOISE * rng.normal(size=n)
    nearest = np.argsort(np.abs(y - at[:, None]), axis=1)[:, : round(proportion * n)]
    return x[nearest].mean(axis=1)


methods = {"kernel Bayes' rule": by_rule}
for proportion in PROPORTIONS:
    methods[f"ABC, nearest {100 * proportion:g} %"] = lambda n, rng, proportion=proportion: (
        by_acceptance(n, proportion, rng)
    )
estimates = {
    name: np.array(
        [
            [estimate(n, np.random.default_rng([options.seed, n, run])) for run in range(runs)]
            for n in sizes
        ]
    )
    for name, estimate in methods.items()
}  # (sizes, runs, 10)
truth = posterior_mean(at, MEAN, DEVIATION)
errors = {name: np.mean((values - truth) ** 2, axis=2) for name, values in estimates.items()}
for name, values in errors.items():
    line = ", ".join(
        f"n = {n}: {error:.2g}" for n, error in zip(sizes, values.mean(1), strict=True)
    )
    print(f"{name:>22}: mean squared error {line}")

# %%
# Figure
# ------

COLORS = ["#0072B2", "#E69F00", "#D55E00"]
figure, axes = plt.subplots(1, 2, figsize=(12.0, 4.8), layout="constrained")
ax = axes[0]
ax.plot(at, truth, color="black", linewidth=2, label="truth, (4 + y) / 5")
ax.plot(at, posterior_mean(at, 0.0, WIDE), color="gray", linestyle=":", label="prior of the pairs")
for j, ((name, values), color) in enumerate(zip(estimates.items(), COLORS, strict=True)):
    plotted = values[sizes.index(PLOTTED_SIZE)]
    ax.errorbar(
        at + 0.05 * (j - 1),
        plotted.mean(axis=0),
        plotted.std(axis=0, ddof=1),
        color=color,
        linestyle="",
        marker="os^"[j],
        capsize=2,
        label=name,
    )
ax.set(xlabel="y", ylabel="E[X | Y = y]", ylim=(-1.2, 3.2))
ax.set_title(f"(A) mean and standard deviation over {runs} runs, n = {PLOTTED_SIZE}", loc="left")
ax.legend(fontsize="small")
ax = axes[1]
for j, ((name, values), color) in enumerate(zip(errors.items(), COLORS, strict=True)):
    error = values.std(axis=1, ddof=1) / runs**0.5
    ax.errorbar(sizes, values.mean(axis=1), error, color=color, marker="os^"[j], label=name)
ax.set(xscale="log", yscale="log", xlabel="n, pairs or simulations", ylabel="mean squared error")
ax.set_xticks(sizes, [str(n) for n in sizes])
ax.xaxis.minorticks_off()
ax.set_title("(B) error, and its standard error", loc="left")
ax.legend(fontsize="small")
figure.savefig(options.out / "bayes_rule.png", dpi=130)
record = {
    "runs": runs,
    "sizes": list(sizes),
    "y": at.tolist(),
    "truth": truth.tolist(),
    "plotted": {
        name: {
            "mean": values[sizes.index(PLOTTED_SIZE)].mean(axis=0).tolist(),
            "deviation": values[sizes.index(PLOTTED_SIZE)].std(axis=0, ddof=1).tolist(),
        }
        for name, values in estimates.items()
    },
    "error": {name: values.mean(axis=1).tolist() for name, values in errors.items()},
    "standard_error": {
        name: (values.std(axis=1, ddof=1) / runs**0.5).tolist() for name, values in errors.items()
    },
}
(options.out / "bayes_rule.json").write_text(json.dumps(record, indent=2) + "\n")
