"""
Two mixtures: a posterior with two modes, and the witness in each
=================================================================

Figures 3, 4 and 5 of Flaxman, Sejdinovic, Cunningham and Filippi, *Bayesian Learning of Kernel
Embeddings* (UAI 2016), on data drawn as described there. P is a mixture of three normal
distributions, and Q of three Laplace distributions with the same means and standard deviations.
The posterior of the lengthscale has a mode at the scale of the components and one at the scale of
the mixture, and chains do not cross between them.

Run it as ``python figure3to5.py --out FOLDER``, which takes one or two minutes on two cores;
``--quick`` is a short run that only checks that it works.
"""

import argparse
from pathlib import Path

import numpy as np
from bke.inference import (
    Nuts,
    compare,
    diagnose,
    fit,
    normal_laplace,
    normal_laplace_density,
    plot_densities,
    plot_profile,
    plot_rank,
    plot_samples,
    plot_trace,
    plot_witness,
    reweight,
    sample_witness,
    save_run,
)
from numpyro.infer import init_to_uniform

parser = argparse.ArgumentParser(description="BKE Figures 3, 4 and 5.")
parser.add_argument("--out", type=Path, default=Path("figure3to5-output"), help="output folder")
parser.add_argument(
    "--seed", type=int, default=0, help="seed of the data, the chains and the witness"
)
parser.add_argument("--quick", action="store_true", help="fewer points, fewer and shorter chains")
options = parser.parse_args()
options.out.mkdir(parents=True, exist_ok=True)


def saved(figure, name):
    """Save a figure in the output folder and return it."""
    figure.savefig(options.out / f"{name}.png")
    return figure


# %%
# Figure 3: the two densities
# ---------------------------
# Means and standard deviations are equal, so a test must detect the shape of the components.

line = np.linspace(-7, 7, 600)
saved(plot_densities(line, *normal_laplace_density(line)), "figure3")

# %%
# A hundred rows of each component of each mixture, 600 in all.

P, Q = normal_laplace(seed=options.seed, per_component=20 if options.quick else 100)
saved(plot_samples(P, Q, densities=normal_laplace_density), "samples")

# %%
# Figure 4: the posterior of the lengthscale
# ------------------------------------------
# One lengthscale for the pooled sample, with a Gamma(1, 1) prior in the units of the data
# (``standardize=None``), by NUTS with 8 chains of 200 warmup iterations and 500 draws. The initial
# values are those of Stan, uniform on [-2, 2] for the log lengthscale. The density is zero at 0.523
# and 0.546, within the short mode. Only long steps cross such zeros: with a target acceptance
# probability of 0.5 the bulk ESS within that mode is above 100, and with the usual 0.8 it is 14
# after twice as many draws.

sampler = Nuts(num_samples=500, target_accept_prob=0.5, init_strategy=init_to_uniform)
if options.quick:
    sampler = Nuts(num_chains=4, num_warmup=40, num_samples=30)
run = fit(
    np.concatenate([P, Q]), standardize=None, method=sampler, seed=options.seed, progress=False
)
save_run(run, options.out / "run.nc")
run = reweight(run, progress=False)  # posterior masses of the modes, from the density
print(diagnose(run))

# %%
# The color of a chain is that of its mode; stuck chains are gray.

saved(plot_trace(run), "figure4")

# %%
# The rank plot agrees: all chains together disagree, and chains within a mode agree better.

saved(plot_rank(run), "rank")

# %%
# With one hyperparameter the density can be plotted. The density between the modes is so low that
# no chain crosses it. The number of chains in each mode depends on their initial values and not on
# the posterior mass of the mode.

saved(plot_profile(run), "profile")

# %%
# Figure 5: the witness
# ---------------------
# One draw of the witness function per draw of the lengthscale, with 80 % bands: within each mode
# (A, B); over all chains with equal weights (C), as in the paper, where the weight of a mode is the
# number of chains that started near it; and by posterior mass, which is the posterior average. The
# noise of the embedding is its sampling covariance. The bands are pointwise. ``compare`` tests
# whether the samples differ.

answer = compare(P, Q, progress=False)
print(answer)

# Few short chains may miss the mode with the posterior mass; their average is then wrong.
weights = "chains" if options.quick else "posterior"
witness = sample_witness(run, P, Q, weights=weights, seed=options.seed, progress=False)
saved(plot_witness(witness, 0.8, P, Q, run=run, as_figure5=True), "figure5")

# %%
# With the paper's noise variance of 0.1, which is much larger than the sampling variance, the bands
# contain zero everywhere. (The axis differs from the one above.)

paper = sample_witness(run, P, Q, noise=0.1, weights="chains", seed=options.seed, progress=False)
saved(plot_witness(paper, 0.8, P, Q, run=run, as_figure5=True), "figure5-noise0.1")
