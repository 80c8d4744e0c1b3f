r"""
Ozone on calm and windy days in Los Angeles
===========================================

The example compares the air of calm and windy days. It learns the lengthscale of the kernel from
the pooled sample, with its uncertainty. The witness function :math:`\mu_P - \mu_Q` shows where
one group has the higher density, and ``compare`` tests whether the groups differ.

The data are 330 days of 1976 in the Los Angeles basin, from L. Breiman and J. H. Friedman,
*Estimating optimal transformations for multiple regression and correlation*, Journal of the
American Statistical Association 80 (1985), 580-598. Successive days are correlated. The tests and
bands assume independent rows, so their p-values are too small and their bands too narrow.

Run it as ``python ozone.py --out FOLDER``; ``--quick`` only checks that it works.
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import numpyro.distributions as dist
from bke.inference import (
    Nuts,
    compare,
    diagnose,
    fit,
    plot_profile,
    plot_rank,
    plot_samples,
    plot_trace,
    plot_witness,
    read_sample,
    reweight,
    sample_witness,
    save_run,
)
from bke.inference.diagnostics.summary import posterior_summary, settings
from bke.inference.witness.summary import witness_summary

parser = argparse.ArgumentParser(description="Ozone on calm and on windy days.")
parser.add_argument("--out", type=Path, default=Path("ozone-output"), help="output folder")
parser.add_argument("--quick", action="store_true", help="few short chains on part of the days")
options = parser.parse_args()
options.out.mkdir(parents=True, exist_ok=True)

LEVEL = 0.8
SEED = 1
common = {"seed": SEED, "progress": not options.quick}
chains = Nuts(num_chains=6, num_warmup=100, num_samples=100)
if options.quick:
    chains = Nuts(num_chains=2, num_warmup=20, num_samples=10)
# Few short chains may miss the mode with the posterior mass; their average is then wrong.
WEIGHTS = "chains" if options.quick else "posterior"


def save(figure, name):
    """Save a figure in the output folder."""
    figure.savefig(options.out / f"{name}.png", dpi=150)
    plt.close(figure)


# %%
# Two groups of days
# ------------------
# The wind is recorded in whole miles per hour. Splitting at the median gives two groups of similar
# size; the threshold and the counts are printed.

table = read_sample(Path(__file__).parent / "data" / "ozone.csv")
days = dict(zip(table.columns, table.values.T, strict=True))
threshold = np.median(days["Wind"])
keep = np.arange(len(table.values)) % 4 == 0 if options.quick else np.full(len(table.values), True)
calm, windy = keep & (days["Wind"] < threshold), keep & (days["Wind"] >= threshold)
print(
    f"P: {calm.sum()} calm days (wind below {threshold:g} mph); "
    f"Q: {windy.sum()} windy days ({threshold:g} mph or more)."
)


def two_samples(*columns):
    """Return columns of the calm days and of the windy days."""
    values = np.stack([days[column] for column in columns], axis=1)
    return values[calm], values[windy]


# %%
# Summary of a run
# ----------------
# ``compare`` tests whether the groups differ, at a stated level, and reports where. The posterior
# of the pooled days gives the lengthscale of their distribution and the witness function. All
# sentences are generated from the run. Each mode of the posterior is described separately, because
# an average over chains would weight the modes by the initial values of the chains.


def describe(run, diagnosis, witness):
    """Print the dither, the diagnosis, the lengthscales and the extremes of the witness."""
    for column, unit in settings(run)["dither"].items():
        if unit:
            print(f"{column} is rounded to {unit:g}: noise within that unit was added.")
    print(diagnosis)
    summary = witness_summary(witness, diagnosis.modes, LEVEL)
    for posterior, bands in zip(
        posterior_summary(run, diagnosis.modes)["modes"], summary["modes"], strict=True
    ):
        if not posterior["draws"]:
            print(f"Mode {posterior['mode']}: no draws, except of chains named as stuck above.")
            continue
        print(f"Mode {posterior['mode']} ({posterior['draws']} draws):")
        for name, values in posterior["hyperparameters"].items():
            print(
                f"  {name} {values['q50']:.3g} (80 % between {values['q10']:.3g} "
                f"and {values['q90']:.3g})"
            )
        for end in (bands["largest"], bands["smallest"]):
            at = ", ".join(f"{column} {value:.3g}" for column, value in end["at"].items())
            print(
                f"  witness {end['mean']:.3f} at {at} (pointwise {LEVEL:.0%} band "
                f"{end['lower']:.3f} to {end['upper']:.3f})"
            )


# %%
# One dimension: ozone
# --------------------
# Ozone is a whole number of parts per hundred million. With rounded values the terms of the
# Jacobian factor of a day can cancel exactly, so that the density of the data is zero. ``fit``
# detects this, adds noise within the rounding unit and records it in the run.

print("\nOzone\n-----")
P, Q = two_samples("Ozone")
compared = compare(P, Q, columns=["Ozone"], progress=False)
print(compared)
run = fit(np.concatenate([P, Q]), columns=["Ozone"], method=chains, **common)
run = reweight(run, progress=False)  # with the posterior mass of each mode
diagnosis = diagnose(run)
witness = sample_witness(run, P, Q, weights=WEIGHTS, seed=SEED, progress=False)
describe(run, diagnosis, witness)
save_run(run, options.out / "ozone.nc")

# %%
# Traces of the chains, colored by mode, and the profile of the posterior density, which also shows
# modes that no chain visited.

save(plot_samples(P, Q, columns=["Ozone"]), "ozone-samples")
save(plot_trace(run), "ozone-trace")
save(plot_rank(run), "ozone-rank")
save(plot_profile(run), "ozone-profile")

# %%
# The regions of the comparison, and the witness at the lengthscales of the pooled days with its
# bands, positive where calm days have the higher density.

save(compared.plot(), "ozone-comparison")
save(plot_witness(witness, level=LEVEL, P=P, Q=Q, run=run), "ozone-witness")

# %%
# Two dimensions: temperature and humidity
# ----------------------------------------
# (The inversion height is censored at 5000 ft on 95 days and is therefore excluded.)
#
# A vector-valued prior gives one lengthscale per column (automatic relevance determination). A long
# lengthscale means that the column has little influence on the shape of the distribution. The prior
# is on the lengthscale divided by the standard deviation of each column. Results are in degrees
# Fahrenheit and in per cent.

print("\nTemperature and humidity\n------------------------")
P, Q = two_samples("Temp", "Hum")
compared = compare(P, Q, columns=["Temp", "Hum"], progress=False)
print(compared)
run = fit(
    np.concatenate([P, Q]),
    columns=["Temp", "Hum"],
    prior=dist.Gamma(1.0, 1.0).expand([2]),
    method=chains,
    **common,
)
run = reweight(run, progress=False)
diagnosis = diagnose(run)
witness = sample_witness(run, P, Q, weights=WEIGHTS, seed=SEED, progress=False)
describe(run, diagnosis, witness)
save_run(run, options.out / "temp-hum.nc")

# %%
# With several lengthscales there is no profile: modes are found from paths between the draws of the
# chains.

save(plot_samples(P, Q, columns=["Temp", "Hum"]), "temp-hum-samples")
save(plot_trace(run), "temp-hum-trace")
save(plot_rank(run), "temp-hum-rank")

# %%
# The comparison and the witness as maps: areas in which calm days or windy days have the higher
# density.

save(compared.plot(), "temp-hum-comparison")
save(plot_witness(witness, level=LEVEL, P=P, Q=Q, run=run), "temp-hum-witness")
print(f"\nPictures and runs are in {options.out}.")
