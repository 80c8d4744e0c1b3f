"""
Calm and windy days: ozone in Los Angeles
=========================================

Does the air differ between calm and windy days, and where? Two samples are compared by their kernel
embeddings: the lengthscale of the kernel is learned from the pooled sample, with its uncertainty,
and the witness function :math:`\\mu_P - \\mu_Q` shows where one group has more days than the other.

The data are 330 days of 1976 in the Los Angeles basin, from L. Breiman and J. H. Friedman,
*Estimating optimal transformations for multiple regression and correlation*, Journal of the
American Statistical Association 80 (1985), 580-598. Days follow each other, so they are not
independent: the tests and bands below assume independence and therefore see somewhat too much.

Run it as ``python ozone.py --out FOLDER``; ``--quick`` only shows that it works.
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
parser.add_argument("--out", type=Path, default=Path("ozone-output"), help="folder of the files")
parser.add_argument("--quick", action="store_true", help="few short chains on part of the days")
options = parser.parse_args()
options.out.mkdir(parents=True, exist_ok=True)

LEVEL = 0.8
SEED = 1
common = {"seed": SEED, "progress": not options.quick}
chains = Nuts(num_chains=6, num_warmup=100, num_samples=100)
if options.quick:
    chains = Nuts(num_chains=2, num_warmup=20, num_samples=10)
# A few short chains may miss the mode that holds the mass, and then are no posterior average.
WEIGHTS = "chains" if options.quick else "posterior"


def save(figure, name):
    """Write a picture to the output folder."""
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
    """The named columns of the calm days and of the windy days."""
    values = np.stack([days[column] for column in columns], axis=1)
    return values[calm], values[windy]


# %%
# What a run found, in words
# --------------------------
# Whether and where the groups differ is the answer of ``compare``, which holds at a stated level;
# the posterior of the pooled days says how smooth their distribution is, and what the witness is.
# Nothing below is written in advance: the sentences are put together from the run. Every mode of
# the posterior is described by itself, since an average over chains would weight the modes by where
# the chains started.


def describe(run, diagnosis, witness):
    """Print the dither, the diagnosis, the lengthscales and the extremes of the witness."""
    for column, unit in settings(run)["dither"].items():
        if unit:
            print(f"{column} is rounded to {unit:g}: noise within that unit was added.")
    print(diagnosis)
    found = witness_summary(witness, diagnosis.modes, LEVEL)
    for posterior, bands in zip(
        posterior_summary(run, diagnosis.modes)["modes"], found["modes"], strict=True
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
# Ozone is a whole number of parts per hundred million. Between rounded values the neighbours of a
# day can balance exactly, which makes its Jacobian factor, and with it the density of the data,
# zero. ``fit`` detects this, adds noise within the rounding unit and records that it did.

print("\nOzone\n-----")
P, Q = two_samples("Ozone")
compared = compare(P, Q, columns=["Ozone"], progress=False)
print(compared)
run = fit(np.concatenate([P, Q]), columns=["Ozone"], method=chains, **common)
run = reweight(run, progress=False)  # with the posterior mass of every mode
diagnosis = diagnose(run)
witness = sample_witness(run, P, Q, weights=WEIGHTS, seed=SEED, progress=False)
describe(run, diagnosis, witness)
save_run(run, options.out / "ozone.nc")

# %%
# Where the chains have been, coloured by mode, and the profile of the posterior density, which also
# shows modes that no chain visited.

save(plot_samples(P, Q, columns=["Ozone"]), "ozone-samples")
save(plot_trace(run), "ozone-trace")
save(plot_rank(run), "ozone-rank")
save(plot_profile(run), "ozone-profile")

# %%
# Where the comparison names a difference; and the witness at the lengthscales of the pooled days
# with its bands, positive where calm days have the larger share.

save(compared.plot(), "ozone-comparison")
save(plot_witness(witness, level=LEVEL, P=P, Q=Q, run=run), "ozone-witness")

# %%
# Two dimensions: temperature and humidity
# ----------------------------------------
# (The inversion height is cut off at 5000 ft, on 95 days: no density there, so it is left out.)
#
# A vector-valued prior gives one lengthscale per column (automatic relevance determination): a long
# one says that the column matters little for the shape of the data. The prior is on the lengthscale
# over each column's standard deviation; results are in degrees Fahrenheit and in per cent.

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
# With several lengthscales there is no profile: modes are judged from paths between the chains.

save(plot_samples(P, Q, columns=["Temp", "Hum"]), "temp-hum-samples")
save(plot_trace(run), "temp-hum-trace")
save(plot_rank(run), "temp-hum-rank")

# %%
# The same as a map: where calm days have the larger share and where windy ones do.

save(compared.plot(), "temp-hum-comparison")
save(plot_witness(witness, level=LEVEL, P=P, Q=Q, run=run), "temp-hum-witness")
print(f"\nPictures and runs are in {options.out}.")
