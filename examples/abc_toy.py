"""
K2-ABC with a known posterior
=============================

The toy problem of Park, Jitkrittum and Sejdinovic (2016) has 400 observations from a mixture of
the uniform distributions on [0, 1], ..., [4, 5]. The prior of the five weights is uniform on the
simplex, and their posterior is a Dirichlet distribution with known parameters.

K2-ABC needs a kernel instead of summary statistics. The lengthscale of the median heuristic is as
long as the range of the data, and its MMD has little power against weights that alternate between
intervals. The lengthscale learned from the observed data is shorter. The mean and the variance
are not sufficient for the weights, so ABC with these summaries does not converge to the
posterior. Panel (A) shows the posterior means with two standard deviations. Panel (B) shows the
error of the mean as epsilon decreases, which decreases the effective sample size of the same
simulations.

Run it as ``python abc_toy.py --out FOLDER``; it takes about half a minute on an idle machine.
"""

import argparse
import json
from pathlib import Path

import matplotlib
import numpy as np
from bke.inference import (
    Summaries,
    abc,
    k2_abc,
    select_kernel,
    sequential_k2_abc,
    vectorize,
    with_epsilon,
)
from matplotlib.ticker import NullFormatter
from simulators import INTERVALS, uniform_posterior, uniform_prior, uniforms

matplotlib.use("Agg")
from matplotlib import pyplot as plt

WEIGHTS = np.array([0.25, 0.04, 0.33, 0.04, 0.34])

parser = argparse.ArgumentParser(description="K2-ABC with a known posterior.")
parser.add_argument("--out", type=Path, default=Path("abc-toy-output"), help="output folder")
parser.add_argument("--seed", type=int, default=0, help="seed of the data and the simulations")
parser.add_argument("--quick", action="store_true", help="fewer simulations")
options = parser.parse_args()
options.out.mkdir(parents=True, exist_ok=True)
simulations = 600 if options.quick else 2000
simulate, prior = vectorize(uniforms(400)), uniform_prior()
observed = simulate(np.random.default_rng(options.seed), {"pi": WEIGHTS[None]})[0]
exact = uniform_posterior(observed)
truth = exact / exact.sum()
truth_sd = np.sqrt(truth * (1.0 - truth) / (exact.sum() + 1.0))

# %%
# Runs
# ----
# All epsilons of a run weight the same simulations. The sequential method moves its particles to
# successively smaller epsilons instead.


def moments(sample):
    return [sample.mean(), sample.var()]


common = {"seed": options.seed, "progress": False}
learned = select_kernel(observed, "bkl")
print(
    f"lengthscale {select_kernel(observed, 'median').lengthscale:.2f} by the median heuristic, "
    f"{learned.lengthscale:.2f} learned"
)
runs = {
    "K2-ABC, median": k2_abc(observed, simulate, prior, num_simulations=simulations, **common),
    "K2-ABC, learned": k2_abc(
        observed, simulate, prior, kernel=learned, num_simulations=simulations, **common
    ),
    "mean and variance": abc(
        observed,
        simulate,
        prior,
        distance=Summaries(observed, moments, scale=[0.5, 0.7]),
        num_simulations=10 * simulations,
        **common,
    ),
}
sequential = sequential_k2_abc(
    observed,
    simulate,
    prior,
    kernel=learned,
    num_particles=simulations // 20,
    num_simulations=simulations,
    min_acceptance_rate=0.02,
    **common,
)


def moments_of(run, at):
    """Posterior means and standard deviations (5,) at one epsilon of a run."""
    points = run["posterior"]["pi"].values[0]
    weight = run["sample_stats"]["weight"].values[0, :, at]
    mean = weight @ points
    return mean, np.sqrt(weight @ (points - mean) ** 2)


def error(mean):
    return float(np.sqrt(np.mean((mean - truth) ** 2)))


curves = {}
for name, run in runs.items():
    squared = run["sample_stats"]["squared_distance"].values[0]
    nearest = np.quantile(squared - squared.min(), 0.002)
    runs[name] = by_epsilon = with_epsilon(run, nearest * np.geomspace(0.3, 1000.0, 25))
    means = [moments_of(by_epsilon, at)[0] for at in range(25)]
    curves[name] = (
        by_epsilon["sample_stats"]["ess"].values,
        np.array([error(mean) for mean in means]),
    )
summaries = {"exact": (truth, truth_sd)}
for name, run in runs.items():
    ess = run["sample_stats"]["ess"].values
    summaries[name] = moments_of(run, int(np.argmin(np.abs(np.log(ess / 30.0)))))
summaries["K2-ABC, learned, sequential"] = moments_of(sequential, 0)
print(f"sequential: {sequential.attrs['stopped']}")
for name, (mean, sd) in summaries.items():
    print(f"{name:>27}: mean {mean.round(3)}, sd {sd.round(3)}, error {error(mean):.3f}")

# %%
# Figure
# ------

COLORS = {
    "exact": "#4D4D4D",
    "K2-ABC, median": "#E69F00",
    "K2-ABC, learned": "#56B4E9",
    "K2-ABC, learned, sequential": "#0072B2",
    "mean and variance": "#D55E00",
}
figure, (left, right) = plt.subplots(
    1, 2, figsize=(10.5, 4.2), width_ratios=(1.5, 1.0), layout="constrained"
)
positions = np.arange(INTERVALS)
for j, (name, color) in enumerate(COLORS.items()):
    mean, sd = summaries[name]
    bars = {"color": color, "ecolor": "black", "capsize": 2, "label": name}
    low = np.minimum(2.0 * sd, mean)  # weights are not negative
    left.bar(positions + 0.17 * (j - 2.0), mean, 0.17, yerr=(low, 2.0 * sd), **bars)
left.set_xticks(positions, [f"[{i}, {i + 1}]" for i in positions])
left.set(xlabel="interval", ylabel="weight", ylim=(0.0, 0.75))
left.set_title("(A) posterior mean and two standard deviations", loc="left")
left.legend(fontsize="small", frameon=False)
for name, (ess, errors) in curves.items():
    used = ess > 5.0
    right.plot(ess[used], errors[used], color=COLORS[name], marker="o", markersize=3, label=name)
label = "K2-ABC, learned, sequential"
right.axhline(error(summaries[label][0]), color=COLORS[label], linestyle="--", label=label)
right.set(xscale="log", yscale="log", xlabel="effective sample size", ylabel="error of the mean")
right.invert_xaxis()
ticks = [0.01, 0.02, 0.05, 0.1, 0.2]
right.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
right.yaxis.set_minor_formatter(NullFormatter())
right.set_title("(B) as epsilon falls", loc="left")
right.set_ylim(bottom=0.007)
right.legend(fontsize="small", frameon=False, loc="lower left", bbox_to_anchor=(0.0, 0.25))
figure.savefig(options.out / "abc_toy.png", dpi=130)
record = {
    "observations": len(observed),
    "simulations": simulations,
    "mean": {name: mean.tolist() for name, (mean, _) in summaries.items()},
    "sd": {name: sd.tolist() for name, (_, sd) in summaries.items()},
    "error": {name: error(mean) for name, (mean, _) in summaries.items()},
}
(options.out / "abc_toy.json").write_text(json.dumps(record, indent=1) + "\n")
print(f"Written: {options.out / 'abc_toy.png'} and abc_toy.json")
